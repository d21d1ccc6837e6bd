package rates

import (
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// downstream finds the rate of one workflow that the services it calls leave
// room for, and which of them is the tightest.
//
// A service that has fallen silent keeps the rate it had, and the workflow is not
// raised, until the service is forgotten; one that never announced anything does
// not know how to and is left out.
func (a *Adapter) downstream(now mono.Time, f *flow, seconds float64, stale time.Duration) {
	f.held = false
	f.down, f.next, f.tight = NoLimit, NoLimit, -1
	for b := len(f.branches) - 1; b >= 0; b-- {
		br := &f.branches[b]
		for i := len(br.links) - 1; i >= 0; i-- {
			if now.Sub(br.links[i].heard) > a.cfg.Forget {
				last := len(br.links) == 1
				f.dropLink(br.links[i].peer)
				if last {
					br = nil
					break
				}
			}
		}
		if br != nil {
			a.ask(now, f, br, seconds, stale)
		}
	}
	// A walk of its own: forgetting a branch moves the others.
	for b := range f.branches {
		br := &f.branches[b]
		switch {
		case br.rate < f.down:
			f.down, f.next, f.tight = br.rate, f.down, br.service
		case br.rate < f.next:
			f.next = br.rate
		}
	}
}

// ask brings the rate of one service up to date: the quantile over the processes
// that were heard of lately, each announced rate divided by the calls that one
// request makes to it (Wisp, Algorithm 1, lines 2 to 5).
//
// A process that announced NoLimit counts as one with room for all of the
// workflow's demand, or as much as the best of the limited ones, whichever is
// more: enough not to bind where it alone decides, and no more where it is
// weighed against a limited one.
func (a *Adapter) ask(now mono.Time, f *flow, br *branch, seconds float64, stale time.Duration) {
	a.rates = a.rates[:0]
	used, free, heard := false, 0, false
	for i := range br.links {
		l := &br.links[i]
		alpha := l.alpha
		if alpha < leastAlpha {
			continue
		}
		used = true
		age := now.Sub(l.at)
		switch {
		case !l.any || age > a.cfg.Forget:
			continue
		case age > stale:
			heard = true
			continue
		}
		if heard = true; l.rate >= NoLimit {
			free++
		} else {
			a.rates = append(a.rates, l.rate/alpha)
		}
	}
	switch {
	case !used || !heard:
		br.rate = NoLimit
	case free+len(a.rates) == 0:
		f.held = true
	default:
		br.rate = a.weigh(br.q, free, f.demand)
	}
	if a.cfg.IdleCost > 0 {
		a.learn(f, br, seconds)
	}
	for i := range br.links {
		br.links[i].sent, br.links[i].shed = 0, 0
	}
}

// weigh returns the quantile of a.rates and so many free processes.
func (a *Adapter) weigh(q float64, free int, demand float64) float64 {
	limited := len(a.rates)
	lo, part := rank(limited+free, q)
	if lo >= limited {
		return NoLimit
	}
	slices.Sort(a.rates)
	if part == 0 {
		return a.rates[lo]
	}
	next := max(demand, a.rates[limited-1])
	if lo+1 < limited {
		next = a.rates[lo+1]
	}
	return min(a.rates[lo]+part*(next-a.rates[lo]), NoLimit)
}

// learn feeds the search for the best quantile of a service with what the last
// period cost: calls refused, and calls that limited processes announced room
// for and did not get. A service without limits costs nothing and teaches
// nothing.
func (a *Adapter) learn(f *flow, br *branch, seconds float64) {
	if len(a.rates) == 0 {
		return
	}
	best := f.demand
	for _, r := range a.rates {
		best = max(best, r)
	}
	cost := 0.0
	for i := range br.links {
		l := &br.links[i]
		alpha := l.alpha
		if !l.any || alpha < leastAlpha {
			continue
		}
		room := min(l.rate, best*alpha)
		cost += l.shed/seconds + a.cfg.IdleCost*max(room-(l.sent-l.shed)/seconds, 0)
	}
	br.q = br.search.add(cost, br.q)
}
