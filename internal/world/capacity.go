package world

import "math"

// Capacity returns the most requests per second, in the mix that group number i asks
// for, that the world can work on: what its scarcest workers or processors allow. A
// worker is held for the mean of every step, calls included as long as their own
// steps take unless the service is Async; locks are not looked at; processors pay for computations and messages. Nobody else's load counts,
// and no queue. It is infinite where neither workers nor a host limit it. It expects a
// world from WithDefaults that Check accepts.
func (w *World) Capacity(i int) float64 {
	u := usage{world: w, methods: map[Target]*Method{}, services: map[string]int{}, hosts: map[string]int{},
		workers: make([]float64, len(w.Services)), processors: make([]float64, len(w.Hosts))}
	for k := range w.Hosts {
		u.hosts[w.Hosts[k].Name] = k
	}
	for k := range w.Services {
		s := &w.Services[k]
		u.services[s.Name] = k
		for n := range s.Methods {
			u.methods[Target{s.Name, s.Methods[n].Name}] = &s.Methods[n]
		}
	}
	total := 0.0
	for _, a := range w.Clients[i].Ask {
		total += a.Weight
	}
	for _, a := range w.Clients[i].Ask {
		u.visit(a.Target, a.Weight/total)
	}
	least := math.Inf(1)
	for k, used := range u.workers {
		if s := &w.Services[k]; s.Workers > 0 {
			least = min(least, float64(s.Workers*s.Replicas)/used)
		}
	}
	for k, used := range u.processors {
		least = min(least, float64(w.Hosts[k].Processors)/used)
	}
	return least
}

// usage is what one request uses, in seconds.
type usage struct {
	world           *World
	methods         map[Target]*Method
	services, hosts map[string]int
	// workers is per service, processors per host.
	workers, processors []float64
}

// visit adds times calls of a method and returns how long one takes alone.
func (u *usage) visit(at Target, times float64) float64 {
	m, k := u.methods[at], u.services[at.Service]
	s := &u.world.Services[k]
	message, host := 0.0, -1
	if s.Host != "" {
		host = u.hosts[s.Host]
		message = max(u.world.Hosts[host].Message.Seconds(), 0)
	}
	long, own, computed := 0.0, 0.0, 2*message
	for _, step := range m.Steps {
		switch {
		case step.Wait != nil:
			own += step.Wait.Mean.Seconds()
		case step.Compute != nil:
			own += step.Compute.Mean.Seconds()
			computed += step.Compute.Mean.Seconds()
		}
		longest := 0.0
		for _, to := range step.Call {
			longest = max(longest, u.visit(to, times))
			computed += 2 * message
		}
		long += longest
	}
	long += own
	switch {
	case m.Idle:
	case s.Async:
		u.workers[k] += times * own
	default:
		u.workers[k] += times * long
	}
	if host >= 0 {
		u.processors[host] += times * computed
	}
	return long
}
