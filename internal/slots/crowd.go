package slots

import "math"

// crowd is what is known of requests that hold each other up. Requests that only wait for each other, or share what
// serves them, do as much when more of them run. Requests that take locks and caches from each other, undo each
// other's work or page do less:
//
//	throughput │     _
//	           │   ╱   ╲__
//	           │  ╱       ╲_____
//	           └──────┴──────────── requests at once
//	                bound
//
// No residence time tells the peak. Little's law puts it too low by as much as requests are held up at the peak, and
// a hidden queue that fits into the objective puts it far too high. So the limit climbs it, in steps that are judged
// by what is done in time.
type crowd struct {
	// bound is the number that was seen to do the most, 0 while fewer were never seen to do more.
	bound float64
	// late says that the bound was found because a part was late. That fewer take less then tells nothing of a
	// slowdown that is over: see slowdownOver.
	late  bool
	best  point // of the stages of a trial downwards
	rises int   // of these stages, those that did more than any before by more than chance
	most  point // the window with the most throughput since slots are missing
	// lower and higher say that fewer, and more, were tried at this bound, and did less.
	lower, higher bool
	// unclimbed is how many binding windows there were since the last step, and gap the least number of them between
	// two questions whether fewer do more, while they never did.
	unclimbed, gap int
	// rest is how many windows pass, once both neighbours of the bound did less, until they are tried again. It doubles
	// as long as they do.
	rest int
	// idle is how many windows with free slots there were since fewer were last tried in spite of them, and idleGap
	// the least number of them between two such trials.
	idle, idleGap int
}

// In the scenes of wild/hosts where requests hold each other up (4 seeds), a stride of 1.25 or 2 loses 2 % of the
// goodput, twice steep 3 % (half of it gains 1.4 %); half and twice of the others lose at most 0.3 %, which is chance.
// Twice hopeless loses a fifth in the 4 s from a cold start where 8 at once do the most, half of it 1 % at 2x (20 seeds).
const (
	// stride is how far a step goes. Next to the peak it changes little: where eight do the most, twelve do 8 % less,
	// and so do five. Where nothing holds requests up, a step downwards from the knee does a third less, which is
	// three standard deviations of what a step counts.
	stride = 1.5
	// soonAgain and again are how many binding windows pass at first, and at most, until both neighbours of the bound
	// are tried once more. The two steps cost a tenth to a fifth of four windows each; of those that do less one in ten
	// does so by chance.
	soonAgain, again = trialFirst / 4, 2 * trialFirst
	// laden is the ratio of the residence to the service time from which on a step asks whether fewer do more:
	// requests that hold each other up take twice as long at the peak, or nearly so with hardly any contention.
	laden = 1.5
	// alike is the coefficient of variation below which times are constant. Room is then filled in batches, whose
	// order of ends is taken for a line.
	alike = 0.25
	// gains is the elasticity of the throughput from which on more requests are right. A few percent are not worth
	// the time that each of them takes longer.
	gains = queued / 2
	// hopeless is the residence in objectives from which on a stage of a trial downwards goes further than a half: to
	// half of an objective, if requests only wait for each other, or to steep of what runs at most.
	hopeless, steep = 2, 1.0 / 8
	// manyInLine is the least line behind which a step asks whether fewer do more: of two or three a step leaves one. With 3,
	// and laden in place of slowed, four of 300 random worlds lost 1 to 4 %.
	manyInLine = 8
	// someLate is the share of late requests from which on a step asks, while slots are free, whether fewer do more.
	// rarer is how many times as many windows pass between two of these steps after each, and rarest the most. They
	// last several windows, and half of what comes may be refused meanwhile.
	someLate      = 1.0 / 16
	rarer, rarest = 4, 1 << 14
)

// outdoes reports whether more was done at b than at a, by more than chance mostly is.
func outdoes(a, b point) bool {
	return b.throughput > a.throughput*(1+max(margin, chance(a, b)))
}

// surelyLess reports whether less was done at a than at b, by twice the usual chance.
func surelyLess(a, b point) bool {
	return b.throughput > a.throughput*(1+2*max(margin, chance(a, b)))
}

// faster reports whether the work became faster from a to b, with fewer running: they do more than contention explains.
// Requests that hold each other up in pairs take at most as much longer as the square of their number, so fewer do at
// most as many times as much as they are fewer. Where far too many ran they do nearly that, so twice the usual chance
// counts.
func faster(a, b point) bool {
	return b.throughput*(1-a.given)*b.concurrency > a.throughput*a.concurrency*(1+2*max(margin, chance(a, b)))
}

