package bed

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// echo is a world of a gated and a plain service that do nothing, and users who ask them.
func echo(clients int) *world.World {
	w := &world.World{Objective: 10 * time.Second, Length: 600 * ms}
	for _, name := range []string{"gated", "plain"} {
		w.Services = append(w.Services, world.Service{Name: name, Ungated: name == "plain",
			Methods: []world.Method{{Name: "echo", Steps: []world.Step{{Compute: &world.Draw{Mean: 1}}}}}})
		w.Clients = append(w.Clients, world.Group{Name: name, Clients: clients, Kind: world.Greedy, SharedAddress: true, Deadline: -1,
			Ask: []world.Ask{{Target: world.Target{Service: name, Method: "echo"}}}, Load: world.Load{Users: 3}})
	}
	return w
}

// With many connections thin callers make the calls: all are answered, each connection
// has an account, and what the services hold for them is counted while they are there.
func TestThinCallers(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of connections")
	}
	w := echo(manyConnections / 2)
	w.Length, w.Objective = 2*time.Second, time.Minute                    // a busy machine takes seconds to open the connections
	w.Services[1].Methods[0].Answer = world.Size{Least: 1, Most: 200_000} // more than a window
	p, err := Play(t.Context(), w, "spillgate", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range p.Report.Groups {
		if g.Offered == 0 || g.Good != g.Offered || g.Attempts != g.Offered {
			t.Errorf("%s: %+v, expected answers alone; refused for %v", g.Name, g.Counts, g.Reasons)
		}
	}
	accounts, held := 0, map[string]uint64{}
	for _, l := range p.Looks {
		if l.Heap > 0 {
			accounts, held[l.Service] = max(accounts, l.Clients), l.Heap
		}
	}
	if want := min(p.Report.Groups[0].Offered, w.Clients[0].Clients); accounts != want || held["gated"] < 1<<20 || held["plain"] < 1<<20 {
		t.Errorf("%d accounts, want %d; held %v, want more than a megabyte by each", accounts, want, held)
	}
}

// Thin callers say what a service refuses.
func TestThinCallersAreRefused(t *testing.T) {
	w := echo(manyConnections / 2)
	w.Clients, w.Services = w.Clients[:1], w.Services[:1]
	w.Clients[0].Clients = manyConnections
	w.Clients[0].Load = world.Load{Steps: []world.Rate{{PerSecond: 50}}}
	p, err := Play(t.Context(), w, "rude", 1, rude)
	if err != nil {
		t.Fatal(err)
	}
	if g := p.Report.Groups[0]; g.Offered == 0 || g.Refused != g.Offered {
		t.Errorf("%+v, expected refusals alone", g.Counts)
	}
}

// With a proxy a service without a gate has a proxy as well, without control.
func TestPlainProxy(t *testing.T) {
	w := echo(2)
	for i := range w.Clients {
		w.Clients[i].Kind, w.Clients[i].Deadline = world.Plain, 0
	}
	p, err := Play(t.Context(), w, "spillgate/proxy", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range p.Report.Groups {
		if g.Offered == 0 || g.Good != g.Offered {
			t.Errorf("%s: %+v, expected answers alone", g.Name, g.Counts)
		}
	}
	used := map[string]time.Duration{}
	for _, l := range p.Looks {
		if l.Proxy {
			used[l.Service] = l.Used
		}
	}
	if used["gated"] == 0 || used["plain"] == 0 {
		t.Errorf("the proxies used %v, expected some by each", used)
	}
}
