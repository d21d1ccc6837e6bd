package slots

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// binding is the share of a window during which every slot, or crowded that of the
	// slots which on average, must have been taken for its throughput to be the capacity
	// at that limit: if nobody waits in front, slots are empty between two requests.
	binding, crowded = 0.5, 0.9
	// memory is how many windows means span. With 4 the worlds of tuning/core lose 1.3 % on
	// average, and 18 % where one request in a hundred takes a hundred times as long.
	memory = 8
	// unmoved is the relative change of the limit below which the running requests are
	// as good as under the new one.
	unmoved = 1.0 / 16
	// moves is by how much the numbers that run must differ to compare what they do.
	moves = 1.2
	// surely is how many standard deviations are no chance.
	surely = 1.5
	// unordered is the residence, in Slacks, that a hidden queue may make where nobody minds
	// the order: with the way to the client and chance, the rest of the objective is left
	// for the queue in front. Where order matters harmless is what is not worth a trial,
	// and roomy what the limit may grow to while the knee is unknown.
	unordered, harmless, roomy = 4, 2, 3
	// fed is the hidden queue, in Slacks, that a line has in an overload, for the workers to have
	// something to do until the next credits are there: without one 2,000 clients got 94 % of the
	// capacity instead of 98 %, with half a Slack the second after a slowdown suffered.
	fed = 0.25
	// scarce is how many means one in fifty of exponential times takes, ln 50.
	scarce = 3.9
	// unsure is by how much a hidden queue may be longer than bounded has it while the knee is unknown.
	unsure = 1.75
	// few is how many more than the knee run for a hidden queue, however much residence times vary.
	few = 2
	// half, most and whole are half of the objective, most and all of it, in Slacks of a
	// tenth: units. Other values cost up to 5 % where the service takes half of the objective
	// (tuning/core).
	half, most, whole = 5, 8, 10
	// lost is what is left of the throughput when a trial has lowered the limit too far: half
	// of it, as a stage halves what runs, and what chance adds. No world of tuning/core sees it.
	lost = 0.6
	// several is how many requests at once are more than chance makes of a few in calm: with 1 two that ran where one did passed for a
	// queue, in one of 400 random worlds for good (wild/random).
	several = 16
	// uncertain is how many completions must show that a line does less than was done before it was believed:
	// of exponential times that is 0.6 of it by chance once in a hundred times.
	uncertain = 32
	// much is how far the residence of one window must fall under the service time to
	// replace it at once: two standard deviations of the mean of exponential times.
	much = 0.65
	// margin is how far, relatively, the limit lies above the knee: the knee is known to
	// a tenth or two, and a slot too few costs more than one too many.
	margin = 0.1
	// slowed is by how much longer than known the residence must be, where a line is confirmed,
	// for a window to end after a few completions: the knee stays, but what a slot costs has
	// changed. 32 completions of a server that became 20 times slower take most of a second.
	slowed = 2
	// believe is after how many windows in a row in which the limit did not bind the
	// service time may grow without a trial. First estimates can be far too low, with
	// service times of two kinds a quarter of the mean.
	believe = 8
	// spare is how many slots more than near times what runs stay free.
	spare = 2
	// dominated is the share of the slots' time that long requests held before they gave them back
	// from which on a window tells nothing of the others. Time counts, not windows: those that end after a
	// few completions are shorter than one long request, of which a hundredth of all is no reason to let the
	// limit grow (Pareto 1.5 and rare long ones, wild/single). With three quarters 64 long polls hold the
	// slots for longer after a slowdown, and the short requests beside them get 18 % less (simulation).
	dominated = 0.5
)

// steer moves the limit after a window.
func (l *Limit) steer(p point) {
	switch {
	case l.asBefore(p):
		if l.fifo {
			l.disprove() // so many did not wait in it
		}
		l.trial, l.recovering, l.untried = trial{}, recovered, 0
		n := max(l.least, l.once) // on average, and now and then by two standard deviations more
		l.limit, l.knee, l.alone, l.service, l.crowd = n+2*math.Sqrt(n), 0, p.residence, p.residence, crowd{}
	case l.recovering != recovered:
		l.recover(p)
	case p.bound && l.long > dominated*l.held:
		l.outgrow()
	case l.trial.dir != 0:
		l.judge(p)
	case p.bound && !l.window.hasty:
		l.full(p)
	default:
		l.roam(p)
		if l.fifo && l.knee > 0 {
			l.limit = l.target() // what would only wait behind the line waits in front of it
		}
	}
}