// suspectCrowd begins a step downwards from p, after more requests did less, if they seem to be held up. It reports
// whether it did.
func (l *Limit) suspectCrowd(p point) bool {
	return l.crowd.unclimbed >= l.crowd.gap && l.askFewer(p)
}

// askFewer begins a step downwards from p if its requests take longer than alone and processors are not what is short.
// It reports whether it did.
func (l *Limit) askFewer(p point) bool {
	if l.told.useful > 0 || l.times.deviation() < alike || p.took <= min(laden*l.knee.alone, half*float64(l.cfg.Slack)) {
		return false
	}
	l.climbFrom(p, climbDown)
	return l.trial.kind.climbs()
}

// doubtLine begins a step downwards from p behind a line, and reports whether it did, if requests take twice as long there
// as where fewer ran and slots were free. As many as a line has in service may hold each other up all the same: sixteen
// workers of which eight do the most are a line of sixteen, and did three quarters of that for good. Work that became slower
// looks the same, so each question makes the next one rarer.
func (l *Limit) doubtLine(p point) bool {
	c, k, free := &l.crowd, &l.knee, &l.seen.free
	if !l.line.confirmed || l.Sharing() || l.seen.level.windows == 0 || min(p.samples, free.samples) < 2*enoughRanks ||
		c.unclimbed < max(c.gap, soonAgain) || l.times.deviation() < alike ||
		k.at < manyInLine || free.concurrency*stride > k.at || k.alone < slowed*free.residence {
		return false
	}
	l.climbFrom(p, climbDown)
	return l.trial.kind.climbs()
}

// note keeps the window w, in which slots were missing, if it has the most throughput.
func (c *crowd) note(w point) {
	if w.throughput > c.most.throughput {
		c.most = w
	}
}

// fewerDidMore begins a step downwards from p, and reports that, if fewer did more in the window w or an earlier one
// since slots are missing, and the residence is worth a trial. Work that became slower looks the same, and a window has the
// most by chance as well, so this is asked once of each. Where processors are shared, others may have done less meanwhile.
func (l *Limit) fewerDidMore(w, p point) bool {
	a := &l.crowd.most
	l.crowd.note(w)
	if l.line.confirmed || l.Sharing() || p.residence < l.harmless() || p.concurrency < moves*a.concurrency || !outdoes(p, *a) {
		return false
	}
	*a, l.crowd.gap = point{}, 0
	return l.suspectCrowd(p)
}

// freeCrowd begins a step downwards while slots are free, if requests have been late for some time although nothing
// waits for a slot: the others that run may be what they wait for. Mostly the work just takes that long, so each
// question makes the next one rarer.
func (l *Limit) freeCrowd(p point) {
	c, free := &l.crowd, l.seen.free
	c.idle++
	if c.idle < c.idleGap || l.seen.unbound <= believe || free.samples < calmMemory || free.over < someLate || p.over < someLate {
		return
	}
	free.limit, free.order = l.limit, p.order
	if l.askFewer(free) {
		c.idle, c.idleGap = 0, min(max(rarer*c.idleGap, trialFirst), rarest)
	}
}

// peaksBelow recognizes a trial downwards in which fewer did more than all did before. Such a trial goes on as long
// as they do and take most of the objective, and ends at the number that did the most. Work that became faster looks the
// same, unless more was done at each of several stages; then more do more again, which is tried at once and with twice the
// usual step, because windows are long where few run. Where requests take little of the objective that costs nothing, and
// from the second stage on the usual chance is enough to believe that more is done.
func (l *Limit) peaksBelow(p point) bool {
	c, t := &l.crowd, &l.trial
	if l.told.useful > 0 {
		return false
	}
	switch {
	case t.before == t.from:
		c.best, c.rises = p, 0
		if outdoes(t.from, p) {
			c.rises = 1
		}
	case p.throughput > c.best.throughput:
		if outdoes(c.best, p) {
			c.rises++
		}
		c.best = p
	}
	if faster(t.from, p) {
		l.voidFewer()
		return true
	}
	did := c.best
	did.throughput *= 1 - t.from.given
	if !surelyLess(t.from, did) && (t.before == t.from || p.residence > half*float64(l.cfg.Slack) || !outdoes(t.from, did)) {
		return false
	}
	if c.best == p && p.residence > half*float64(l.cfg.Slack) && l.lower(p) < reaches*p.concurrency {
		l.step(p)
		return true
	}
	best, last, rises, from := c.best, c.best == p, c.rises, t.from.limit
	l.end()
	l.settleAt(best.limit, best)
	l.crowd.lower, l.crowd.higher = !last, rises > 1 && best.took > laden*l.knee.alone
	if n := min(math.Ceil(best.limit*stride*stride), from); !l.crowd.higher && best.residence <= half*float64(l.cfg.Slack) && n > best.limit {
		l.trial, l.limit = trial{kind: climbUp, from: best, before: best}, n
	}
	return true
}

