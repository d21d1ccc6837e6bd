package worlds

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// TestAfterASlowDependency: what a service calls is ten times slower for ten seconds, and as fast as before again. The
// clients hear of credits with answers alone, as over HTTP, and hold none when that is over, though the server has hundreds
// to give away. From half a second after it on, for 3.5 s, 36 % of the requests were refused, and 26 % of those of the
// second world, three seeds each; now 8 and 7 %.
func TestAfterASlowDependency(t *testing.T) {
	for _, tt := range []struct {
		clients   int
		objective time.Duration
		mean      time.Duration
		seed      uint64
		most      float64
	}{
		{400, 200 * ms, 20 * ms, 7, 0.2},
		{100, 500 * ms, 50 * ms, 25, 0.2},
	} {
		w := &world.World{
			Name: "recovers", Objective: tt.objective, Warmup: 2 * time.Second, Length: 20 * time.Second,
			Services: []world.Service{
				{Name: "front", Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: &world.Draw{Mean: tt.objective / 100}}, {Call: []world.Target{{Service: "store", Method: "do"}}}}}}},
				{Name: "store", Workers: 100, Ungated: true, Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: &world.Draw{Shape: world.Exponential, Mean: tt.mean}}}}}},
			},
			Clients: []world.Group{{Name: "c", Clients: tt.clients, ByReply: true, Ask: []world.Ask{{Target: world.Target{Service: "front", Method: "do"}}},
				Load: world.Load{Steps: []world.Rate{{PerSecond: 30 / tt.mean.Seconds()}}}}},
			Network: world.Network{Delay: ms / 4},
			Faults:  []world.Fault{{At: 6 * time.Second, For: 10 * time.Second, Service: "store", Slower: 10}},
		}
		refused, offered := 0, 0
		for seed := range uint64(3) {
			r, err := Simulate(context.Background(), w, "spillgate", tt.seed+seed)
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range r.Bins {
				if at := time.Duration(i) * r.Bin; at >= 16500*ms {
					refused += b.Refused + b.Expired
					offered += b.Offered
				}
			}
		}
		share := float64(refused) / float64(offered)
		t.Logf("%d clients: %.3f refused", tt.clients, share)
		if share > tt.most {
			t.Errorf("%d clients: %.3f of the requests are refused after the store is fast again, want %.2f at most", tt.clients, share, tt.most)
		}
	}
}
