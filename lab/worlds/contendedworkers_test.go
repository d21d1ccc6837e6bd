package worlds

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// TestWorkersThatHoldEachOtherUp: sixteen workers, of which eight at once do the most, get twice what these can do. Requests
// wait in line for sixteen, and while a line was no reason to try fewer, 0.77 to 0.91 of what the semaphore does was good.
func TestWorkersThatHoldEachOtherUp(t *testing.T) {
	w := &world.World{
		Name: "workers that hold each other up", Objective: 200 * ms, Warmup: 8 * time.Second, Length: 20 * time.Second,
		Services: []world.Service{{Name: "store", Workers: 16, Contention: world.Contention{Pair: 1.0 / 64},
			Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: &world.Draw{Shape: world.Exponential, Mean: 10 * ms}}}}}}},
		Clients: []world.Group{{Name: "web", Clients: 20, Kind: world.Plain, Deadline: 2 * time.Second,
			Ask:  []world.Ask{{Target: world.Target{Service: "store", Method: "do"}}},
			Load: world.Load{Steps: []world.Rate{{Times: 0.7}, {At: 3 * time.Second, Times: 2}}}}},
	}
	good := func(policy string) (n int) {
		for seed := range uint64(9) {
			r, err := Simulate(context.Background(), w, policy, seed+1)
			if err != nil {
				t.Fatal(err)
			}
			n += r.Groups[0].Good
		}
		return n
	}
	if ours, best := good("spillgate"), good("semaphore:8:8"); float64(ours) < 0.88*float64(best) {
		t.Errorf("%d requests are good, and %d with the semaphore", ours, best)
	}
}
