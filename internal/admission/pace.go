package admission

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/slots"
)

// pace is the inter-departure time of the slots and, by Little's law, the residence time:
//
//	inter-departure time × slots = residence time
//
// A limit that moves therefore tells at once what it does to requests that start under it.
// Above the knee the residence moves with the limit and the gap stays; below it the gap
// moves and the residence stays. A measurement would have to wait until all requests that
// started before have ended.
type pace struct {
	gap   mean      // ns between two departures while every slot is taken
	ran   mean      // ns in a slot
	last  mono.Time // of the departures
	busy  bool      // no slot was free then
	quiet silence   // since then
	slow  bool      // silence has told that requests take longer, last at since
	since mono.Time
	lanes float64 // requests that are served at once, as far as known
	slots int     // as many as there were then
	scale float64 // what the residence is, by all that the limit did
}

// residence returns how long a request runs that starts now, in ns; 0 before anything is
// known.
func (p *pace) residence() float64 {
	if p.gap.value == 0 {
		return p.ran.value
	}
	return p.gap.value * float64(p.slots)
}

// share returns the time that a request took, which started at another scale, as a part of
// the residence to be expected now.
func (p *pace) share(took time.Duration, scale float64) float64 {
	return float64(max(took, 1)) * p.scale / scale / p.residence()
}

// follow takes what the limit is now.
func (p *pace) follow(l *slots.Limit) {
	was, is, knee := float64(p.slots), float64(l.Limit()), l.Knee()
	if p.lanes = is; knee > 0 {
		p.lanes = min(is, knee)
	}
	if was == is {
		return
	}
	p.slots = l.Limit()
	switch {
	case !p.busy:
		p.gap.multiply(was / is) // the residence is what it was
	case knee > 0:
		p.gap.multiply(min(was, knee) / min(is, knee))
		fallthrough
	default:
		p.scale *= max(is, knee) / max(was, knee)
	}
}

// left measures the departure of a request that ran for ran ns. If every slot was taken since the last
// departure, the time between the two is the pace. busy says whether every slot is taken after this departure:
// one that leaves a slot empty begins no measurement.
func (p *pace) left(now mono.Time, busy bool, longest time.Duration, ran float64) {
	p.quiet.pass(now, &p.gap)
	p.quiet.leave()
	p.quiet.full = busy
	if p.quiet.clear() {
		p.slower()
	}
	if p.busy {
		p.gap.add(float64(min(max(now.Sub(p.last), 1), longest)))
	} else if p.gap.value > 0 && ran > 0 {
		// As if all slots had been taken: a pace that seems far too slow lets no request wait, so it would
		// never be corrected. This request's own time counts, not the mean, which lags: two workers that had
		// been slow for a while refused a quarter for three more seconds.
		p.gap.add(ran / float64(p.slots))
	}
	p.busy, p.last = busy, now
}

// full says that the last free slot is taken.
func (p *pace) full(now mono.Time) {
	p.quiet.pass(now, &p.gap)
	p.quiet.full = true
}

// slows looks at the time without a departure up to now, and reports whether it says that
// requests take longer than was known.
func (p *pace) slows(now mono.Time) bool {
	p.quiet.pass(now, &p.gap)
	return p.quiet.clear() && p.slower()
}

// slowed reports whether silence told, no longer than within before the last departure, that requests
// take longer.
func (p *pace) slowed(within time.Duration) bool { return p.slow && p.last.Sub(p.since) <= within }

// slower takes what silence tells, if it tells anything. By Little's law the residence grew with
// the gap.
func (p *pace) slower() bool {
	gap := p.quiet.gap(p.gap.value * p.lanes)
	if gap == 0 {
		return false
	}
	known := p.quiet.count + 1
	p.gap = mean{value: gap, quick: gap, count: known}
	if all := p.residence(); all > p.ran.value {
		p.ran = mean{value: all, quick: all, count: known + float64(p.slots)}
	}
	p.slow, p.since = true, p.quiet.last
	p.quiet = silence{last: p.quiet.last, full: p.quiet.full}
	return true
}
