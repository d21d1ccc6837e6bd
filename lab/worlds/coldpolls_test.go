package worlds

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// TestShortRequestsBesideLongPollsAtTheStart: a proxy starts in front of a service with forty long polls and sixty short
// requests a second, which nothing holds up. The polls come first, take every slot that there is, and run for longer
// than the objective, so that they look as if far too many had been let in. Of the short requests up to 96 % were
// refused for some seconds, in 16 of 20 seeds.
func TestShortRequestsBesideLongPollsAtTheStart(t *testing.T) {
	polls := &world.Draw{Shape: world.Weighted}
	for s := range time.Duration(8) {
		polls.Points = append(polls.Points, world.Point{Value: (s + 1) * time.Second, Weight: 1})
	}
	wait := func(name string, d *world.Draw) world.Method {
		return world.Method{Name: name, Steps: []world.Step{{Wait: d}}}
	}
	pass := func(name string) world.Method {
		return world.Method{Name: name, Steps: []world.Step{{Call: []world.Target{{Service: "app", Method: name}}}}}
	}
	ask := func(method string) []world.Ask {
		return []world.Ask{{Target: world.Target{Service: "front", Method: method}}}
	}
	w := &world.World{
		Name: "polls and short requests", Objective: 100 * ms, Length: 6 * time.Second,
		Services: []world.Service{
			{Name: "front", Proxied: true, Methods: []world.Method{pass("short"), pass("poll")}},
			{Name: "app", Ungated: true, Deaf: true, Methods: []world.Method{wait("short", &world.Draw{Shape: world.Lognormal, Mean: 9 * ms, Param: 1}), wait("poll", polls)}},
		},
		Clients: []world.Group{
			{Name: "web", Clients: 8, Kind: world.Plain, Deadline: time.Second, Ask: ask("short"), Load: world.Load{Steps: []world.Rate{{PerSecond: 60}}}},
			{Name: "poll", Clients: 40, Kind: world.Plain, Deadline: -1, Ask: ask("poll"), Load: world.Load{Users: 40, Think: 50 * ms}},
		},
	}
	for seed := range uint64(20) {
		r, err := Simulate(context.Background(), w, "spillgate", seed+1)
		if err != nil {
			t.Fatal(err)
		}
		if g := r.Groups[0]; float64(g.Refused) > 0.005*float64(g.Offered) {
			t.Errorf("seed %d: %d of %d short requests are refused", seed+1, g.Refused, g.Offered)
		}
	}
}
