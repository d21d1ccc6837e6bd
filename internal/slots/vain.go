package slots

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// futile is the share of a window's requests whose callers gave up that says
	// that the server does nothing else than to work for nobody.
	futile = 2.0 / 3
	// catchUp is how many objectives a server gets to work off what is in vain. No world of
	// tuning/core sees it.
	catchUp = 4
	// respiteFirst and respiteLast are for how many objectives late answers are no reason to give way
	// once fewer requests were found to take as long. To find that out costs about one objective.
	respiteFirst, respiteLast = 128, 1024
	// lateRow is how many late answers in a row there must be where no processor is known to be short.
	lateRow = 64
	// soothes is how many late answers one makes up for that takes as long as the objective, and shorter ones
	// less: if late ones take nearly all of the slots' time, no number of short ones beside them does.
	soothes = 16
	// lastLook is after how many windows what is still in vain is not what the server was given before.
	lastLook = 4
)

// recovery is what follows on work in vain.
type recovery uint8

const (
	recovered  recovery = iota
	catchingUp          // the server works off what it was given before
	regrowing
)

// belief is what the limit follows from.
type belief struct {
	limit, knee, samples, least, rate, service, alone float64
	unlined                                           unlined
	fifo                                              bool
	gap, raiseGap, untried                            int
}

func (l *Limit) belief() belief {
	return belief{l.limit, l.knee, l.samples, l.least, l.rate, l.service, l.alone, l.unlined, l.fifo, l.gap, l.raiseGap, l.untried}
}

func (l *Limit) restore(b belief) {
	l.limit, l.knee, l.samples, l.least, l.rate, l.service, l.alone = b.limit, b.knee, b.samples, b.least, b.rate, b.service, b.alone
	l.unlined, l.fifo, l.gap, l.raiseGap, l.untried = b.unlined, b.fifo, b.gap, b.raiseGap, b.untried
}

// vain is work that came too late, or whose callers had given up.
type vain struct {
	before belief // when the limit gave way
	from   point  // at the last limit that was too high
	// beyond is until when late answers are no reason to give way, because fewer requests take
	// as long, and respite for how long the last one was.
	beyond  mono.Time
	respite time.Duration
	row     float64 // late answers, less those in time: see soothes
	// looks is how many windows of so few have shown much in vain, and usual what share is, if it is
	// much, when they are caught up with.
	looks int
	usual float64
}

// tooLate reports whether a request that took r ns is one of those for whose sake the limit may give
// way. Where no processor is known to be short they are late because the work is slow, mostly, and it
// takes many in a row to ask whether fewer would be in time.
func (l *Limit) tooLate(r float64) bool {
	if part := r / (whole * float64(l.cfg.Slack)); part <= 1 {
		l.vain.row = max(l.vain.row-soothes*part, 0)
		return false
	}
	l.vain.row++
	return l.Sharing() || l.vain.row > lateRow || l.recovering != recovered
}

// inVain reports whether hardly anything in the running window was finished in time, or
// before its caller gave up. Where the service takes most of the objective many are late by
// chance: three standard deviations must say that it is more than half of them.
func (l *Limit) inVain(now mono.Time) bool {
	w := &l.window
	n, spent := float64(w.given), 0.0
	if now >= l.vain.beyond {
		n, spent = n+float64(w.late), w.spent
	}
	least := futile
	if w.late > 0 && l.recovering == recovered {
		least = max(least, 0.5+1.5/math.Sqrt(float64(w.done)))
	}
	return w.done >= 2*earlySize && max(n/float64(w.done), spent/w.sum) > least && l.cfg.Min < l.cfg.Max && !(l.recovering == catchingUp && now < l.patient)
}

// giveWay quarters the limit when all work is in vain. A server that does not hear
// that callers gave up goes on working for nobody for as long as it is given more:
// how long its work takes cannot be told until it has caught up. Then the limit
// doubles with every few completions until they take longer again. Where a quarter as many are late
// as well and take as long as all did, they do not wait for each other: the objective is out of reach,
// and as many run as before.
func (l *Limit) giveWay(now mono.Time, p point) {
	late := l.window.late > l.window.given
	switch {
	case l.recovering == recovered:
		l.vain.before, l.vain.from = l.belief(), p
		if l.trial.dir < 0 {
			l.vain.before.limit = l.trial.from.limit // a stage of a trial is no limit to come back to
		}
	case late && l.outOfReach(p):
		was := l.limit
		l.respite(now)
		l.begin(now, l.limit/was)
		return
	case late:
		l.vain.from = p
	}
	l.limit = max(float64(l.fewest()), min(l.limit, p.concurrency)/4)
	l.recovering, l.patient = catchingUp, now.Add(catchUp*whole*l.cfg.Slack)
	l.trial, l.knee, l.unlined, l.rate, l.untried, l.gap = trial{}, 0, unlined{}, 0, 0, trialFirst
	if late {
		l.least, l.patient = 0, now // what runs when the limit is in force is not counted
	}
	l.window = newWindow(now, now)
	l.window.moved, l.window.opens, l.window.fresh = true, now, late
}

// alike reports whether requests take about as long at p as they did where more ran: nearer to as long, by
// the logarithm, than to as little as their number is.
func (l *Limit) alike(p point) bool {
	f := l.vain.from
	return p.took*p.took*f.concurrency > f.took*f.took*p.concurrency
}

// outOfReach reports whether p, of which most was late, shows that fewer would be late as well.
func (l *Limit) outOfReach(p point) bool { return l.alike(p) || l.Limit() <= l.fewest() }

// respite gives back what was taken away for the sake of late answers, and lets them be late for a while.
func (l *Limit) respite(now mono.Time) {
	least := time.Duration(respiteFirst)
	if l.useful == 0 {
		least *= 4
	}
	l.vain.respite = min(max(2*l.vain.respite, least*whole*l.cfg.Slack), respiteLast*whole*l.cfg.Slack)
	l.vain.beyond, l.vain.looks, l.recovering = now.Add(l.vain.respite), 0, recovered
	l.restore(l.vain.before)
}

// recover is for a window after work in vain.
func (l *Limit) recover(p point) {
	switch {
	case p.vain > l.vain.usual+1-futile && l.recovering == regrowing:
		l.limit, l.recovering = l.limit/2, recovered
		l.window.hasty = true                              // what runs now does not tell of half as many
		l.untried, l.trial.last = max(l.gap-memory, 0), -1 // a third of them may be in vain by chance: more are tried soon
		return
	case l.recovering == catchingUp && p.vain > 1-futile && (p.vain > futile || l.vain.looks < lastLook):
		// Where so few run and they take so long that a window ends with less than giveWay asks for,
		// several of them tell as much.
		if l.vain.looks++; l.vain.looks > lastLook && l.window.late > l.window.given && l.outOfReach(p) {
			l.respite(l.window.last)
		}
		return
	case l.recovering == catchingUp:
		// So few run that this is the service time; what was thought of it before may be
		// what made the work vain.
		l.recovering, l.service, l.alone, l.caught, l.vain.respite = regrowing, p.residence, p.residence, p.samples, 0
		l.vain.usual, l.vain.looks = 0, 0
		if p.vain > 1-futile {
			l.vain.usual = p.vain // however few run
		}
	}
	if p.residence > l.service+max(float64(l.cfg.Slack), 0.4*l.service) {
		l.recovering = recovered
	} else if room := l.reach.most() + 1; p.bound && l.limit < room && 2*l.limit >= room {
		l.limit, l.recovering = room, recovered
	} else if p.bound {
		l.limit *= 2
	}
}
