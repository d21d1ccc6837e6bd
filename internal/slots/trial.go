package slots

import "math"

// Trials are rare where ranks tell the knee: the worlds of tuning/core say nothing about trialLast, littleUp, forget,
// samplesMost, changed, queued and kept.
const (
	// trialFirst and trialLast are how many binding windows pass between two trials. A trial costs up to half of the
	// throughput of its window, a hundredth of that of fifty windows; each that finds nothing new doubles the number.
	// raiseFirst is the same for a trial upwards where the ranks show no queue, which costs no throughput.
	trialFirst, trialLast = 48, 512
	raiseFirst            = 4
	// up and down are how far a stage goes; littleUp how far up where the residence is long and a larger step would
	// make it too long. A half shows a queue by a factor of two in the residence, against which chance is small;
	// three quarters cost 39 % where a constant service takes half of the objective (tuning/core).
	up, littleUp, down = 1.5, 1.25, 0.5
	// forget is what each trial leaves of the number that ran without a queue, which may have one now.
	forget = 0.9
	// samplesMost is over how many completions of trials the knee is smoothed: of exponential times the mean is then
	// known to a sixteenth.
	samplesMost = 256
)

// trialKind is what a trial compares with the limit at which it begins.
type trialKind uint8

const (
	noTrial   trialKind = iota
	fewer               // fewer run, in stages: their residence tells the service time
	more                // more run, in stages: their throughput tells whether there were too few
	wide                // half as many again as a confirmed line has in service
	climbDown           // fewer run, and only what they do in time counts: see crowd
	climbUp
)

// down reports whether fewer requests run for the trial.
func (k trialKind) down() bool { return k == fewer || k == climbDown }

// climbs reports whether the trial is a step of crowd.
func (k trialKind) climbs() bool { return k >= climbDown }

// trial is an experiment with the limit.
type trial struct {
	kind   trialKind
	sure   bool  // wide: a window has refuted the line already
	from   point // where it began, with the throughput of all windows there
	before point // the stage before this one
}

// agenda says when the next trials are due, in binding windows.
type agenda struct {
	untried   int       // since the last trial
	last      trialKind // fewer or more: the direction of the last trial
	gap       int       // between two trials
	upGap     int       // between two trials upwards, where ranks show no queue
	wideGap   int       // between two wide trials
	sinceWide int       // since the last wide trial
}

// due returns the kind of the trial that is due at p.
func (l *Limit) due(p point) trialKind {
	a, full := &l.agenda, p.order.full(p.limit)
	switch {
	case l.told.useful > 0 && l.Limit() <= l.told.useful:
		return noTrial
	case !l.line.confirmed && l.knee.doubtful() && a.last == more && a.untried >= a.gap && p.residence > l.harmless():
		return fewer // more were tried
	case l.unqueuedAt(p) && a.untried >= a.upGap && p.residence <= whole*float64(l.cfg.Slack) && p.given <= deserted:
		return more
	case l.line.confirmed && p.limit <= math.Round(l.knee.at):
		return noTrial // no more than the knee are served
	case l.line.confirmed && !full || a.untried < a.gap:
		return noTrial
	case a.last == fewer && p.concurrency < up*l.knee.at: // else far more run than the knee
		return more
	case l.told.useful > 0 && p.residence > near*l.knee.alone, p.residence > l.harmless():
		return fewer
	}
	a.untried, a.last = 0, fewer
	return noTrial
}

// unqueuedAt reports whether nothing shows a queue at p: the ranks reach as far as what runs, or are too few to tell. Those
// of requests that share processors always reach so far, so there they must take no longer than alone as well.
func (l *Limit) unqueuedAt(p point) bool {
	full := p.order.full(p.limit)
	if l.Sharing() {
		return full && p.residence <= near*l.knee.alone
	}
	return full || p.order.count < enoughRanks && !l.line.confirmed
}

// try begins a trial at p, upwards if there are no fewer than run.
func (l *Limit) try(p point, kind trialKind) {
	if p.concurrency < float64(l.cfg.Min)+0.5 {
		kind = more
	}
	from := l.origin(p)
	l.trial = trial{kind: kind, from: from}
	l.agenda.untried = 0
	l.unqueued.n *= forget
	l.step(from)
}

// origin is p as what a trial begins at. The known rate counts, and Little's law, because the window may be of a
// start, when nothing waited yet.
func (l *Limit) origin(p point) point {
	p.throughput, p.residence = l.knee.rate, max(p.residence, p.concurrency/l.knee.rate)
	return p
}

// step moves the limit to the next stage of the trial, from p.
func (l *Limit) step(p point) {
	kind, one := l.trial.kind, math.Floor(p.concurrency+1.5)
	switch {
	case kind == fewer:
		l.limit = max(l.lower(p), float64(l.fewest()))
	case l.line.confirmed && kind != wide:
		l.limit = one // its rank shows whether it is served
	case p.residence > half*float64(l.cfg.Slack) && kind != wide:
		l.limit = max(math.Ceil(p.concurrency*littleUp), one)
	default:
		l.limit = max(math.Ceil(p.concurrency*up), one)
	}
	l.trial.before = p
}

// lower returns how many run in the next stage downwards from p: half of them, or fewer if they take several objectives and
// the ranks show no line, which half of them would show as well.
func (l *Limit) lower(p point) float64 {
	part := down
	if all := whole * float64(l.cfg.Slack); p.residence > hopeless*all && p.order.full(p.limit) {
		part = max(down*all/p.residence, steep)
	}
	return math.Floor(p.concurrency*part + 0.25)
}

// judge looks at the window p of a trial's stage.
func (l *Limit) judge(p point) {
	t := &l.trial
	if t.kind.climbs() {
		l.judgeClimb(p)
		return
	}
	l.compare(t.before, p)
	switch {
	case t.kind == wide:
		l.judgeWide(p)
	case l.line.confirmed:
		l.judgeByRanks(p)
	case t.kind == fewer:
		l.judgeFewer(p)
	case !p.bound: // so many are enough
		if f := t.from; p.took < near*f.took && p.took < f.took*max(1+unmoved, math.Sqrt(p.concurrency/f.concurrency)) {
			l.knee.at = max(l.knee.at, p.concurrency*near)
		}
		l.end()
		l.limit = max(l.target(), t.from.concurrency)
	default:
		l.judgeMore(p)
	}
}

// judgeByRanks ends a trial at p in which a line was, or became, confirmed.
func (l *Limit) judgeByRanks(p point) {
	a := &l.agenda
	if l.trial.kind == fewer {
		l.lowered = l.trial.from
	}
	l.end()
	a.gap, a.upGap = min(2*a.gap, trialLast), min(2*a.upGap, trialLast)
	l.rely(p, l.trial.from.throughput)
	l.knee.service = l.knee.alone
	l.limit = l.target()
}

// end ends the trial.
func (l *Limit) end() {
	l.agenda.last, l.agenda.untried = more, 0
	if l.trial.kind.down() {
		l.agenda.last = fewer
	}
	l.trial.kind = noTrial
}
