package workflowslive

import (
	"math"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
)

// The test binary is also the program of the children.
func TestMain(m *testing.M) {
	bed.Child(Peers()...)
	goleak.VerifyTestMain(m)
}

// TestAllTiersTakePart: requests pass through all processes and locks and are accounted for;
// only with rates is anything refused at the entry.
func TestAllTiersTakePart(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("starts pinned processes")
	}
	short := func(w *world.World) *world.World {
		for _, mistake := range w.Check() {
			t.Fatal(mistake)
		}
		return w
	}
	for _, c := range []string{deadlines, rated, ratedFair} {
		for _, w := range []*world.World{short(isolationWorld(200*ms, 600*ms, 300*ms)), short(hotspotWorld(200*ms, 400*ms, 100*ms))} {
			t.Run(c+", "+w.Name, func(t *testing.T) {
				p, err := bed.Play(t.Context(), w, c, 7, Peers()...)
				if err != nil {
					t.Fatal(err)
				}
				if p.Used() <= 0 {
					t.Error("the servers used no processor")
				}
				for i, g := range p.Report.Groups {
					s := p.Stretch(i, 0, math.MaxInt64)
					if s.Offered == 0 || s.Answered() == 0 || s.By[bed.Failed] > 0 || s.Offered != len(p.Requests[i]) {
						t.Errorf("%s: %d of %d, by %v", g.Name, s.Offered, len(p.Requests[i]), s.By)
					}
					switch refused := s.By[bed.Refused]; {
					case c == deadlines && refused > 0:
						t.Errorf("%s: %d refused at the entry without rates", g.Name, refused)
					case c != deadlines && g.Name == "F" && refused == 0:
						t.Errorf("F: none of %d refused at the entry, by %v", s.Offered, s.By)
					}
				}
				for _, s := range p.Report.Services {
					if s.Finished == 0 {
						t.Errorf("%s did nothing", s.Name)
					}
				}
			})
		}
	}
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
