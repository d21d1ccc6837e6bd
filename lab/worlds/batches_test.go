package worlds

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// TestBatches: a server works in batches at two fifths of its capacity. Nothing need be refused. The first few ends of
// each batch looked like those of a server behind which a queue builds up, and 6 % of the requests were refused.
func TestBatches(t *testing.T) {
	jitter := world.Step{Wait: &world.Draw{Shape: world.Exponential, Mean: 600 * time.Microsecond}}
	w := &world.World{
		Name: "batches", Objective: 100 * ms, Warmup: 3 * time.Second, Length: 16 * time.Second,
		Services: []world.Service{{Name: "api", Locks: []world.Lock{{Name: "batch", Permits: 14, Batch: true}},
			Methods: []world.Method{{Name: "do", Steps: []world.Step{jitter, {Lock: "batch", Wait: &world.Draw{Mean: 30 * ms}}, jitter}}}}},
		Clients: []world.Group{{Name: "users", Clients: 23, Kind: world.Plain, Ask: []world.Ask{{Target: world.Target{Service: "api", Method: "do"}}},
			Load: world.Load{Steps: []world.Rate{{PerSecond: 187}}}}},
	}
	refused, offered := 0, 0
	for seed := range uint64(20) {
		r, err := Simulate(context.Background(), w, "spillgate", seed+1)
		if err != nil {
			t.Fatal(err)
		}
		refused, offered = refused+r.Groups[0].Refused, offered+r.Groups[0].Offered
	}
	if float64(refused) > 0.005*float64(offered) {
		t.Errorf("%d of %d requests are refused", refused, offered)
	}
}
