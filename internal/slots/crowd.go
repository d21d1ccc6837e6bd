package slots

import "math"

// crowd is what is known of requests that are in each other's way. Where they only wait for each other, or share what
// there is, as much is done by more of them. Where they take locks and caches from each other, undo each other's work
// or page, less is:
//
//	throughput │     _
//	           │   ╱   ╲__
//	           │  ╱       ╲_____
//	           └──────┴──────────── requests at once
//	                bound
//
// No residence tells the peak: Little's law has it too low by as much as requests are held up at the peak, and a hidden queue
// that fits into the objective has it far too high. So the limit climbs it, in steps that are judged by what is done.
type crowd struct {
	// bound is as many as were seen to do the most; 0 as long as fewer were never seen to do more.
	bound float64
	best  point // of the stages of a trial downwards
	rises int   // of them in a row that did more
	most  point // the window in which the most was done since slots are missing
	// lower and higher say that fewer, and more, were tried at this bound, and did less.
	lower, higher bool
	// unclimbed is how many binding windows there were since the last step; gap how many there must be until it
	// is asked again whether fewer do more, as long as they never did.
	unclimbed, gap int
}

const (
	// stride is how far a step goes. Next to the peak it differs little: where eight do the most, twelve do 8 % less, and so
	// do five. Where nothing holds requests up, a step downwards from the knee does a third less, which is
	// three standard deviations of what a step counts. No row of tuning/core varies the constants of this file yet.
	stride = 1.5
	// again is how many binding windows pass until both neighbours of the bound are tried once more. The two steps
	// cost a tenth to a fifth of four windows each.
	again = 2 * trialFirst
	// often is the part of a window in which slots were missing, though not for most of it, from which on the bound
	// gives way where what runs takes no longer than alone.
	often = 1.0 / 8
	// laden is how many times as long as alone requests take where it is asked whether fewer do more: those that hold each other
	// up take twice as long at the peak, or nearly as long where there is hardly any contention at all.
	laden = 1.5
	// alike is the coefficient of variation below which times are constant: what is emptied is filled in batches then, whose
	// order of ends is taken for a line.
	alike = 0.25
	// gains is the elasticity of the throughput from which on more of them are right. A few percent are
	// not worth the time that each of them takes longer.
	gains = queued / 2
	// hopeless is how many objectives requests take where a stage of a trial downwards goes further than a half: to half of
	// an objective, if they only wait for each other, or to steep of what runs at most.
	hopeless, steep = 4, 1.0 / 8
)

// outdoes reports whether more was done at b than at a, by more than chance mostly has it.
func outdoes(a, b point) bool {
	return b.throughput > a.throughput*(1+max(margin, chance(a, b)))
}

// suspect asks whether fewer than at p do more, after more of them did less. No processors say how many are of use, and
// requests take longer than alone.
func (l *Limit) suspect(p point) bool {
	if c := &l.crowd; l.useful > 0 || c.unclimbed < c.gap || l.deviation() < alike || p.took <= min(laden*l.alone, half*float64(l.cfg.Slack)) {
		return false
	}
	l.climbs(p, -1)
	return l.trial.crowd
}

// outpaced asks whether fewer than at p do more, where more was done by fewer since slots are missing, in the window w or before, and
// what runs takes most of the objective. The window with the most is that by chance as well, so twice as much is asked
// for as of others. That the work has become slower looks the same: so it is asked once.
func (l *Limit) outpaced(w, p point) bool {
	a := &l.crowd.most
	if w.throughput > a.throughput {
		*a = w
	}
	if l.fifo || p.residence < half*float64(l.cfg.Slack) || p.concurrency < moves*a.concurrency ||
		a.throughput < p.throughput*(1+2*max(margin, chance(p, *a))) {
		return false
	}
	*a, l.crowd.gap = point{}, 0
	return l.suspect(p)
}

