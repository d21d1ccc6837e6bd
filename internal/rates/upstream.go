package rates

// An upstream process without demand is announced at least leastShare, in
// requests/s, or leastPart of the workflow's rate, so that it can begin. All
// such shares together take no more than half of the rate.
const (
	leastShare = 1.0
	leastPart  = 0.01
	// leastDemand is the demand, in requests/s, below which all upstream processes
	// together count as having none and get the same.
	leastDemand = 1e-6
)

// split divides a workflow's rate among its upstream processes in proportion to
// their demand.
//
// A process that is downstream as well is told the rate without what its own
// service allows: its announcement would come back to it as its own limit, and
// neither could ever raise it.
func (a *Adapter) split(f *flow) {
	if f.sigma >= NoLimit {
		for i := range f.sources {
			f.sources[i].share = NoLimit
		}
		return
	}
	total := 0.0
	for i := range f.sources {
		total += f.sources[i].demand
	}
	least := f.least()
	share := f.sigma / total // per demand
	if total < leastDemand {
		for i := range f.sources {
			f.sources[i].share = f.sigma / float64(len(f.sources))
		}
	} else {
		low, high := 0, 0.0
		for i := range f.sources {
			if d := f.sources[i].demand; d*share < least {
				low++
			} else {
				high += d
			}
		}
		rest := (f.sigma - float64(low)*least) / high
		for i := range f.sources {
			s := &f.sources[i]
			if s.share = s.demand * rest; s.demand*share < least {
				s.share = least
			}
		}
	}
	if f.tight < 0 {
		return
	}
	others := bounded(min(f.local, f.next))
	for i := range f.sources {
		switch s := &f.sources[i]; {
		case s.peer == 0 || a.serviceOf[s.peer] != f.tight:
		case others >= NoLimit:
			s.share = NoLimit
		default:
			s.share *= others / f.sigma
		}
	}
}

// least returns the share of an upstream process without demand.
func (f *flow) least() float64 {
	return min(max(leastShare, leastPart*f.sigma), f.sigma/2/max(float64(len(f.sources)), 1))
}

// Announce returns the rate to announce to an upstream process for a workflow, in
// requests/s: its share of Rate, or NoLimit. A process not seen in the last
// period is announced a little, to begin with.
func (a *Adapter) Announce(w Workflow, to Peer) float64 {
	f := a.flow(w)
	if f == nil {
		return NoLimit
	}
	i, _ := a.peers.at(uint32(to))
	if s := f.source(i); s != nil && s.share > 0 {
		return s.share
	}
	if f.sigma >= NoLimit {
		return NoLimit
	}
	return f.least()
}
