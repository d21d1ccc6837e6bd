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

// TestVeryLongPollsFromTheStart: long polls of 25 objectives are there from the start, hold most of the slots that a first
// limit has, and come again at once. Requests beside them come in bursts. In two of these five seeds 21 and 75 % were
// refused, and elsewhere all: the limit fell, nothing but polls held slots, and nothing ended that could have told.
func TestVeryLongPollsFromTheStart(t *testing.T) {
	w := &world.World{
		Name: "very long polls", Objective: 600 * ms, Length: 20 * time.Second,
		Services: []world.Service{{Name: "api", Workers: 64, Locks: []world.Lock{{Name: "key"}}, Methods: []world.Method{
			{Name: "do", Steps: []world.Step{{Wait: &world.Draw{Shape: world.Exponential, Mean: 13 * ms}, Lock: "key"}}},
			{Name: "poll", Idle: true, Steps: []world.Step{{Wait: &world.Draw{Mean: 15 * time.Second}}}},
		}}},
		Clients: []world.Group{
			{Name: "users", Clients: 3, Kind: world.Plain, Ask: []world.Ask{{Target: world.Target{Service: "api", Method: "do"}}},
				Load: world.Load{Steps: []world.Rate{{PerSecond: 20}, {At: 100 * ms, PerSecond: 285, For: 100 * ms, Every: time.Second}}}},
			{Name: "polls", Clients: 39, Kind: world.Plain, Deadline: -1, Load: world.Load{Users: 39},
				Ask: []world.Ask{{Target: world.Target{Service: "api", Method: "poll"}}}},
		},
	}
	for seed := range uint64(5) {
		r, err := Simulate(context.Background(), w, "spillgate", seed+1)
		if err != nil {
			t.Fatal(err)
		}
		if g := r.Groups[0]; g.Good < g.Offered*95/100 {
			t.Errorf("seed %d: of %d requests %d are in time and %d refused", seed+1, g.Offered, g.Good, g.Refused)
		}
	}
}
