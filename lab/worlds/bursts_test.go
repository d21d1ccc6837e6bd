package worlds

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// TestBurstsOfCallersWhoLeave: bursts of several objectives, after which the server can work off what waits. No answer can
// be late, because callers leave after an objective, so requests should wait as long as they may be in time. While each
// burst passed for an overload that goes on, a queue that was kept short left the server idle after it, and 0.91 of
// what the semaphore does was good. The index of dispersion of real arrivals is a hundred and more.
func TestBurstsOfCallersWhoLeave(t *testing.T) {
	w := &world.World{
		Name: "bursts", Objective: 200 * ms, Warmup: 4 * time.Second, Length: 34 * time.Second,
		Services: []world.Service{{Name: "api", Workers: 2, Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: &world.Draw{Mean: 40 * ms}}}}}}},
		Clients: []world.Group{{Name: "users", Clients: 20, Kind: world.Plain, Ask: []world.Ask{{Target: world.Target{Service: "api", Method: "do"}}},
			Load: world.Load{Steps: []world.Rate{{Times: 0.2}, {At: time.Second, Times: 6, For: 700 * ms, Every: 3 * time.Second}}}}},
	}
	good := func(policy string) (n int) {
		for seed := range uint64(5) {
			r, err := Simulate(context.Background(), w, policy, seed+1)
			if err != nil {
				t.Fatal(err)
			}
			n += r.Groups[0].Good
		}
		return n
	}
	if ours, best := good("spillgate"), good("semaphore:2:8"); float64(ours) < 0.92*float64(best) {
		t.Errorf("%d requests are good, and %d with the semaphore", ours, best)
	}
}
