package slots

import "math"

const (
	// partLate is the share of late answers, in two windows in a row, from which on a step asks whether fewer are in time
	// more often, and mostLate the share beyond which the work itself takes that long: vain asks then. With a sixteenth
	// random services lose 0.07 ± 0.04 %.
	partLate, mostLate = 1.0 / 8, 0.5
	// apartFrom is how many Slacks the others may take on average where a part is late. Where all wait alike, and times
	// are exponential, one in sixteen is late only if the others take 0.29 of the objective.
	apartFrom = 2.5
)

// lateCrowd begins a step downwards from p if a part of what runs is late, and reports whether it did. A few of the
// requests may wait for each other, such as those for one key, while most run beside them: the mean residence is short
// then, and fewer do as much, but more of it in time.
func (l *Limit) lateCrowd(w, p point) bool {
	steady := l.seen.level.windows > 0 && p.samples >= 2*enoughRanks && min(w.tardy, l.seen.past.tardy, p.tardy) >= partLate
	if !steady || l.Sharing() || l.crowd.unclimbed < l.crowd.gap || p.tardy > mostLate || p.others() > apartFrom*float64(l.cfg.Slack) {
		return false
	}
	l.climbFrom(p, climbDown)
	return l.trial.kind.climbs()
}

// timely returns a and b with what was in time as their throughput, unless most was late at a.
func timely(a, b point) (point, point) {
	if a.tardy <= mostLate {
		a.throughput, b.throughput = a.throughput*a.intime(), b.throughput*b.intime()
	}
	return a, b
}

// plain reports whether a step may end early at p, because so much more is done. Where some are late it may not: what is
// late comes last.
func (l *Limit) plain(p point) bool { return l.trial.from.tardy < someLate && outdoes(p, l.trial.from) }

// intime is the part of the throughput that was in time, a sixteenth at least.
func (p *point) intime() float64 { return max(1-p.tardy/max(1-p.given, unmoved), unmoved) }

// others is the mean residence of the completions, in ns, that were no late answers.
func (p *point) others() float64 { return (p.took - p.tardy*p.overran) / max(1-p.tardy, unmoved) }

// rarerLate reports whether a smaller share was late at b than at a, by so many standard deviations.
func rarerLate(a, b point, deviations float64) bool {
	all := (a.tardy*a.samples + b.tardy*b.samples) / (a.samples + b.samples)
	return a.tardy-b.tardy > deviations*math.Sqrt(all*(1-all)*(1/a.samples+1/b.samples))
}
