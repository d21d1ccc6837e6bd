package worlds

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// TestLateOnesLetNobodyIn: requests share the connections of a pool, and some of them two locked rows, at twice the
// capacity. Those that wait for the rows take longer than the objective, give their slots back, and so seemed long by
// nature: the limit grew after every four ends, to three times what an objective has room for, and for a second nothing
// was in time.
func TestLateOnesLetNobodyIn(t *testing.T) {
	compute := func(mean time.Duration) world.Step { return world.Step{Compute: &world.Draw{Mean: mean}} }
	query := world.Step{Call: []world.Target{{Service: "pool", Method: "query"}}}
	many := make([]world.Step, 0, 32)
	for range 16 {
		many = append(many, compute(40*time.Microsecond), query)
	}
	ask := func(method string, weight float64) world.Ask {
		return world.Ask{Target: world.Target{Service: "app", Method: method}, Weight: weight}
	}
	w := &world.World{
		Name: "a pool and two rows", Objective: 100 * ms, Warmup: 4 * time.Second, Length: 8 * time.Second,
		Hosts: []world.Host{{Name: "box", Processors: 1, Message: -1}},
		Services: []world.Service{
			{Name: "app", Host: "box", Methods: []world.Method{
				{Name: "one", Steps: []world.Step{compute(60 * time.Microsecond), query}},
				{Name: "many", Steps: many},
				{Name: "book", Steps: []world.Step{compute(100 * time.Microsecond), {Call: []world.Target{{Service: "pool", Method: "book"}}}}},
			}},
			{Name: "pool", Host: "box", Workers: 10, Ungated: true, Locks: []world.Lock{{Name: "rows", Permits: 2}}, Methods: []world.Method{
				{Name: "query", Steps: []world.Step{compute(60 * time.Microsecond), {Wait: &world.Draw{Mean: 50 * time.Microsecond}}}},
				{Name: "book", Steps: []world.Step{compute(150 * time.Microsecond), {Wait: &world.Draw{Mean: 3600 * time.Microsecond}, Lock: "rows"}}},
			}},
		},
		Clients: []world.Group{{Name: "web", Clients: 50, Kind: world.Plain, Deadline: time.Second, Ask: []world.Ask{ask("one", 70), ask("many", 15), ask("book", 15)},
			Load: world.Load{Steps: []world.Rate{{Times: 0.7}, {At: 4 * time.Second, Times: 2}}}}},
	}
	room := int(w.WithDefaults().Capacity(0) * w.Objective.Seconds())
	for seed := range uint64(10) {
		r, err := Simulate(context.Background(), w, "spillgate", seed+1)
		if err != nil {
			t.Fatal(err)
		}
		for i, limit := range r.Services[0].Limits {
			if limit > 2*room {
				t.Errorf("seed %d: the limit is %d after %.1f s, and an objective has room for %d", seed+1, limit, float64(i)/10, room)
				break
			}
		}
	}
}
