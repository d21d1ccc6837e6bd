package slots

import "math"

// Trials are rare where ranks tell the knee: the worlds of tuning/core say nothing about
// trialLast, littleUp, forget, samplesMost, changed, queued and kept.
const (
	// trialFirst and trialLast are how many binding windows pass between two trials: one
	// costs up to half of the throughput of its window, a hundredth of that of fifty,
	// and each that finds nothing new doubles the number. raiseFirst is the same for a
	// trial upwards where the ranks show no queue: it costs no throughput.
	trialFirst, trialLast = 48, 512
	raiseFirst            = 4
	// up and down are how far a stage goes; littleUp how far up where the residence is
	// long and more would make it too long. A half shows a queue by a factor of two in the
	// residence, against which chance is small; three quarters cost 39 % where a constant service
	// takes half of the objective (tuning/core).
	up, littleUp, down = 1.5, 1.25, 0.5
	// forget is what is left, at each trial, of the requests at once that had no queue:
	// they may have one now.
	forget = 0.9
	// samplesMost is over how many completions of trials the knee is smoothed: of exponential
	// times the mean is then known to a sixteenth.
	samplesMost = 256
	// changed is the difference, as a logarithm, from which on the knee has moved: three
	// standard deviations of a trial with 32 exponential completions.
	changed = 0.5
	// queued is the elasticity of the throughput below which there is a hidden queue: midway
	// between 1 without one and 0.
	queued = 0.5
	// With half the requests running the residence is half as long where all the others
	// waited, and as long where none did. Under shorter some queue may be left to find;
	// under perhaps as well, where a further stage costs little because the residence is
	// below brief Slacks, or where some took far less before; over kept there was none.
	shorter, perhaps, kept = 0.5, 0.7, 0.8
	brief, far             = 4, 4
	// another is how many more long requests, on average, run in one window than in another that
	// is compared with it, for what is done to differ for that. Without this rule twice as many answers
	// are late where one request in a hundred takes 100 times as long (simulation).
	another = 0.5
)

// trial is an experiment with the limit: with fewer running, the residence tells the
// service time; with more, the throughput tells whether they were too few.
type trial struct {
	dir    int8  // -1: fewer run, 1: more; 0: no trial
	wide   bool  // upwards, whatever the ranks say: see widen
	sure   bool  // a window of it has refuted the line already
	crowd  bool  // whether so many do more: see climbs
	last   int8  // direction of the last one
	from   point // where it began, with the throughput of all windows there
	before point // the stage before this one
}

// try begins a trial at p.
func (l *Limit) try(p point, dir int8) {
	if p.concurrency < float64(l.cfg.Min)+0.5 {
		dir = 1
	}
	from := l.origin(p)
	l.trial = trial{dir: dir, from: from}
	l.untried = 0
	l.least *= forget
	l.once *= forget
	l.step(from)
}

// origin is p as what a trial begins at. The rate may be that of a start, when nothing waited yet.
func (l *Limit) origin(p point) point {
	p.throughput, p.residence = l.rate, max(p.residence, p.concurrency/l.rate)
	return p
}

// step moves the limit to the next stage of the trial, from p.
func (l *Limit) step(p point) {
	switch slack := float64(l.cfg.Slack); {
	case l.trial.dir < 0:
		l.limit = max(l.lower(p), float64(l.fewest()))
	case l.fifo && !l.trial.wide:
		l.limit = math.Floor(p.concurrency + 1.5) // its rank shows whether it is served
	case p.residence > half*slack && !l.trial.wide:
		l.limit = max(math.Ceil(p.concurrency*littleUp), math.Floor(p.concurrency+1.5))
	default:
		l.limit = max(math.Ceil(p.concurrency*up), math.Floor(p.concurrency+1.5))
	}
	l.trial.before = p
}

// lower returns how many run in the next stage downwards from p: half of them, or as many as the ranks reach,
// if that is a third less at least. Hardly fewer would tell nothing.
func (l *Limit) lower(p point) float64 {
	if l.useful > 0 {
		return float64(l.fewest())
	}
	part := down
	if all := whole * float64(l.cfg.Slack); p.residence > hopeless*all {
		part = max(down*all/p.residence, steep)
	}
	low := max(math.Floor(p.concurrency*part+0.25), math.Floor(min(l.least, p.concurrency)))
	if o := l.trial.from.order; !l.Sharing() && o.short(l.trial.from.limit) && o.top <= p.concurrency/up {
		low = max(low, min(math.Ceil(o.top), math.Floor(p.concurrency/moves)))
	}
	return low
}

