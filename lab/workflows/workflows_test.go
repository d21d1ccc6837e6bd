package workflows

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/sim/mesh"
)

// TestAtEntry: what clients and the first service refused, of all, between two
// looks.
func TestAtEntry(t *testing.T) {
	report := func(client, entry, below int) *mesh.Report {
		r := &mesh.Report{Services: make([]mesh.ServiceCount, 2)}
		r.ClientSheds[1], r.Services[0].Sheds[6], r.Services[1].Sheds[6] = client, entry, below
		return r
	}
	if got := atEntry(report(5, 5, 50), report(25, 35, 60)); got != 50.0/60 {
		t.Errorf("got %v, expected 50 of 60", got)
	}
}

// TestAdmittedRatio: what was let in and has no answer counts as one that missed.
func TestAdmittedRatio(t *testing.T) {
	flows, mix := mesh.StorageMix(mesh.Deadline{Multiple: 4})
	w, err := mesh.New(mesh.Config{Seed: 1, Services: mesh.Storage(2), Workflows: flows, Control: mesh.Timeouts(),
		Groups: []mesh.Group{{Mix: mix, Load: mesh.Constant(850)}}, Length: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Run()
	if err != nil {
		t.Fatal(err)
	}
	n := &r.Total
	missed := float64(n.GaveUp) / float64(n.Good+n.Late+n.GaveUp)
	if missed < 0.01 || missed > 0.9 {
		t.Fatalf("%.3f missed: not the case to test", missed)
	}
	if q := admittedRatio(n, 1-missed*0.9); q <= 1 {
		t.Errorf("the quantile among those given up is %v, expected above 1", q)
	}
	if q := admittedRatio(n, 1-missed*1.1); !(q > 0 && q <= 1) {
		t.Errorf("the quantile among those answered is %v, expected at most 1", q)
	}
}
