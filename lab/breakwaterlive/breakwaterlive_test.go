package breakwaterlive

import (
	"os"
	"testing"
	"time"

	"github.com/spillgate/spillgate/lab/worlds"
)

func TestMain(m *testing.M) {
	Child() // does not return in the processes of a run
	os.Exit(m.Run())
}

// Every policy plays, and every request ends in one way. A busy machine may refuse all or
// answer late, so nothing is said of how.
func TestEveryPolicyPlays(t *testing.T) {
	s := &setting{mean: 100 * time.Microsecond, shape: worlds.Bimodal, tuning: tuning{SLO: 20 * time.Millisecond, Mean: 100 * time.Microsecond, Capacity: 5000}}
	for _, policy := range policies() {
		p, err := s.play(t.Context(), policy, crowdOrder{Seed: 1, Clients: 4, Steps: []step{{500, 100 * time.Millisecond}}, Bin: 10 * time.Millisecond})
		if err != nil {
			t.Fatalf("%s: %v", policy, err)
		}
		if ended := p.Good + p.Late + p.Refused + p.Unsent + p.Failed; p.Offered == 0 || ended != p.Offered {
			t.Errorf("%s: %d offered, %d ended", policy, p.Offered, ended)
		}
		if all := sum(p.Bins); all.Offered != p.Offered || all.Good != p.Good {
			t.Errorf("%s: bins have %d offered and %d good, of %d and %d", policy, all.Offered, all.Good, p.Offered, p.Good)
		}
		if p.Failed > 0 {
			t.Errorf("%s: %d failed", policy, p.Failed)
		}
	}
}

// A closed loop finds a capacity and an SLO.
func TestMeasure(t *testing.T) {
	s := &setting{mean: 50 * time.Microsecond, shape: worlds.Constant}
	var err error
	// A machine that stands still for all of a run answers nothing in it.
	for length := 300 * time.Millisecond; length < 20*time.Second; length *= 2 {
		if _, err = s.measure(t.Context(), 1, length); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	// A request spins 50 µs, so a core answers no more than 20,000 a second.
	if s.Capacity <= 0 || s.Capacity > 20_000 || s.SLO < 500*time.Microsecond {
		t.Errorf("capacity %.0f/s, SLO %v", s.Capacity, s.SLO)
	}
}

func TestConverged(t *testing.T) {
	bins := make([]bin, 100)
	for i := range bins {
		if bins[i].Good = 10; i >= 20 && i < 33 {
			bins[i].Good = 1
		}
	}
	if got := converged(bins, 20, 80); got != 18 { // five full bins from the 13th on
		t.Errorf("converged after %d bins, expected 18", got)
	}
	if got := converged(make([]bin, 100), 20, 80); got >= 0 {
		t.Errorf("converged after %d bins although nothing was answered", got)
	}
}