// judge looks at the window of a trial's stage.
func (l *Limit) judge(p point) {
	if l.trial.crowd {
		l.judgeCrowd(p)
		return
	}
	l.compare(l.trial.before, p)
	switch {
	case l.trial.wide:
		l.judgeWide(p)
	case l.trial.dir < 0 && p.concurrency < down*l.limit: // fewer came than may run
		l.limit = l.trial.from.concurrency
		l.end()
		l.untried = max(l.gap-memory, 0)
	case l.fifo:
		if l.raiseGap = min(2*l.raiseGap, trialLast); l.reach.most() > math.Round(l.knee) {
			l.raiseGap = raiseFirst
		}
		if l.trial.dir < 0 {
			l.before = l.trial.from
		}
		l.end()
		l.gap = min(2*l.gap, trialLast)
		l.rely(p, l.trial.from.throughput)
		l.service = l.alone
		l.limit = l.target()
	case !p.bound && l.trial.dir > 0: // so many are enough
		if f := l.trial.from; p.took < near*f.took && p.took < f.took*max(1+unmoved, math.Sqrt(p.concurrency/f.concurrency)) {
			l.knee = max(l.knee, p.concurrency*near)
		}
		l.end()
		l.limit = max(l.target(), l.trial.from.concurrency)
	case l.trial.dir < 0:
		l.judgeDown(p)
	default:
		l.judgeUp(p)
	}
}

// judgeDown measures the service time with fewer requests running. By Little's law as
// many keep the server busy as come in such a time at its throughput: no decision
// whether there was a queue is needed, and none can starve the server.
func (l *Limit) judgeDown(p point) {
	t, slack := &l.trial, float64(l.cfg.Slack)
	if l.thins(p) {
		return
	}
	if !l.excused && faster(t.from, p) {
		// Fewer than processors are of use do not thin: the work has become faster meanwhile, which passes for a
		// queue that is gone.
		l.limit, l.excused = max(l.limit, t.from.concurrency), true
		l.end()
		l.untried = max(l.gap-memory/2, 0)
		return
	}
	l.excused = false
	unqueued := p.residence > stays(t.from, p)*t.from.residence
	if slower(t.from, p) || unqueued && p.lent > t.from.lent+another {
		// It began before the work became slower, or long requests took a part of what does it, and
		// tells nothing.
		l.limit = max(l.limit, t.from.concurrency)
		l.end()
		l.untried = max(l.gap-memory/2, 0)
		return
	}
	ratio := p.residence / t.before.residence
	more := ratio < shorter || ratio < perhaps && (l.Sharing() || p.residence < brief*slack || p.residence > far*l.alone)
	if more && p.residence > slack && p.concurrency >= float64(l.cfg.Min)+0.5 && l.lower(p) < reaches*p.concurrency {
		l.step(p)
		return
	}
	l.learn(min(t.from.throughput*p.residence, t.from.concurrency), p)
	l.service = min(p.residence, l.knee/l.rate)
	l.limit = l.target()
	if unqueued {
		if t.from.concurrency > l.least {
			l.least, l.swift = t.from.concurrency, p.residence
		}
		l.limit = max(l.limit, t.from.concurrency)
	}
	l.end()
	switch {
	case unqueued && p.residence > whole*slack:
		l.untried = max(l.gap-memory/2, 0) // hardly anything is in time: nothing is lost by trying
	case unqueued && l.useful > 0:
		l.untried = l.gap // they wait for something else than processors: are more of use?
	}
	l.before = t.from
}

// stays is the part of the residence at a that is left at b, where fewer run, if no request waited for
// another at a: kept where half as many run or fewer. Where more run it is larger in proportion, because a
// residence that shrinks as their number does is that of requests that wait for each other.
func stays(a, b point) float64 {
	missing := 1 - b.concurrency/a.concurrency
	return 1 - (1-kept)*max(0, min(missing/down, 1))
}

// slower reports whether the work became slower from a to b, with fewer running: their
// throughput fell by more than their number did, or they take longer, and by more than chance has it.
func slower(a, b point) bool {
	by := max(margin, chance(a, b))
	return b.throughput < a.throughput*b.concurrency/a.concurrency*(1-by) || b.residence > a.residence*(1+max(by, near-1))
}

// faster reports whether the work became faster from a to b, with fewer running: they do more than all that was
// done before, for callers who had given up as well, and by more than chance has it.
func faster(a, b point) bool {
	return b.throughput*(1-a.given) > a.throughput*max(near, 1+chance(a, b))
}

// chance is the difference of two throughputs, relatively, that may be chance.
func chance(a, b point) float64 { return surely * math.Sqrt(1/a.samples+1/b.samples) }