// asBefore reports whether far fewer run than once did without a queue, and take as little as they did then:
// the work was slower for a while. In a trial downwards that is no news.
func (l *Limit) asBefore(p point) bool {
	if !p.bound || l.useful > 0 || p.samples < 2*earlySize {
		return false
	}
	return l.limit < down*l.least && p.residence <= near*l.swift ||
		l.trial.dir >= 0 && l.limit < down*l.once && p.residence <= near*l.freely
}

// outgrow is for a window whose slots were held, most of the time, by requests that turned out to be
// long by nature: it tells nothing of the others, but that there are too few slots to find out. Long
// polls that are refused come again, and would hold what there is for good.
func (l *Limit) outgrow() {
	if t := &l.trial; t.dir < 0 && t.before != t.from {
		l.judgeDown(t.before) // what the stages before this one told stays
		return
	}
	if l.trial.dir != 0 {
		l.limit = max(l.limit, l.trial.from.concurrency)
		l.end()
	}
	l.limit *= up
}

// roam is for a window in which the limit did not bind: the residence is the service
// time, unless a queue builds up.
func (l *Limit) roam(p point) {
	l.before, l.level = point{}, level{}
	if l.window.hasty && l.collapses() {
		l.limit = l.past.concurrency
		return
	}
	piled := l.lent == 0 && piles(l.past, p) // what is long by nature piles up without harm
	if known := l.known(); p.residence > l.alarm() && (p.concurrency > near*known || piled) {
		l.halt(p, known, piled)
		return
	}
	if l.window.hasty {
		return // a few completions, which tell neither the service time nor the throughput
	}
	if l.useful > 0 && l.Limit() > l.useful && p.residence > 2*l.alone {
		// What runs shares the processors, in clumps that leave slots empty in between.
		l.rate = max(l.rate, p.throughput)
		l.try(p, -1)
		return
	}
	l.idle++
	l.crowd.most = point{}
	l.calmly.blend(p)
	switch {
	case p.residence < l.alone:
		l.alone += (p.residence - l.alone) / 2
	case l.idle > believe:
		// A hidden queue would have filled the slots by now.
		l.alone += (min(p.took, near*l.alone) - l.alone) / 2
	}
	l.service = l.alone
	if p.residence <= l.alone*near {
		if l.least == 0 && l.idle > memory/2 {
			l.least, l.swift = p.concurrency, l.alone
		} else if l.least > 0 && p.concurrency > l.least {
			l.least, l.swift = l.least+(p.concurrency-l.least)/4, l.alone
		}
		if l.least > l.once {
			l.once, l.freely = l.least, l.alone
		}
		if l.knee > 0 && !l.fifo {
			l.knee = max(l.knee, p.concurrency)
		}
	}
	if p.throughput > l.rate {
		l.rate += (p.throughput - l.rate) / memory
	}
	if l.window.full > 0 && l.lent == 0 && l.overdue == 0 && l.useful == 0 && p.residence <= l.alone*near && p.residence <= l.harmless() {
		l.limit *= littleUp // slots were missing in a burst, and nothing shows a queue behind them
		if l.window.full >= often*float64(l.window.last.Sub(l.window.start)) && p.residence <= l.freely {
			l.crowd.bound *= littleUp // and nobody in the way
		}
	}
}

// halt lowers the limit to what is known to be served at once, because a queue builds up at p. Where nothing was
// measured yet it is what leaves half of the objective at the throughput of now; how far the ranks reach counts only
// where more was done when more ran.
func (l *Limit) halt(p point, known float64, piled bool) {
	l.limit = max(known, p.concurrency*down)
	if l.knee > 0 || l.least > 0 {
		return
	}
	slack, least := float64(l.cfg.Slack), known*(1+margin)+1
	if piled {
		least = p.concurrency * down
	}
	l.limit = max(p.throughput*min(half*slack+2*l.alone, whole*slack), least)
}

