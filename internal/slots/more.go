package slots

import "math"

const (
	// queued is the elasticity of the throughput below which there is a hidden queue: midway between 1 without one
	// and 0.
	queued = 0.5
	// wideFirst is how many binding windows pass before the first wide trial of a line. Each that confirms the line
	// makes it four times as many, up to trialLast.
	wideFirst = 8
)

// judgeMore looks at the window p of a stage upwards. If more was done, the trial goes on.
func (l *Limit) judgeMore(p point) {
	t, a := &l.trial, &l.agenda
	distance := math.Log(p.concurrency / t.before.concurrency)
	// By Little's law the two say the same; each is disturbed by other things.
	gain, longer := math.Log(p.throughput/t.before.throughput), math.Log(p.took/t.before.took)
	if distance > 0 && gain > queued*distance && longer < (1-queued)*distance {
		l.didMore(t.before, p)
		return
	}
	if t.before == t.from {
		// Ranks that reach as far as what runs are no reason to put off a trial with fewer: they always do where
		// requests share what serves them. On shared processors trials upwards end by themselves: see unqueuedAt.
		if l.Sharing() || !t.from.order.full(t.from.limit) {
			a.gap = min(2*a.gap, trialLast)
		}
		a.upGap = min(2*a.upGap, trialLast)
	}
	from := t.before
	l.end()
	if gain < 0 && l.suspectCrowd(from) {
		return
	}
	if l.limit = l.target(); l.knee.at == 0 {
		l.limit = t.from.concurrency // there was a line a moment ago, and nothing is known without it
	}
	if l.knee.doubtful() {
		a.untried = a.gap // there is a queue, and the knee is below
	}
}

// didMore goes on with a trial upwards after p did more than a did. There was no queue at a, so the service time is
// that of a.
func (l *Limit) didMore(a, p point) {
	k := &l.knee
	k.alone = a.concurrency / a.throughput
	k.at, k.rate = min(p.concurrency, p.throughput*k.alone), p.throughput
	l.agenda.gap, l.agenda.upGap = memory, raiseFirst
	l.step(p)
}

// widens reports whether a wide trial is due at p, which makes each request take half as long again: none begins
// where that passes half of the objective, or while p is of so few completions that chance makes it slow. Where the
// order of service matters, wide trials are rare.
func (l *Limit) widens(p point) bool {
	a := &l.agenda
	gap := a.wideGap
	if l.told.ordered {
		gap = trialLast
	}
	return l.line.confirmed && a.sinceWide >= gap && p.samples >= enoughRanks && p.residence*up <= half*float64(l.cfg.Slack) && p.limit >= 1
}

// widen begins a trial with half as many again as the ranks of a line show. They reach no further than the first of
// several stages, or hardly as far if requests end nearly in order; more do more then.
func (l *Limit) widen(p point) {
	from := l.origin(p)
	l.trial = trial{kind: wide, from: from}
	l.agenda.sinceWide = 0
	l.step(from)
}

// judgeWide refutes the line if half as many again did more, by more than chance, in one window and in two together: behind
// a line nothing more is done. How much more says nothing of the line, because the knee may lie between the two: 4
// connections in front of 12 others were taken for 12 in line, and 20 did a fifth more, of which a half was asked for.
func (l *Limit) judgeWide(p point) {
	f := l.trial.from
	p = l.seen.level.with(p, l.seen.level.throughput(p, l.seen.length))
	switch {
	case p.concurrency <= f.concurrency || !outdoes(f, p): // other trials come when they would have come without it
		l.trial.kind, l.limit = noTrial, l.target()
		l.agenda.wideGap = min(4*l.agenda.wideGap, trialLast)
	case !l.trial.sure:
		l.trial.sure = true
	default:
		l.disprove()
		l.trial.kind = more
		l.didMore(f, p)
	}
}
