package workflowslive

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
)

// The test binary is also the program of the children.
func TestMain(m *testing.M) {
	bed.Child(Peers()...)
	leaks.Verify(m)
}

// TestAllTiersTakePart: requests pass through all processes and locks and are accounted for;
// only with rates is anything refused at the entry. What takes time on a machine that has none
// for these processes, answers and rates, is looked for in runs of up to sixteen times the length.
func TestAllTiersTakePart(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("starts pinned processes")
	}
	for _, c := range []string{deadlines, rated, ratedFair} {
		for name, world := range map[string]func(times time.Duration) *world.World{
			"isolation": func(times time.Duration) *world.World { return isolationWorld(200*ms, times*600*ms, times*300*ms) },
			"hotspot":   func(times time.Duration) *world.World { return hotspotWorld(200*ms, times*400*ms, times*100*ms) },
		} {
			t.Run(c+", "+name, func(t *testing.T) {
				t.Parallel() // each of them mostly waits
				missing := ""
				for times := time.Duration(1); times <= 16; times *= 4 {
					if missing = takePart(t, world(times), c); missing == "" {
						return
					}
				}
				t.Error(missing)
			})
		}
	}
}

// takePart plays a world under a control, checks what holds of every run, and returns what it
// may have been too short for, "" if nothing.
func takePart(t *testing.T, w *world.World, control string) (missing string) {
	t.Helper()
	for _, mistake := range w.Check() {
		t.Fatal(mistake)
	}
	p, err := bed.Play(t.Context(), w, control, 7, Peers()...)
	if err != nil {
		t.Fatal(err)
	}
	if p.Used() <= 0 {
		t.Error("the servers used no processor")
	}
	for i, g := range p.Report.Groups {
		s := p.Stretch(i, 0, math.MaxInt64)
		if s.Offered == 0 || s.By[bed.Failed] > 0 || s.Offered != len(p.Requests[i]) {
			t.Errorf("%s: %d of %d, by %v", g.Name, s.Offered, len(p.Requests[i]), s.By)
		}
		refused := s.By[bed.Refused]
		if control == deadlines && refused > 0 {
			t.Errorf("%s: %d refused at the entry without rates", g.Name, refused)
		}
		if s.Answered() == 0 || control != deadlines && g.Name == "F" && refused == 0 {
			missing = fmt.Sprintf("%s: of %d, some must be answered, and with rates some of F refused at the entry; by %v", g.Name, s.Offered, s.By)
		}
	}
	for _, s := range p.Report.Services {
		if s.Finished == 0 {
			missing = s.Name + " did nothing"
		}
	}
	return missing
}

// TestStretchesAskForTheSame: the requests of a workflow repeat after those of one stretch.
func TestStretchesAskForTheSame(t *testing.T) {
	w := isolationWorld(time.Second, 5*time.Second, time.Second)
	for i, want := range []int{victimRate * 5, victimRate * 5, victimRate * 5, victimRate * 5, int(5 * 5 * aggressorShare())} {
		if got := w.Clients[i].Cycle; got != want {
			t.Errorf("%s repeats after %d requests, want %d", w.Clients[i].Name, got, want)
		}
	}
}