// piles reports whether at b, where half as many again run than at a, hardly more is done: what is more waits,
// whatever the order in which requests end. The ranks reach as far as what runs where requests share what serves them.
func piles(a, b point) bool {
	return a.samples > 0 && b.concurrency >= max(up*a.concurrency, several) &&
		math.Log(b.throughput/a.throughput) < queued*math.Log(b.concurrency/a.concurrency)
}

// near is how much longer than the service time, relatively, a residence may be that
// shows no queue.
const near = 1.25

// full is for a window in which the limit bound.
func (l *Limit) full(p point) {
	l.idle = 0
	l.rate = l.level.throughput(p, l.length)
	l.untried++
	l.narrow++
	l.hurry(p)
	here := p
	here.order.merge(l.level.order)
	here.throughput, here.samples = l.rate, p.samples+l.level.done
	here.took = (p.took*p.samples + l.level.sum) / (p.samples + l.level.ends)
	l.compare(l.other, here)
	if l.fifo && l.outdone(here) {
		return
	}
	if l.crowd.bound > 0 {
		l.climb(here)
		return
	}
	if l.crowd.unclimbed++; l.outpaced(p, here) {
		return
	}
	switch {
	case l.knee == 0 && l.useful == 0 && p.residence <= l.harmless():
		l.limit = min(l.limit*up, max(l.limit, l.spacious()*p.throughput))
		return
	case l.knee == 0 && l.fifo:
		l.knee = l.counted(here.order)
	case l.knee == 0 && l.useful == 0 && l.caught > 0:
		l.knee, l.samples, l.caught = min(l.rate*l.alone, p.concurrency), l.caught, 0
		if n := l.reach.most(); n <= 2*p.limit {
			l.knee = max(l.knee, n) // one that short a time was measured with may be far too few
		}
	case l.knee == 0 && l.useful == 0 && l.least > 0:
		// As many as did without a queue when the work was faster.
		l.knee, l.trial.last = max(l.known(), p.concurrency*down), -1
		if !l.ranked() {
			l.untried = l.gap // whether more can is tried soon
		}
	case l.level.windows == 0:
		return // not known well enough to compare with
	case l.knee == 0:
		l.try(here, -1)
		return
	}
	if l.widens(here) {
		l.widen(here)
		return
	}
	if dir := l.due(here); dir != 0 {
		l.try(here, dir)
		return
	}
	if l.regret(p) {
		return
	}
	if p.residence < l.alone*much {
		// The work takes less than it did: can more be done at once, too?
		l.alone, l.untried, l.trial.last = p.residence, l.gap, -1
	}
	if l.fifo {
		l.rely(here, l.rate)
	}
	l.service = min(l.knee/l.rate, p.residence)
	l.limit = min(l.target(), l.limit*up)
}

// hurry brings the next trial forward where hardly anything is in time: is it a queue? Where the
// times are so nearly equal that ranks tell nothing, what had no queue before is forgotten.
func (l *Limit) hurry(p point) {
	if p.residence <= most*float64(l.cfg.Slack) {
		return
	}
	l.untried += memory
	if !l.ranked() {
		l.least = 0
	}
}

// due returns the direction of the trial that is due, 0 for none.
func (l *Limit) due(p point) int8 {
	switch {
	case l.useful > 0 && l.Limit() <= l.useful:
		return 0
	case !l.fifo && l.samples == 0 && l.trial.last > 0 && l.untried >= l.gap && p.residence > l.harmless():
		return -1 // more were tried, and the knee was never measured
	case (p.order.full(p.limit) || p.order.count < enoughRanks && !l.fifo && !l.Sharing()) && l.untried >= l.raiseGap && p.residence <= whole*float64(l.cfg.Slack):
		return 1 // nothing shows a queue
	case l.fifo && p.limit <= math.Round(l.knee):
		// No more than the knee are served. Where that leaves little of the objective, it is asked now and
		// then whether there is a line: chance confirms one where requests share processors.
		if p.residence > half*float64(l.cfg.Slack) && l.untried >= l.gap {
			return -1
		}
		return 0
	case l.fifo && !p.order.full(p.limit) || l.untried < l.gap:
		return 0
	case l.trial.last < 0 && p.concurrency < up*l.knee: // else far more run than the knee
		return 1
	case l.useful > 0 || p.residence > l.harmless():
		return -1
	}
	l.untried, l.trial.last = 0, -1
	return 0
}

