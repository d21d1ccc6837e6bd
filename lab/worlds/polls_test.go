package worlds

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// TestPollsThatComeAgainAtOnce: long polls that are asked for again at once when they are refused, beside requests that
// compute, on two processors at six tenths of their capacity. Whenever the limit fell for the sake of the processors, polls
// took each slot that became free, and in three of five seeds hardly any request was served.
func TestPollsThatComeAgainAtOnce(t *testing.T) {
	w := &world.World{
		Name: "polls come again", Objective: 500 * ms, Warmup: 3 * time.Second, Length: 20 * time.Second,
		Hosts: []world.Host{{Name: "box", Processors: 2}},
		Services: []world.Service{{Name: "api", Host: "box", Methods: []world.Method{
			{Name: "do", Steps: []world.Step{{Compute: &world.Draw{Mean: 40 * ms}}, {Wait: &world.Draw{Shape: world.Exponential, Mean: 10 * ms}}}},
			{Name: "poll", Idle: true, Steps: []world.Step{{Wait: &world.Draw{Shape: world.Exponential, Mean: 3500 * ms}}}},
		}}},
		Clients: []world.Group{
			{Name: "users", Clients: 25, Kind: world.Plain, Retry: world.Retry{Attempts: 3, Backoff: 50 * ms},
				Ask: []world.Ask{{Target: world.Target{Service: "api", Method: "do"}}}, Load: world.Load{Steps: []world.Rate{{Times: 0.6}}}},
			{Name: "polls", Clients: 23, Kind: world.Plain, Deadline: -1, Load: world.Load{Users: 23},
				Ask: []world.Ask{{Target: world.Target{Service: "api", Method: "poll"}}}},
		},
	}
	for seed := range uint64(5) {
		r, err := Simulate(context.Background(), w, "spillgate", seed+1)
		if err != nil {
			t.Fatal(err)
		}
		g := r.Groups[0]
		if share := float64(g.Good) / float64(g.Offered); share < 0.8 {
			t.Errorf("seed %d: %.2f of the requests are in time, %d of %d refused", seed+1, share, g.Refused, g.Offered)
		}
	}
}
