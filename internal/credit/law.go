package credit

import "time"

const (
	// calmIntervals is how many intervals the delay must have been low before Fill makes the
	// pool larger: about as long as a credit takes to be
	// felt. A queue that was shed as a whole is short for a moment; growing then
	// kept a server at ten times its capacity busy with refusals for ever
	// (simulation).
	calmIntervals = 8
	// shedCut is the share of the pool that goes per interval if all requests are
	// refused, beside what goes for the delay.
	shedCut = 0.02
	// agility is how many intervals' requests the idle credits may be worth for
	// the pool to move at full speed.
	agility = 1
	// outlasts is how many times the time in which the idle credits are used up a
	// delay must last to be taken for more than a swing. With 1, at twice the
	// capacity and service times of two kinds, the pool swung between 390 and 570
	// credits with a period of 12 ms, and lost 0.5 % of the goodput (simulation).
	outlasts = 4
	// slowest is the least speed: without any requests, idle credits are too many
	// all the same.
	slowest = 1.0 / 256
	// takenUp is how far the issued credits may exceed the pool, beside two, for a
	// further cut: windows shrink by one a reply, and cutting on would only
	// overshoot.
	takenUp = 1.1
)

// settled reports whether windows have shrunk to what the pool is, nearly.
func (p *Pool) settled() bool { return float64(p.divided()) <= p.total*takenUp+2 }

// resize is the control law: Breakwater's (§3.2), which adds a step under the
// target and multiplies by 1 − Decrease·(d−target)/target over it, with some
// changes.
//
// The step shrinks to nothing at the target. Both directions slow down with
// idle credits: these are used one by one, as their holders get requests, so
// that the queue feels a change only after idle ÷ rate intervals, and a law that
// acts faster swings. A cut waits until the last one is taken up. Refusals cut as
// well, because they cost the server time while the delay of the rest looks
// fine.
//
// With 1,000 clients at 1.5 times the capacity and constant service, the
// original step and cut swung between 35 and 1,200 credits with a period of
// 1.2 ms, and lost 12 % of the goodput; this law loses 1 %. With 10,000 clients
// at 1.2 times the capacity it took 10 % of the server for grants, and now takes
// 1.5 % (simulation).
func (p *Pool) resize(d time.Duration) {
	target := p.cfg.TargetDelay
	p.calm++
	if d >= target/4 {
		p.calm = 0
	}
	p.late++
	if d < target {
		p.late = 0
	}
	speed := 1.0
	// A delay that outlasts several times that in which the idle credits are used up
	// is not a swing.
	if idle := float64(p.divided() - p.pending); idle*outlasts > float64(p.late)*p.rate {
		speed = max(min(1, agility*p.rate/idle), slowest)
	}
	settled := p.settled()
	over, refused := float64(d-target)/float64(target), p.refused
	if p.tolerated > 0 {
		if refused < p.tolerated {
			over = min(over, refused/p.tolerated-1)
		}
		refused = max(refused-p.tolerated, 0)
	}
	switch {
	case over < 0:
		p.total += max(p.cfg.Additive*float64(p.clients)*speed, 1) * -over
	case settled:
		p.total *= max(1-p.cfg.Decrease*over*speed, 0.5)
	}
	if settled {
		// A few refusals are the price of a full server; more than half are not.
		p.total *= min(1.5-refused, 1) * (1 - shedCut*refused)
	}
	p.total = p.bounded(p.total)
}