// compare learns from two levels, of which one had moves times as many running, whether
// requests wait in line behind those in service: then fewer that run do as much. A
// throughput that fell with the limit refutes any order. One that fell by more than the limit, or
// rose, tells nothing: the work has become slower, or faster.
func (l *Limit) compare(a, b point) {
	if a.concurrency < b.concurrency {
		a, b = b, a
	}
	if b.throughput == 0 || a.throughput == 0 || a.concurrency < moves*b.concurrency {
		return
	}
	sure := chance(a, b)
	ratio, part := b.throughput/a.throughput, b.concurrency/a.concurrency
	if slower(a, b) || ratio > 1+max(margin, sure) {
		return
	}
	least := 1 - max(margin, min(sure, (1-part)/2))
	if l.fifo && l.knee > 0 { // a line does less with fewer than its knee
		least *= min(b.concurrency, l.knee) / min(a.concurrency, l.knee)
	}
	worse := ratio < least
	switch c := contrast(a.order, b.order, a.concurrency, b.concurrency); {
	case c > 0 && !worse:
		l.confirm(l.counted(b.order))
	case worse && l.fifo && ratio < least-sure && min(a.samples, b.samples) >= enoughRanks: // three standard deviations
		l.disprove()
		l.knee = max(l.knee, l.unlined.knee, min(a.concurrency, a.throughput*b.residence))
	case c < 0 || worse && l.trial.dir != 0 && min(a.samples, b.samples) >= enoughRanks:
		l.refute()
	}
}

// outdone refutes a line for the sake of which fewer run at p than did while slots were free, and do less: it is
// none that they would only have waited in. Who is first through the first of several stages is first at the end,
// and ranks say nothing of the others.
func (l *Limit) outdone(p point) bool {
	a := l.calmly
	part := p.concurrency / a.concurrency
	if a.samples < enoughRanks || p.samples < enoughRanks || part*moves > 1 || slower(a, p) ||
		p.throughput >= a.throughput*(1-max(margin, 2*chance(a, p))) { // three standard deviations
		return false
	}
	l.disprove()
	l.knee, l.limit, l.samples, l.untried = a.concurrency, max(l.limit, a.concurrency), 0, l.gap/2
	return true
}

// confirm says that there is a line behind a knee.
func (l *Limit) confirm(knee float64) {
	if l.Sharing() {
		return // those in service share the processors: fewer than the line lets in do as much
	}
	if l.wary > 0 || l.crowd.bound > 0 {
		return // what the ranks say was wrong
	}
	if !l.fifo {
		l.fifo, l.unlined, l.lined = true, unlined{l.knee, l.samples}, lined{}
	}
	if l.trial.dir > 0 && l.trial.before != l.trial.from {
		knee = max(knee, l.knee) // so many did more than fewer
	}
	l.knee, l.samples = knee, samplesMost
}

// refute says that there is no line. A knee by which requests take longer than a hidden queue may was
// believed for the line alone, and what was known before it counts again. Chance confirms a line now and
// then, and the knee is then as far as ranks reach: as many as ever ran. Where a process takes turns with
// others, a knee that stayed held the residence at twice the objective (TestTurnTaking).
func (l *Limit) refute() {
	if l.fifo && l.knee > l.rate*l.hidden() {
		l.knee, l.samples = l.unlined.knee, l.unlined.samples
	}
	l.fifo = false
}

// disprove refutes a line for what more requests did. Ranks are not believed for a while.
func (l *Limit) disprove() {
	l.refute()
	l.calm = calm{}
	l.wary, l.wideGap = trialLast, wideFirst
}

