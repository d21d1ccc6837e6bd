package worlds

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// TestSecondAfterASpike: 420 clients ask for 0.4 of the capacity, two seconds long for three times of it, and for 0.4
// again. Most of them hold no credit when the spike ends, and the server does not know who wants one. In the second after
// it 20 % of the requests were refused, on average over five seeds; now 15 %.
func TestSecondAfterASpike(t *testing.T) {
	w := &world.World{
		Name: "after a spike", Objective: 100 * ms, Warmup: 2 * time.Second, Length: 5500 * ms,
		Services: []world.Service{{Name: "s", Workers: 32, Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: &world.Draw{Shape: world.Exponential, Mean: 10 * ms}}}}}}},
		Clients: []world.Group{{Name: "c", Clients: 420, Ask: []world.Ask{{Target: world.Target{Service: "s", Method: "do"}}},
			Load: world.Load{Steps: []world.Rate{{Times: 0.4}, {At: 2500 * ms, Times: 3}, {At: 4500 * ms, Times: 0.4}}}}},
		Network: world.Network{Delay: ms},
	}
	refused, offered := 0, 0
	for seed := range uint64(5) {
		r, err := Simulate(context.Background(), w, "spillgate", seed+1)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range r.Bins {
			if at := time.Duration(i) * r.Bin; at >= 4500*ms && at < 5500*ms {
				refused += b.Refused + b.Expired
				offered += b.Offered
			}
		}
	}
	if share := float64(refused) / float64(offered); share > 0.17 {
		t.Errorf("%.3f of the requests are refused in the second after a spike, want 0.17 at most", share)
	} else {
		t.Logf("%.3f of the requests are refused", share)
	}
}
