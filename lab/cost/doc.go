// Package cost measures what Spillgate costs: a decision, a gate in each edge, a simulated event, and ten
// thousand connected clients.
//
//	bench/decision           decisions, in this process
//	bench/cost               gates, beside the same service without
//	bench/edges              gRPC and net/http as deployed, with 8 and 64 requests in flight
//	bench/simulator          events a second of the simulator, with policies and without
//	breakwater/clients-live  10,000 clients beside 10, with and without gates
//
// The servers of a comparison run on one core at the same time, because processors change
// their speed from one second to the next. The measure is a server's own processor time for
// a request; the throughput of one core is its inverse.
//
// Invariants: bars are ratios within a run, or far above the effect of a disturbance of the
// machine; they are those of the project and are not adapted to results.
//
// What this package does not do: it overloads nothing.
package cost

import (
	"time"

	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{clients(), cost(), decision(), edge(), simulator()}
}

// side is a service that does next to nothing, and who asks it.
type side struct {
	name    string
	clients int
	kind    world.Kind
	ungated bool
}

// atOnce is how many requests a service is sent at the same time.
const atOnce = 5

// abreast is a world of such services on one core, each of which is asked all the time.
func abreast(length time.Duration, sides ...side) *world.World {
	w := &world.World{Objective: time.Second, Warmup: time.Second, Length: length, Hosts: []world.Host{{Name: "core", Processors: 1}}}
	for _, s := range sides {
		w.Services = append(w.Services, world.Service{Name: s.name, Host: "core", Threads: 1, Ungated: s.ungated,
			Methods: []world.Method{{Name: "echo", Steps: []world.Step{{Compute: &world.Draw{Mean: 1}}}}}})
		w.Clients = append(w.Clients, world.Group{Name: s.name, Clients: s.clients, Kind: s.kind, SharedAddress: true,
			Deadline: -1, Ask: []world.Ask{{Target: world.Target{Service: s.name, Method: "echo"}}}, Load: world.Load{Users: atOnce}})
	}
	return w
}

// spent returns the processor time for a request of a service, or of the proxy in front of
// it, in µs, between the warm-up and the end of the load.
func spent(w *world.World, looks []bed.Look, service string, proxy bool) float64 {
	var first, last [2]bed.Look // of the service, of the proxy
	for _, l := range looks {
		of := 0
		if l.Proxy {
			of = 1
		}
		if l.Service == service && l.At <= w.Warmup {
			first[of] = l
		}
		if l.Service == service && l.At <= w.Length {
			last[of] = l
		}
	}
	of := 0
	if proxy {
		of = 1
	}
	return float64(last[of].Used-first[of].Used) / float64(last[0].Begun-first[0].Begun) / float64(time.Microsecond)
}
