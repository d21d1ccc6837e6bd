package rates

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/mono"
)

// An upstream process without demand is announced at least leastShare, in
// requests/s, or leastPart of the workflow's rate, so that it can begin. All
// such shares together take no more than half of the rate.
const (
	leastShare = 1.0
	leastPart  = 0.01
)

// split divides a workflow's rate among its upstream processes in proportion to
// their demand.
//
// A process that is downstream as well is told the rate without what its own
// service allows: its announcement would come back to it as its own limit, and
// neither could ever raise it.
func (a *Adapter) split(now mono.Time, f *flow, stale time.Duration) {
	if len(f.sources) == 0 {
		return
	}
	least := f.least()
	total := 0.0
	for i := range f.sources {
		total += f.sources[i].demand(now, stale)
	}
	low, high := 0, 0.0
	if total > 0 {
		for i := range f.sources {
			if d := f.sources[i].demand(now, stale); f.sigma*d/total < least {
				low++
			} else {
				high += d
			}
		}
	}
	for i := range f.sources {
		s := &f.sources[i]
		d := s.demand(now, stale)
		switch {
		case total == 0:
			s.share = f.sigma / float64(len(f.sources))
		case f.sigma*d/total < least:
			s.share = least
		default:
			s.share = (f.sigma - float64(low)*least) * d / high
		}
		if rate := a.rateFor(f, s.peer); rate >= NoLimit {
			s.share = NoLimit
		} else if rate > f.sigma {
			s.share *= rate / f.sigma
		}
	}
}

// least returns the share of an upstream process without demand.
func (f *flow) least() float64 {
	return math.Min(math.Max(leastShare, leastPart*f.sigma), f.sigma/2/math.Max(float64(len(f.sources)), 1))
}

// rateFor returns the rate to divide for an upstream process.
func (a *Adapter) rateFor(f *flow, peer int) float64 {
	if f.tight >= 0 && peer > 0 && a.serviceOf[peer] == f.tight {
		return bounded(math.Min(f.local, f.next))
	}
	return f.sigma
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