// thins tells a trial downwards from which on fewer did more than all did before. It goes on as long as they do, and
// ends with as many as did the most. That the work has become faster meanwhile looks the same: then more do more again, which is tried
// first.
func (l *Limit) thins(p point) bool {
	c, t := &l.crowd, &l.trial
	if l.useful > 0 {
		return false
	}
	switch {
	case t.before == t.from:
		c.best, c.rises = p, 1
	case p.throughput > c.best.throughput:
		c.best = p
		c.rises++
	}
	if c.best.throughput*(1-t.from.given) < t.from.throughput*(1+max(margin, chance(t.from, c.best))) {
		return false
	}
	if c.best == p && p.residence > half*float64(l.cfg.Slack) && l.lower(p) < reaches*p.concurrency {
		l.step(p)
		return true
	}
	best, last, rises := c.best, c.best == p, c.rises
	l.end()
	l.settle(best.limit, best)
	l.crowd.lower, l.crowd.higher = !last, rises > 1 && best.took > laden*l.alone
	return true
}

// settle takes n for the number that does the most, which is what p shows.
func (l *Limit) settle(n float64, p point) {
	if l.fifo {
		l.disprove() // a line does as much, however long it is
	}
	l.crowd = crowd{bound: n}
	l.limit, l.knee, l.samples, l.rate, l.service = n, n, p.samples, p.throughput, p.residence
	l.before = point{}
}

// climb is for a window in which as many ran as do the most, as far as is known.
func (l *Limit) climb(p point) {
	c := &l.crowd
	l.service = min(p.residence, max(l.alone, c.bound/l.rate))
	if l.limit < c.bound {
		l.limit = min(c.bound, l.limit*up)
		return
	}
	c.unclimbed++
	switch {
	case l.level.windows == 0: // not known well enough to compare with
	case !c.higher:
		l.climbs(p, 1)
	case !c.lower:
		l.climbs(p, -1)
	case c.unclimbed >= again:
		c.higher, c.lower, c.unclimbed = false, false, 0
	}
}

// climbs begins a step from p.
func (l *Limit) climbs(p point, dir int8) {
	from := l.origin(p)
	by := stride
	if l.crowd.bound == 0 || p.residence > whole*float64(l.cfg.Slack) {
		by *= stride // the further away, the sooner it shows
	}
	n := math.Ceil(p.limit * stride)
	if dir < 0 {
		n = max(math.Floor(p.limit/by), float64(l.cfg.Min))
	}
	if n == p.limit {
		l.crowd.lower = true // there are no fewer
		return
	}
	l.trial = trial{dir: dir, crowd: true, last: l.trial.last, from: from, before: from}
	l.limit = n
}

// judgeCrowd looks at the window of a step. It was right if more was done.
func (l *Limit) judgeCrowd(p point) {
	c, dir, from := &l.crowd, l.trial.dir, l.trial.from
	l.trial.dir, l.trial.crowd = 0, false
	l.window.order = order{} // a step compares what is done, and says nothing of a line
	gain, distance := math.Log(p.throughput/from.throughput), math.Log(p.concurrency/from.concurrency)
	switch {
	case l.useful > 0: // what they did not say before
		l.limit = from.limit
		return
	case dir > 0 && gain < gains*distance, dir < 0 && gain < unmoved, c.bound == 0 && !outdoes(from, p):
		l.limit = from.limit
		c.lower, c.higher = c.lower || dir < 0, c.higher || dir > 0
		if c.bound == 0 {
			c.unclimbed, c.gap = 0, min(max(2*c.gap, trialFirst), trialLast)
		}
		return
	case dir > 0 && p.limit >= l.unbounded() && gain > queued*distance:
		l.crowd, l.knee, l.limit = crowd{gap: trialFirst}, p.limit, p.limit // nobody is in the way
		return
	}
	l.settle(p.limit, p)
	l.crowd.lower, l.crowd.higher = dir > 0, dir < 0 // where it came from
}

// collapses reports whether far less is done in the running window than in the one before, when fewer ran, while nothing is known
// yet but that: what comes at a cold start is let in until it is seen to be too much, and is then worked off
// the slower the more there is of it.
func (l *Limit) collapses() bool {
	w, a := &l.window, &l.past
	if l.knee > 0 || l.least > 0 || l.lent > 0 || l.trial.dir != 0 || w.residence() < hopeless*whole*float64(l.cfg.Slack) ||
		float64(l.inUse-l.begun) < 2*a.concurrency {
		return false
	}
	expected := a.throughput * float64(w.last.Sub(w.start))
	return float64(w.done) < min(expected/2, expected-2*surely*math.Sqrt(expected))
}
