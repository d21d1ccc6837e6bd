package worlds

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// TestHandlersThatComputeAndWait: handlers compute a little and then wait, behind a gate in their own process on its only
// processor. At seven tenths of the capacity next to nothing is refused, and in an overload at least nine tenths of what
// the best semaphore gets done are in time, or 0.85 where a wait is long beside the computing. Before the gate knew that
// its own trials end a shortage of processors it was half. wild/hosts has more of these, and says where they fall short.
func TestHandlersThatComputeAndWait(t *testing.T) {
	for _, c := range []struct {
		compute, wait time.Duration
		least         float64
	}{{1500 * time.Microsecond, 8 * ms, 0.9}, {ms, 50 * ms, 0.85}, {3 * ms, 8 * ms, 0.9}} {
		for _, load := range []float64{0.7, 1, 1.5, 2} {
			t.Run(fmt.Sprintf("%v and %v, %vx", c.compute, c.wait, load), func(t *testing.T) {
				w := &world.World{
					Name: "computes and waits", Objective: 200 * ms, Length: 16 * time.Second,
					Hosts: []world.Host{{Name: "box", Processors: 1}},
					Services: []world.Service{{Name: "app", Host: "box", Methods: []world.Method{{Name: "do", Steps: []world.Step{
						{Compute: &world.Draw{Mean: c.compute}}, {Wait: &world.Draw{Mean: c.wait}}}}}}},
					Clients: []world.Group{{Name: "web", Clients: 50, Kind: world.Plain, Deadline: time.Second,
						Ask: []world.Ask{{Target: world.Target{Service: "app", Method: "do"}}}, Load: world.Load{Steps: []world.Rate{{Times: load}}}}},
				}
				play := func(policy string) (good, refused float64) {
					r, err := Simulate(context.Background(), w, policy, 1)
					if err != nil {
						t.Fatal(err)
					}
					g := r.Groups[0]
					return float64(g.Good) / 16, float64(g.Refused) / float64(g.Offered)
				}
				mine, refused := play("spillgate")
				best := 0.0
				for _, p := range []string{"semaphore:8:8", "semaphore:16:8", "semaphore:16:51", "semaphore:64:38"} {
					good, _ := play(p)
					best = max(best, good)
				}
				if mine < c.least*best {
					t.Errorf("%.0f/s of the best semaphore's %.0f/s", mine, best)
				}
				if load < 1 && refused > 0.005 {
					t.Errorf("%.1f %% refused below the capacity", 100*refused)
				}
			})
		}
	}
}