// counted returns how many requests are in service by the ranks that were seen: as far as they
// reach, or, as the highest of many is seldom seen, twice their mean.
func (l *Limit) counted(o order) float64 {
	top := l.reach.most()
	if top > fewRanks {
		top = max(top, min(2*o.beyond()+1, top*beyondTop))
	}
	return top
}

// rely takes the knee from the ranks at p, where a line is confirmed, and the service time
// with it, at a rate. More than was counted before is taken at once, less only by comparison.
func (l *Limit) rely(p point, rate float64) {
	if p.order.count >= enoughRanks {
		l.knee = max(l.knee, l.counted(p.order))
	}
	switch was := l.lined; {
	case was.rate == 0:
		l.lined = lined{l.knee, rate}
	case l.knee >= up*was.knee && math.Log(rate/was.rate) < queued*math.Log(l.knee/was.knee):
		l.disprove() // they would have done more: ranks that follow what runs are those of requests that share what there is
		return
	case l.knee >= up*was.knee:
		l.lined = lined{l.knee, rate}
	}
	l.samples = samplesMost
	l.alone = min(l.knee/rate, p.residence)
}

// fewest is the least limit: a processor that nobody uses is of no use.
func (l *Limit) fewest() int { return max(l.cfg.Min, min(l.useful, l.cfg.Max)) }

// known returns how many requests were seen to be served at once, at least. Ranks reach as far as
// what runs where requests share the processors.
func (l *Limit) known() float64 {
	if l.Sharing() {
		return max(l.knee, l.least)
	}
	return max(l.knee, l.least, l.reach.most())
}

// ranked reports whether the ranks reach as far as what ran without a queue: where requests end
// nearly in order they tell nothing of how many run at once.
func (l *Limit) ranked() bool { return l.reach.most() >= max(l.least, 2) }

// regret undoes what the last trial did if fewer requests do less: it was wrong.
func (l *Limit) regret(p point) bool {
	b := l.before
	switch {
	case b.samples == 0:
		return false
	case l.fifo && p.samples+l.level.done < uncertain, !l.fifo && l.level.windows == 0:
		return false // it is not seen yet
	}
	l.before = point{}
	if l.rate >= lost*b.throughput || p.concurrency >= b.concurrency {
		return false
	}
	if l.fifo {
		if l.calmly.samples > 0 && p.residence > near*l.calmly.residence {
			return false // the work has become slower
		}
		l.disprove()
		b.concurrency = max(l.unlined.knee, min(b.concurrency, b.throughput*p.residence))
	}
	l.knee, l.limit, l.samples, l.untried = b.concurrency, b.concurrency, 0, l.gap/2
	return true
}

// target is the limit with the hidden queue that it is to have, where more do no less.
func (l *Limit) target() float64 {
	if l.crowd.bound > 0 {
		return l.crowd.bound
	}
	return l.unbounded()
}

// unbounded is the limit with the hidden queue that it is to have.
func (l *Limit) unbounded() float64 {
	if l.useful > 0 {
		return max(l.knee, float64(l.useful))
	}
	slack := float64(l.cfg.Slack)
	if l.fifo {
		hidden := min(1, l.rate*slack)
		if !l.ordered && l.idle == 0 {
			hidden = max(hidden, fed*l.rate*slack)
		}
		// What is more than the knee waits behind it, one departure for each: where these are rare, that
		// is a part of the objective.
		return l.knee + min(max(margin*l.knee, hidden), fed*l.rate*slack)
	}
	// A few more than the knee may be one that was measured too low.
	queued := min(l.rate*l.hidden(), max(l.rate*l.bounded(), l.knee+few))
	return max(min(l.knee*(1+l.doubt()), max(l.knee, most*slack*l.rate)), queued)
}

// hidden is the residence, in ns, with a hidden queue that costs nobody anything.
func (l *Limit) hidden() float64 {
	if l.ordered {
		return float64(l.cfg.Slack)
	}
	return unordered * float64(l.cfg.Slack)
}

