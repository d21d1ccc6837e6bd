package slots

import "math"

// queued is the elasticity of the throughput below which there is a hidden queue: midway between 1 without one
// and 0.
const queued = 0.5

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
		// requests share what serves them.
		if !t.from.order.full(t.from.limit) {
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
