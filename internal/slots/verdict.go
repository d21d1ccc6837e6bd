package slots

const (
	// lost is the share of the throughput below which a trial has lowered the limit too far: half, because a stage
	// halves what runs, and chance. No world of tuning/core sees it.
	lost = 0.6
	// uncertain is how many completions must show that a line does less than was done before it was believed: of
	// exponential times so many do 0.6 of it by chance once in a hundred times.
	uncertain = 32
	// fewRanks is the rank up to which all ranks are seen soon, and beyondTop how far the mean may lead beyond the
	// highest rank seen. Without the mean 100 workers with bimodal times did 0.83 of their capacity after a slowdown
	// instead of 0.87 (TestFollowsTheServer).
	fewRanks, beyondTop = 16, 1.15
)

// line is the verdict on whether requests wait in line behind those in service, first come, first served. The ranks
// suggest it (calm, contrast), and the throughput can refute it.
type line struct {
	confirmed bool
	before    measured // what was known of the knee before; it counts again once the line is refuted
	wary      int      // windows for which no line is believed, because the last one was none
}

// measured is a knee and the number of completions that it was measured with.
type measured struct{ knee, samples float64 }

// compare learns from two levels, of which one had moves times as many running, whether there is a line: then fewer
// running requests do as much. A throughput that fell with the limit refutes a line, whatever the order of ends, and so
// does one that hardly fell with far fewer running than the ranks say are in service. One that fell by more than the
// limit, or rose, tells nothing: the work has become slower or faster.
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
	least, knee := 1-max(margin, min(sure, (1-part)/2)), max(l.counted(b.order), b.order.top)
	if l.line.confirmed && l.knee.at > 0 {
		knee = l.knee.at
		least *= inService(knee, a, b)
	}
	worse, enough := ratio < least, min(a.samples, b.samples) >= enoughRanks
	switch c := contrast(a.order, b.order, a.concurrency, b.concurrency); {
	case ratio > inService(knee, a, b)*(1+surely*max(margin, sure)):
		l.refute() // the ranks reach as far as what runs
	case c > 0 && !worse:
		l.confirm(l.counted(b.order))
	case worse && l.line.confirmed && ratio < least-sure && enough: // three standard deviations
		l.disprove()
		l.knee.at = max(l.knee.at, l.line.before.knee, min(a.concurrency, a.throughput*b.residence))
	case c < 0 || worse && l.trial.kind != noTrial && enough:
		l.refute()
	}
}

// inService is the part of a's throughput that is left at b, where fewer run, if knee of them are in service and the
// others wait.
func inService(knee float64, a, b point) float64 {
	return min(b.concurrency, knee) / max(min(a.concurrency, knee), 1)
}

// confirm says that there is a line behind a knee. It does nothing where requests share processors, because fewer
// than the line lets in do as much there, or where the ranks were wrong of late.
func (l *Limit) confirm(knee float64) {
	if l.Sharing() || l.line.wary > 0 || l.crowd.bound > 0 {
		return
	}
	if !l.line.confirmed {
		l.line = line{confirmed: true, before: measured{l.knee.at, l.knee.samples}}
	}
	if l.trial.kind == more && l.trial.before != l.trial.from {
		knee = max(knee, l.knee.at) // so many did more than fewer
	}
	l.knee.at, l.knee.samples = knee, samplesMost
}

// refute says that there is no line. A knee that makes requests take longer than a hidden queue may was believed for
// the line alone, so what was known before it counts again. Chance confirms a line now and then, with a knee as high
// as ranks reach, which is all that ever ran. Where a process takes turns with others, a knee that stayed held the
// residence at twice the objective (TestTurnTaking).
func (l *Limit) refute() {
	if l.line.confirmed && l.knee.at > l.knee.rate*l.hidden() {
		l.knee.at, l.knee.samples = l.line.before.knee, l.line.before.samples
	}
	l.line.confirmed = false
}

// disprove refutes a line because of what more requests did. No line is believed for trialLast windows.
func (l *Limit) disprove() {
	l.refute()
	l.calm = calm{}
	l.line.wary, l.agenda.wideGap = trialLast, wideFirst
}

// counted returns how many requests are in service by the ranks of o: the highest rank of late, or, because the highest
// of many is seldom seen, twice their mean.
func (l *Limit) counted(o order) float64 {
	top := l.reach.most()
	if top > fewRanks {
		top = max(top, min(2*o.beyond()+1, top*beyondTop))
	}
	return top
}

// rely takes the knee of a confirmed line from the ranks at p, and the service time from it and a rate. A higher knee
// counts at once; compare lowers it. Where many ranks reach less than half of it, workers are gone: no trial comes where the
// limit follows a line, so with one worker left of eight all eight slots stayed, and a quarter of the answers was late.
func (l *Limit) rely(p point, rate float64) {
	if p.order.count >= settledRanks && p.order.top < down*l.knee.at {
		l.reach, l.calm, l.knee.at = reach{top: p.order.top}, calm{}, p.order.top/down
	}
	if p.order.count >= enoughRanks {
		l.knee.at = max(l.knee.at, l.counted(p.order))
	}
	l.knee.samples = samplesMost
	l.knee.alone = min(l.knee.at/rate, p.residence)
}

// unlearnLine replaces the knee of a line that was refuted at p, if the limit had been lowered before, by the line or by
// the trial that found it, and reports whether it had. The ranks count no more. What was done before, and how long
// requests take at p, tell what a trial downwards would have found: a line of the ranks of nearly equal times held a
// service that works on 35 at a time at 20 of them for good.
func (l *Limit) unlearnLine(p point) bool {
	b := l.lowered
	l.lowered = point{}
	if p.concurrency >= b.concurrency {
		return false
	}
	l.knee.at = 0
	l.learn(min(b.throughput*p.residence, b.concurrency), p)
	l.limit, l.agenda.untried = l.target(), l.agenda.gap/2
	return true
}

// regret undoes what last lowered the limit, and reports that, if fewer requests do much less at p. By Little's law as
// many are right as began while one of them takes as long as at p.
func (l *Limit) regret(p point) bool {
	b := l.lowered
	switch {
	case b.samples == 0:
		return false
	case l.line.confirmed && p.samples+l.seen.level.done < uncertain, !l.line.confirmed && l.seen.level.windows == 0:
		return false // it is not seen yet
	}
	l.lowered = point{}
	if l.knee.rate >= lost*b.throughput || p.concurrency >= b.concurrency {
		return false
	}
	n := min(b.concurrency, max(b.throughput*p.residence, p.concurrency/down))
	if l.line.confirmed {
		if free := l.seen.free; free.samples > 0 && p.residence > near*free.residence {
			return false // the work has become slower
		}
		l.disprove()
		n = max(n, l.line.before.knee)
	}
	l.knee.at, l.knee.samples = n, 0
	l.limit, l.agenda.untried = n, l.agenda.gap/2
	return true
}
