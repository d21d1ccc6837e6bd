package slots

import (
	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// much is the ratio of a window's residence to the service time below which it replaces that at once: two standard
	// deviations of the mean of exponential times.
	much = 0.65
	// slowed is the ratio of the residence to the known service time from which on a window ends after a few completions
	// where a line is confirmed. The knee stays, but each slot costs more than it did; 32 completions of a server that
	// became 20 times slower take most of a second.
	slowed = 2
	// leap is how many times as many may run after a window in which the knee is unknown and residences are short. By
	// Little's law no more run than leave them short if all of them only wait.
	leap = 4
	// deserted is the share of callers that give up from which on fewer requests are tried soon, and more of them not
	// even where nothing shows a queue: more would make more callers give up.
	deserted = 1 - futile
)

// whileBinding is for a window p in which the limit bound, so its throughput is the capacity at that limit.
func (l *Limit) whileBinding(p point) {
	k := &l.knee
	l.seen.unbound = 0
	k.rate = l.seen.level.throughput(p, l.seen.length)
	l.agenda.untried++
	l.agenda.sinceWide++
	l.hurry(p)
	here := l.seen.level.with(p, k.rate)
	lined := l.line.confirmed
	l.compare(l.seen.other, here)
	if lined && !l.line.confirmed && l.unlearnLine(here) || l.regret(p) {
		return
	}
	if l.crowd.bound > 0 {
		l.climb(here)
		return
	}
	l.crowd.unclimbed++
	if l.fewerDidMore(p, here) || l.lateCrowd(p, here) || l.doubtLine(here) {
		return
	}
	if k.at == 0 {
		if !l.guessKnee(p, here) {
			return
		}
	} else if l.seen.level.windows == 0 {
		return // one window is too little to compare with
	}
	if l.widens(here) {
		l.widen(here)
		return
	}
	if kind := l.due(here); kind != noTrial {
		l.try(here, kind)
		return
	}
	if p.residence < k.alone*much {
		// The work takes less than it did. A trial asks whether more can be done at once, too, unless a queue
		// would do no harm.
		if k.alone = p.residence; p.residence > l.harmless() {
			l.agenda.untried, l.agenda.last = l.agenda.gap, fewer
		}
	}
	if l.line.confirmed {
		l.rely(here, k.rate)
	}
	k.service = min(k.at/k.rate, p.residence)
	l.follow(min(l.target(), l.limit*up), here)
}

// follow sets the limit to n after p. If a line makes it far lower, regret asks later whether there is one.
func (l *Limit) follow(n float64, p point) {
	if l.line.confirmed && n < down*p.concurrency {
		l.lowered = p
	}
	l.limit = n
}

// guessKnee sets an unknown knee from what else is known, and reports whether it did. If nothing is, it lets the
// limit grow while the residence is short, and begins a trial once it is not. p is the last window, and here the
// level with it.
func (l *Limit) guessKnee(p, here point) bool {
	k := &l.knee
	switch {
	case l.told.useful == 0 && p.residence <= l.harmless():
		by := up
		if l.unqueued.n == 0 {
			by = leap
		}
		l.limit = min(l.limit*by, max(l.limit, l.spacious()*p.throughput))
		return false
	case l.line.confirmed:
		k.at = l.counted(here.order)
	case l.told.useful == 0 && l.vain.caught > 0:
		k.at, k.samples, l.vain.caught = min(k.rate*k.alone, p.concurrency), l.vain.caught, 0
		if n := l.reach.most(); n <= 2*p.limit {
			k.at = max(k.at, n) // the requests that told so short a time may be far too few
		}
	case l.told.useful == 0 && l.unqueued.n > 0:
		// As many as ran without a queue when the work was faster.
		k.at, l.agenda.last = max(l.known(), p.concurrency*down), fewer
	case l.seen.level.windows == 0:
		return false // one window is too little to compare with
	default:
		l.try(here, fewer)
		return false
	}
	return true
}

// hurry brings the next trial forward if hardly anything is in time, or many callers give up: there may be a queue.
func (l *Limit) hurry(p point) {
	if p.residence > most*float64(l.cfg.Slack) || p.given > deserted {
		l.agenda.untried += memory
	}
}

// Slow says that departures are gap ns apart while every slot is taken, much longer than before; a window would tell
// later. The knee stays, and each slot beyond it costs more than it did.
func (l *Limit) Slow(now mono.Time, gap float64) {
	k := &l.knee
	if !l.line.confirmed || k.at == 0 || l.trial.kind.down() || 1/gap > k.rate || !l.Lends() {
		return
	}
	if l.trial.kind != noTrial {
		l.end()
	}
	k.rate = 1 / gap
	k.alone = k.at * gap
	k.service = k.alone
	was := l.limit
	l.limit = max(float64(l.fewest()), min(was, l.target()))
	l.seen.level = level{}
	l.crowd.unclimbed, l.crowd.gap = 0, max(l.crowd.gap, trialFirst) // it is the work that takes longer
	l.round()
	l.begin(now, l.limit/was)
}