func (l *Limit) judgeUp(p point) {
	t := &l.trial
	// Long requests that were there before and are not now have left room for others.
	distance := math.Log((p.concurrency + max(t.before.lent-p.lent, 0)) / t.before.concurrency)
	least := queued
	if p.order.full(p.limit) {
		least /= 2 // nothing shows a queue, so that less of a gain will do
	}
	// The two say the same, by Little's law, and each is disturbed by other things.
	more, longer := math.Log(p.throughput/t.before.throughput), math.Log(p.took/t.before.took)
	if distance > 0 && more > least*distance && longer < (1-least)*distance {
		// There was no queue before, so that was the service time.
		l.alone = t.before.concurrency / t.before.throughput
		l.knee, l.rate, l.gap, l.raiseGap = min(p.concurrency, p.throughput*l.alone), p.throughput, memory, raiseFirst
		l.step(p)
		return
	}
	if t.before == t.from {
		// Ranks that reach as far as what runs are no reason to put off a trial with fewer: where requests
		// share what there is they always do.
		if !t.from.order.full(t.from.limit) {
			l.gap = min(2*l.gap, trialLast)
		}
		l.raiseGap = min(2*l.raiseGap, trialLast)
	}
	from := t.before
	l.end()
	if more < 0 && l.suspect(from) {
		return
	}
	if l.limit = l.target(); l.knee == 0 {
		l.limit = t.from.concurrency // there was a line a moment ago, and nothing is known without it
	}
	if l.samples == 0 {
		l.untried = l.gap // there is a queue, and the knee is below, where it was never measured
	}
}

// wideFirst is how many binding windows pass before the first wide trial of a line. Each that confirms it makes four
// times as many of it, up to trialLast.
const wideFirst = 8

// widens reports whether it is time for a wide trial, which takes half as long again for each request, and is none where
// that passes half of the objective. Where it matters who is served first it is seldom.
func (l *Limit) widens(p point) bool {
	gap := l.wideGap
	if l.knee*near < l.proven {
		gap = min(gap, wideFirst) // the ranks say less than they did
	}
	if l.ordered {
		gap = trialLast
	}
	return l.fifo && l.narrow >= gap && p.residence*up <= half*float64(l.cfg.Slack) && p.limit >= 1
}

// widen begins a trial with half as many again as the ranks of a line say. They reach no further than the first of
// several stages, or hardly as far where requests end nearly in order: then more of them do more.
func (l *Limit) widen(p point) {
	from := l.origin(p)
	l.trial = trial{dir: 1, wide: true, last: l.trial.last, from: from}
	l.narrow = 0
	l.step(from)
}

// judgeWide refutes the line if half as many again did more, and took no longer, in two windows.
func (l *Limit) judgeWide(p point) {
	f := l.trial.from
	distance := math.Log(p.concurrency / f.concurrency)
	more, longer := math.Log(p.throughput/f.throughput), math.Log(p.took/f.took)
	if longer < -unmoved {
		l.endWide() // the work has become faster
		return
	}
	if distance <= 0 || more <= queued*distance || longer >= (1-queued)*distance {
		l.endWide()
		if more < 0 && l.suspect(f) {
			return
		}
		l.proven = f.concurrency
		l.wideGap = min(4*l.wideGap, trialLast)
		return
	}
	if !l.trial.sure {
		l.trial.sure = true // one window says so by chance once in twenty times
		return
	}
	l.disprove()
	l.trial.wide = false
	l.alone = f.concurrency / f.throughput
	l.knee, l.rate, l.gap, l.raiseGap = min(p.concurrency, p.throughput*l.alone), p.throughput, memory, raiseFirst
	l.step(p)
}

// endWide ends a wide trial that found nothing. The others come when they would have come without it.
func (l *Limit) endWide() {
	untried, last := l.untried, l.trial.last
	l.end()
	l.untried, l.trial.last = untried, last
	l.limit = l.target()
}

// learn takes a measurement of the knee and of the service time.
func (l *Limit) learn(knee float64, p point) {
	l.alone = p.residence
	if l.knee == 0 || math.Abs(math.Log(knee/l.knee)) > changed {
		l.gap, l.raiseGap, l.knee, l.samples = trialFirst, raiseFirst, knee, p.samples
		return
	}
	l.gap = min(2*l.gap, trialLast)
	l.samples = min(l.samples+p.samples, samplesMost)
	l.knee += (knee - l.knee) * min(p.samples/l.samples, 1)
}

// end ends the trial.
func (l *Limit) end() {
	l.trial.last, l.trial.dir, l.trial.wide, l.trial.crowd = l.trial.dir, 0, false, false
	l.untried = 0
}
