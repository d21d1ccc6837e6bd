package slots

import "math"

const (
	// changed is the difference, as a logarithm, from which on the knee has moved: three standard deviations of a
	// trial with 32 exponential completions.
	changed = 0.5
	// With half of the requests the residence is half as long if all the others waited, and as long if none did. A
	// ratio below shorter leaves some queue to find; one below perhaps as well, where a further stage costs little
	// because the residence is below brief Slacks, or where requests took far less before. Above kept there was no
	// queue.
	shorter, perhaps, kept = 0.5, 0.7, 0.8
	brief, far             = 4, 4
	// another is how many more long requests, on average, run in one window than in another for its throughput to
	// differ because of them. Without this rule twice as many answers are late where one request in a hundred takes
	// 100 times as long (simulation).
	another = 0.5
)

// judgeFewer measures the service time at p, where fewer requests run. By Little's law as many keep the server busy
// as come in such a time at its throughput. So no decision is needed whether there was a queue, and none can starve
// the server.
func (l *Limit) judgeFewer(p point) {
	t, slack := &l.trial, float64(l.cfg.Slack)
	if l.peaksBelow(p) {
		return
	}
	unqueued := p.residence > stays(t.from, p)*t.from.residence
	if slower(t.from, p) || unqueued && p.lent > t.from.lent+another {
		// The work became slower during the trial, or long requests took a part of what does it: it tells nothing.
		l.voidFewer()
		return
	}
	ratio := p.residence / t.before.residence
	again := ratio < shorter || ratio < perhaps && (l.Sharing() || p.residence < brief*slack || p.residence > far*l.knee.alone)
	if again && p.residence > slack && p.concurrency >= float64(l.cfg.Min)+0.5 && l.lower(p) < reaches*p.concurrency {
		l.step(p)
		return
	}
	rate := t.from.throughput
	if outdoes(t.from, t.before) {
		rate = t.before.throughput // callers gave up where more ran
	}
	l.learn(min(rate*p.residence, t.from.concurrency), p)
	l.knee.service = min(p.residence, l.knee.at/l.knee.rate)
	if l.limit = l.target(); unqueued {
		l.limit = max(l.limit, t.from.concurrency)
	}
	l.lowered = t.from
	l.end()
}

// voidFewer ends a trial downwards that tells nothing. The next one is due soon.
func (l *Limit) voidFewer() {
	l.limit = max(l.limit, l.trial.from.limit)
	l.end()
	l.agenda.untried = max(l.agenda.gap-memory/2, 0)
}

// learn takes a measurement of the knee, and of the service time, at p.
func (l *Limit) learn(at float64, p point) {
	k, a := &l.knee, &l.agenda
	k.alone = p.residence
	if k.at == 0 || math.Abs(math.Log(at/k.at)) > changed {
		a.gap, a.upGap, k.at, k.samples = trialFirst, raiseFirst, at, p.samples
		return
	}
	a.gap = min(2*a.gap, trialLast)
	k.samples = min(k.samples+p.samples, samplesMost)
	k.at += (at - k.at) * min(p.samples/k.samples, 1)
}

// stays is the part of the residence at a that is left at b, where fewer run, if no request waited for another at a:
// kept if half as many run or fewer. If more run it is larger in proportion, because a residence that shrinks as
// their number does is that of requests that wait for each other.
func stays(a, b point) float64 {
	missing := 1 - b.concurrency/a.concurrency
	return 1 - (1-kept)*max(0, min(missing/down, 1))
}

// slower reports whether the work became slower from a to b, with fewer running: by more than chance, their
// throughput fell by more than their number did, or they take longer.
func slower(a, b point) bool {
	by := max(margin, chance(a, b))
	return b.throughput < a.throughput*b.concurrency/a.concurrency*(1-by) || b.residence > a.residence*(1+max(by, near-1))
}

// chance is the relative difference of two throughputs that may be chance.
func chance(a, b point) float64 { return surely * math.Sqrt(1/a.samples+1/b.samples) }
