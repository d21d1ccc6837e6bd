package world

import "math"

// Capacity returns the most requests per second, in the mix that group number i asks
// for, that the world can work on: what its scarcest workers, locks or processors allow. A
// worker is held for the mean of every step, calls included as long as their own
// steps take unless the service is Async; a lock for the means of the steps that name it; where requests are in each
// other's way, no more of them are at work at once than get the most done; processors pay for computations and messages.
// Nobody else's load counts, and no queue: a worker that waits for a lock counts as free. It is infinite where none of
// these limits it. It expects a world from WithDefaults that Check accepts.
func (w *World) Capacity(i int) float64 {
	u := usage{world: w, methods: map[Target]*Method{}, services: map[string]int{}, hosts: map[string]int{}, locks: map[Target]float64{},
		workers: make([]float64, len(w.Services)), waits: make([]float64, len(w.Services)), processors: make([]float64, len(w.Hosts))}
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
	for k := range w.Services {
		s := &w.Services[k]
		for _, l := range s.Locks {
			if used := u.locks[Target{s.Name, l.Name}]; used > 0 {
				least = min(least, float64(l.Permits*s.Replicas)/used)
			}
		}
	}
	for k, used := range u.waits {
		if s := &w.Services[k]; s.Contention != (Contention{}) {
			least = min(least, s.Contention.most(s.Workers)*float64(s.Replicas)/used)
		}
	}
	for k, used := range u.processors {
		least = min(least, float64(w.Hosts[k].Processors)/used)
	}
	return least
}

// most returns how many times as much is done as by one request alone by as many as do the most, of the workers, if
// there are any.
func (c Contention) most(workers int) float64 {
	n := float64(workers)
	if workers == 0 {
		n = math.Inf(1)
	}
	if c.Pair > 0 {
		n = min(n, max(math.Sqrt((1-c.Each)/c.Pair), 1)) // where the throughput has its peak
	}
	if math.IsInf(n, 1) {
		return 1 / c.Each
	}
	below, above := math.Floor(n), math.Ceil(n)
	return max(below/c.Factor(below), above/c.Factor(above))
}

// usage is what one request uses, in seconds.
type usage struct {
	world           *World
	methods         map[Target]*Method
	services, hosts map[string]int
	// workers and waits are per service, processors per host.
	workers, waits, processors []float64
	// locks are by service and name of the lock.
	locks map[Target]float64
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
		takes := 0.0
		switch {
		case step.Wait != nil:
			takes = step.Wait.Mean.Seconds()
			u.waits[k] += times * takes
		case step.Compute != nil:
			takes = step.Compute.Mean.Seconds()
			computed += takes
		}
		own += takes
		if step.Lock != "" {
			u.locks[Target{at.Service, step.Lock}] += times * takes
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
