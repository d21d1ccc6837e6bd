package worlds

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// TestOutOfReachOfMostCallers: a service takes one objective and more, at random, and its callers leave after one; handlers
// stop with them. Below the capacity of its workers all should run, as without a gate. Six of eight that leave are chance there,
// and asked for a quarter of the limit each time: 70 and 47 % of what is possible was in time.
func TestOutOfReachOfMostCallers(t *testing.T) {
	for mean, least := range map[time.Duration]float64{100 * ms: 0.9, 150 * ms: 0.7} {
		w := &world.World{
			Name: "out of reach", Objective: 100 * ms, Warmup: 5 * time.Second, Length: 25 * time.Second,
			Services: []world.Service{{Name: "api", Workers: 8, Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: &world.Draw{Shape: world.Exponential, Mean: mean}}}}}}},
			Clients: []world.Group{{Name: "web", Clients: 20, Kind: world.Plain, Ask: []world.Ask{{Target: world.Target{Service: "api", Method: "do"}}},
				Load: world.Load{Steps: []world.Rate{{Times: 0.6}}}}},
		}
		mine, none := 0, 0
		for seed := range uint64(8) {
			for policy, good := range map[string]*int{"spillgate": &mine, "none": &none} {
				r, err := Simulate(context.Background(), w, policy, seed+1)
				if err != nil {
					t.Fatal(err)
				}
				*good += r.Groups[0].Good
			}
		}
		if float64(mine) < least*float64(none) {
			t.Errorf("where the work takes %v on average: %d requests are in time, and %d without a gate", mean, mine, none)
		}
	}
}
