package slots

import "math"

const (
	// binding is the share of a window during which every slot must have been taken, and crowded the share of the
	// slots that must have been taken on average, for the window's throughput to be the capacity at that limit. If
	// nothing waits in front, slots are empty between two requests.
	binding, crowded = 0.5, 0.9
	// memory is how many windows means span. With 4 the worlds of tuning/core lose 1.3 % on average, and 18 % where
	// one request in a hundred takes a hundred times as long.
	memory = 8
	// moves is the least ratio of two numbers of running requests for a comparison of what they do.
	moves = 1.2
	// surely is how many standard deviations count as no chance.
	surely = 1.5
	// near is the largest ratio of a residence to the service time that shows no queue.
	near = 1.25
	// half, most and whole are parts of the objective in Slacks, which are tenths of it: units. Other values cost up
	// to 5 % where the service takes half of the objective (tuning/core).
	half, most, whole = 5, 8, 10
)

// steer moves the limit after the window p. The cases are the regimes of the package comment, in order of precedence.
func (l *Limit) steer(p point) {
	switch {
	case l.slowdownOver(p):
		l.comeBack(p)
	case l.vain.state != recovered:
		l.recover(p)
	case p.bound && !l.window.hasty && l.slotTime.long > dominated*l.slotTime.all:
		l.outgrow()
	case l.trial.kind != noTrial:
		l.judge(p)
	case p.bound && !l.window.hasty:
		l.whileBinding(p)
	default:
		l.whileFree(p)
		if l.line.confirmed && l.knee.at > 0 {
			l.follow(l.target(), p) // requests that would only wait behind the line wait in front of it
		}
	}
}

// slowdownOver reports whether far fewer requests run than once ran without a queue, and take as little: the work was
// slower for a while. In a trial downwards that is no news.
func (l *Limit) slowdownOver(p point) bool {
	if !p.bound || l.told.useful > 0 || p.samples < 2*earlySize || l.trial.kind.climbs() && l.crowd.bound == 0 || l.crowd.late {
		return false
	}
	u := l.unqueued
	return l.limit < down*u.n && p.residence <= near*u.residence
}

// comeBack sets the limit to the number that once ran without a queue on average, and two standard deviations more,
// which ran now and then.
func (l *Limit) comeBack(p point) {
	if l.line.confirmed {
		l.disprove() // so many did not wait in a line
	}
	l.trial, l.vain.state, l.agenda.untried, l.agenda.last = trial{}, recovered, 0, noTrial
	n := l.unqueued.n
	l.limit = n + 2*math.Sqrt(n)
	l.knee.at, l.knee.alone, l.knee.service = 0, p.residence, p.residence
	l.crowd = crowd{}
}
