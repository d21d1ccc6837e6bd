package worlds

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// TestManyCallsOfEachOfManyUsers: each request asks another service twenty times at once, and fails if that refuses one
// of them. Two hundred users who ask again at once kept so many of these at work that every request lost one, and its
// failure taught nothing: nothing at all was answered for as long as they came.
func TestManyCallsOfEachOfManyUsers(t *testing.T) {
	leaf := world.Target{Service: "leaf", Method: "do"}
	var calls []world.Target
	for range 20 {
		calls = append(calls, leaf)
	}
	w := &world.World{
		Name: "many calls", Objective: 200 * ms, Warmup: 4 * time.Second, Length: 10 * time.Second,
		Hosts: []world.Host{{Name: "box", Processors: 1, Message: 30 * time.Microsecond}},
		Services: []world.Service{
			{Name: "app", Host: "box", Methods: []world.Method{{Name: "do", Steps: []world.Step{{Compute: &world.Draw{Mean: 200 * time.Microsecond}}, {Call: calls}}}}},
			{Name: "leaf", Host: "box", Workers: 40, Methods: []world.Method{{Name: "do", Steps: []world.Step{
				{Compute: &world.Draw{Mean: 30 * time.Microsecond}}, {Wait: &world.Draw{Shape: world.Exponential, Mean: 5 * ms}}}}}},
		},
		Clients: []world.Group{{Name: "users", Clients: 50, Kind: world.Plain, Deadline: time.Second,
			Ask: []world.Ask{{Target: world.Target{Service: "app", Method: "do"}}}, Load: world.Load{Users: 200}}},
	}
	for seed := range uint64(3) {
		r, err := Simulate(context.Background(), w, "spillgate", seed+1)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Groups[0].Good; got < 6*100 { // a semaphore of 16 does 260/s
			t.Errorf("seed %d: %d requests are good in six seconds", seed+1, got)
		}
	}
}

// TestAnObjectiveBelowTheService: a service takes longer than the objective for every request, by a tenth or three times
// as long, and nobody gives up. Every request gave its slot back then, so no window of the lowered limit ever ended, and half to three quarters
// were refused for good below the capacity.
func TestAnObjectiveBelowTheService(t *testing.T) {
	for _, objective := range []time.Duration{3 * ms, 9 * ms} {
		w := &world.World{
			Name: "out of reach", Objective: objective, Warmup: 3 * time.Second, Length: 13 * time.Second,
			Services: []world.Service{{Name: "shop", Workers: 4, Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: &world.Draw{Mean: 10 * ms}}}}}}},
			Clients: []world.Group{{Name: "users", Clients: 10, Kind: world.Plain, Deadline: -1,
				Ask: []world.Ask{{Target: world.Target{Service: "shop", Method: "do"}}}, Load: world.Load{Steps: []world.Rate{{Times: 0.7}}}}},
		}
		for seed := range uint64(3) {
			r, err := Simulate(context.Background(), w, "spillgate", seed+1)
			if err != nil {
				t.Fatal(err)
			}
			if g := r.Groups[0]; 10*g.Late < 7*g.Offered {
				t.Errorf("objective %v, seed %d: %d of %d were answered", objective, seed+1, g.Late, g.Offered)
			}
		}
	}
}