// bounded is the residence, in ns, with which one request in fifty takes longer than the objective less a
// Slack for the way. Where the order inside is not that of arrival, or requests share what does them, some
// wait for much longer than the mean. Behind a store whose processors are shared a tenth of the requests were
// given up while they ran (wild/hosts has such a store).
func (l *Limit) bounded() float64 {
	return (whole - 1) * float64(l.cfg.Slack) / (1 + (scarce-1)*l.deviation())
}

// harmless is the residence, in ns, up to which it is not asked whether it is a queue.
func (l *Limit) harmless() float64 {
	return max(harmless*float64(l.cfg.Slack), min(l.hidden(), unsure*l.bounded()))
}

// spacious is the residence, in ns, that a hidden queue may make while the knee is unknown.
func (l *Limit) spacious() float64 {
	return min(max(roomy*float64(l.cfg.Slack), l.hidden()), unsure*l.bounded())
}

// doubt is how far, relatively, the limit lies above the knee at least: a slot too few
// costs more than one too many.
func (l *Limit) doubt() float64 {
	if l.samples == 0 {
		return margin
	}
	return max(margin, 1/math.Sqrt(l.samples))
}

// alarm is the residence from which on waiting for the end of a window would only let
// the hidden queue grow.
func (l *Limit) alarm() float64 {
	alone := l.alone
	if alone == 0 {
		alone = l.window.early
	}
	return max(half*float64(l.cfg.Slack), 2*alone)
}

// alarmed reports whether a hidden queue builds up that is too long to wait for the end of the
// window.
func (l *Limit) alarmed() bool {
	if l.collapses() {
		return true
	}
	w := &l.window
	enough, known := earlySize, max(l.knee, l.least)
	if l.service == 0 && float64(w.last.Sub(w.start))*float64(w.done) < 2*w.sum {
		return false // of what came at the start, the short ones have ended first
	}
	if known == 0 {
		enough *= 4 // the throughput is all there is to go by
	}
	return l.trial.dir == 0 && w.done >= enough && (known > 0 || w.full == 0) && float64(l.inUse) > near*l.known() && w.residence() > l.alarm()
}

// sink lowers a limit that is far above peak, what ran at once in a window in which
// no slot was missing, with and without a slot. It would let that many in before the first window of
// an overload ended; and a limit that turns out too low grows by half a window. Below the peak
// it is not: what runs without a slot needs one again when it ends and its client asks anew, until
// it is seen to be long.
func (l *Limit) sink(peak int) {
	if room := max(near*l.peak+spare, l.knee*(1+margin)); l.limit > room {
		l.limit += (room - l.limit) / 4
	}
	l.limit = max(l.limit, float64(peak)-0.5) // to which it is rounded
}

// Slow says that departures are gap ns apart while every slot is taken, much longer than they were,
// before a window can tell. The knee stays, and each slot beyond it costs more than it did.
func (l *Limit) Slow(now mono.Time, gap float64) {
	if !l.fifo || l.knee == 0 || l.trial.dir < 0 || 1/gap > l.rate || !l.Lends() {
		return
	}
	if l.trial.dir > 0 {
		l.end()
	}
	l.rate = 1 / gap
	l.alone = l.knee * gap
	l.service = l.alone
	was := l.limit
	l.limit = max(float64(l.fewest()), min(was, l.target()))
	l.level = level{}
	l.begin(now, l.limit/was)
}

// turn is how long it takes until what runs now is done, but for a few.
func (l *Limit) turn() time.Duration {
	return time.Duration(min(l.mean+2*l.spread, whole*float64(l.cfg.Slack)))
}

// deviation is the coefficient of variation of the residence times, exact for exponential ones, whose mean
// deviation is 2/e; 0 before the first.
func (l *Limit) deviation() float64 {
	if l.mean == 0 {
		return 0
	}
	return 1.36 * l.spread / l.mean
}

// variation is the square of the residence times' coefficient of variation, at
// least 1, which exponential times have: so many times more samples are needed.
func (l *Limit) variation() float64 {
	if l.service == 0 {
		return 1
	}
	return max(1, min(l.deviation()*l.deviation(), 8))
}