// settleAt takes n for the number that does the most, as p shows. Behind a line every number would do as much.
func (l *Limit) settleAt(n float64, p point) {
	if l.line.confirmed {
		l.disprove()
	}
	l.crowd = crowd{bound: n, rest: soonAgain}
	l.limit, l.knee.at, l.knee.samples, l.knee.rate, l.knee.service = n, n, p.samples, p.throughput, p.residence
	l.lowered = point{}
}

// climb is for a binding window p while the bound is known.
func (l *Limit) climb(p point) {
	c := &l.crowd
	l.knee.service = min(p.residence, max(l.knee.alone, c.bound/l.knee.rate))
	if l.limit < c.bound {
		l.limit = min(c.bound, l.limit*up)
		return
	}
	c.unclimbed++
	switch {
	case l.seen.level.windows == 0: // one window is too little to compare with
	case !c.higher && (c.lower || p.tardy < someLate):
		l.climbFrom(p, climbUp)
	case !c.lower:
		l.climbFrom(p, climbDown)
	case c.unclimbed >= c.rest:
		c.higher, c.lower, c.unclimbed = false, false, 0
		c.rest = min(2*c.rest, again)
	}
}

// climbFrom begins a step from p. Far from the peak the first step down is longer, because it shows sooner.
func (l *Limit) climbFrom(p point, kind trialKind) {
	from, at := p, p.concurrency
	if p.bound {
		from, at = l.origin(p), p.limit
	}
	n := math.Ceil(at * stride)
	if kind == climbDown {
		by := stride
		if l.crowd.bound == 0 || p.residence > whole*float64(l.cfg.Slack) {
			by *= stride
		}
		if p.tardy >= someLate && p.tardy <= mostLate {
			// If they only wait for each other, they are in time with so many.
			by = max(stride, p.overran/(most*float64(l.cfg.Slack)))
		}
		n = max(math.Floor(at/by), float64(l.cfg.Min))
	}
	if n == p.limit {
		l.crowd.lower = true // there are no fewer
		return
	}
	l.trial = trial{kind: kind, from: from, before: from}
	l.limit = n
}

// judgeClimb looks at the window p of a step, which was right if more was done in time, and a step downwards as well if
// as much was, and less was late.
func (l *Limit) judgeClimb(p point) {
	c, from, higher := &l.crowd, l.trial.from, l.trial.kind == climbUp
	l.trial.kind = noTrial
	l.window.order = order{} // a step says nothing of a line
	was, is := timely(from, p)
	gain, distance := math.Log(is.throughput/was.throughput), math.Log(p.concurrency/from.concurrency)
	late := !higher && from.tardy >= someLate && from.tardy <= mostLate
	better := late && gain > -margin && rarerLate(from, p, 2*surely)
	switch {
	case l.told.useful > 0, !higher && faster(from, p): // which was not so when the step began
		l.limit = from.limit
		return
	case late && !better && !outdoes(is, was) && p.tardy >= someLate && l.lower(p) < reaches*p.concurrency && p.limit > float64(l.fewest()):
		// Hardly less is done, and what is late may be in time with fewer still.
		l.trial.kind, l.limit = climbDown, max(l.lower(p), float64(l.fewest()))
		return
	case higher && (gain < gains*distance || p.tardy >= someLate && rarerLate(p, from, surely)), !higher && gain < unmoved && !better, c.bound == 0 && !outdoes(was, is) && !better:
		l.limit = from.limit
		c.lower, c.higher = c.lower || !higher, c.higher || higher
		if c.bound == 0 {
			c.unclimbed, c.gap = 0, min(max(2*c.gap, trialFirst), trialLast)
		}
		return
	case higher && p.tardy < someLate && p.limit >= l.unbounded() && gain > queued*distance: // nothing holds requests up
		l.crowd, l.knee.at, l.limit = crowd{gap: trialFirst}, p.limit, p.limit
		return
	}
	late = late || c.late
	l.settleAt(p.limit, p)
	l.crowd.late, l.crowd.lower, l.crowd.higher = late, higher, !higher // where it came from
}
