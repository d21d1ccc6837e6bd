package share

import (
	"math"

	"github.com/spillgate/spillgate/internal/work"
)

// response is how a class's latency follows from its wait here: isolated +
// reach × wait, in seconds.
type response struct{ isolated, reach float64 }

func (a *account) response() response {
	isolated := a.past.isolated / a.past.count
	reach := 1.0
	if a.long.waited > 0 {
		reach = min(max((a.long.latency-a.long.isolated)/a.long.waited, 0), mostReach)
	}
	return response{isolated, reach}
}

func (r response) latency(wait float64) float64 { return r.isolated + r.reach*wait }

// move is the control law. All it weighs are positions on the line of what order
// can do (see station), where every latency is a straight line and every target
// a point. From FIFO's on, the position goes up as far as the target asks for, and
// no further than the guards let it.
func (c *Controller) move() Decision {
	s, ok := c.station()
	if !ok {
		return c.decision(Few)
	}
	r, d := &c.class[work.Interactive], &c.class[work.Default]
	fifo := s.fifo()
	need, up := fifo, Neutral
	if at := c.meets(s, 1, 1); at > need {
		need, up = at, Mean
	}
	if at := c.meets(s, r.spread, d.spread); at > need {
		need, up = at, Tail
	}
	if at := c.calms(s, r); at > need {
		need, up = at, Impatience
	}
	down := Ease
	if at := c.spares(s, d, fifo); at < need {
		need, down = at, Harm
	}
	c.restrain(d, down == Harm)
	if at := c.keeps(s, fifo); at < need {
		need, down = at, Loss
	}

	bounded := func(w float64) float64 { return min(max(w, MinWeight), c.cfg.MaxWeight) }
	c.neutral = bounded(s.weight(fifo, c.shift))
	c.want = bounded(s.weight(need, c.shift))
	band := c.cfg.DeadBand
	if down != Ease && c.want < c.weight {
		band /= 5
	}
	switch change := c.want/c.weight - 1; {
	case math.Abs(change) <= band:
		return c.decision(Steady)
	case change > 0:
		c.weight *= 1 + min(change, c.cfg.MaxStep)
		return c.decision(up)
	default:
		c.weight *= 1 + max(change, -c.cfg.MaxStep)
		return c.decision(down)
	}
}

// meets returns the position at which the slowdown of interactive requests is
// Ratio times that of default ones; their slowdowns beyond 1 are multiplied by
// what makes p95 of the mean. At most 1, priority: that is the floor.
func (c *Controller) meets(s station, spreadR, spreadD float64) float64 {
	r, d := c.class[work.Interactive].response(), c.class[work.Default].response()
	slopeR, slopeD := spreadR*r.reach/r.isolated, c.cfg.Ratio*spreadD*d.reach/d.isolated
	// 1 + slopeR·(last − at·(last−first)) = Ratio + slopeD·(first' + at·(last'−first'))
	other := s.swapped()
	gap := 1 - c.cfg.Ratio + slopeR*s.last() - slopeD*other.first()
	closes := slopeR*(s.last()-s.first()) + slopeD*(other.last()-other.first())
	if !(gap > 0) {
		return 0
	}
	if !(closes > 0) {
		return 1
	}
	return min(gap/closes, 1)
}

// calms returns the position that keeps interactive callers from giving up: an
// integral, because their patience is known of what they met, not of what they
// would meet. It stays within one step of where the position is, or it would have
// to come all the way back after a guard has held it.
func (c *Controller) calms(s station, a *account) float64 {
	lost, here := a.past.lost/a.past.count, s.shifted(c.weight, c.shift)
	switch {
	case lost > c.cfg.MaxImpatience:
		c.forced = min(here+eager, 1)
	case lost < c.cfg.MaxImpatience/2:
		if c.forced -= patient; c.forced < s.fifo() {
			c.forced = 0
		}
	}
	return c.forced
}

// spares returns the position up to which default requests are at most MaxHarm
// slower than under FIFO, at least FIFO's.
func (c *Controller) spares(s station, a *account, fifo float64) float64 {
	d, other := a.response(), s.swapped()
	room := (1+inside*c.cfg.MaxHarm-c.strict)*d.latency(s.wait) - d.latency(other.first())
	per := d.reach * (other.last() - other.first())
	if !(per > 0) || room >= per {
		return 1
	}
	return max(room/per, fifo)
}

// restrain makes the guard stricter while it binds and default requests are harmed
// more than MaxHarm all the same: most of their time is spent in the bursts that
// the rates are late to show. FIFO's latency is known from the same requests,
// because what all wait together does not depend on the order.
func (c *Controller) restrain(a *account, binds bool) {
	if !binds {
		c.strict *= 1 - strictGain
		return
	}
	r, d := &c.class[work.Interactive].long, &a.long
	if !(r.service+d.service > 0) {
		return
	}
	fifo := (r.waited/r.count*r.service + d.waited/d.count*d.service) / (r.service + d.service)
	harm := a.response().latency(d.waited/d.count)/a.response().latency(fifo) - 1
	c.strict = min(max(c.strict+strictGain*(harm-c.cfg.MaxHarm), 0), c.cfg.MaxHarm)
}

// keeps returns the position up to which at most MaxLoss more default callers give
// up than under FIFO.
func (c *Controller) keeps(s station, fifo float64) float64 {
	p := c.patience(work.Default)
	if len(p) == 0 {
		return 1
	}
	busy := s.interactive + s.standard
	lost := func(at float64) float64 { return p.lostAsked(p.asked(s.defaultAt(at), busy), busy) }
	here := s.shifted(c.weight, c.shift)
	most := p.lostAsked(s.askedOfAll(p, here), busy) + c.cfg.MaxLoss/c.truth(lost(here))
	if lost(1) <= most {
		return 1
	}
	low, high := fifo, 1.0
	for range 40 {
		mid := (low + high) / 2
		if lost(mid) <= most {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// askedOfAll returns how long those who have to wait would be asked to under FIFO,
// where default callers give up and the position is here now. The conservation law
// is about what is asked, which is more than those waited who stayed.
func (s station) askedOfAll(p Patience, here float64) float64 {
	busy := s.interactive + s.standard
	standard := p.asked(s.defaultAt(here), busy)
	asked := (s.interactive*s.interactiveAt(here)/busy + s.standard*standard) / busy
	// Who would not give up then is work for all, and lengthens all waits.
	lost := p.lostAsked(standard, busy)
	more := s.standard * (lost - p.lostAsked(asked, busy))
	return asked * (1 + more/max(1-busy+s.standard*lost, 1-mostLoad))
}

// truth is how many default callers give up for each that the model says, within
// what a wrong model can be wrong by.
func (c *Controller) truth(says float64) float64 {
	d := &c.class[work.Default].long
	if d.gave < someLeft || !(says > 0) {
		return 1
	}
	return min(max(d.gave/(d.gave+d.count)/says, 0.25), 4)
}
