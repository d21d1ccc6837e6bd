package slots

import "math"

const (
	// believe is after how many windows in a row in which the limit did not bind the service time may grow without a
	// trial. First estimates can be far too low: with service times of two kinds, a quarter of the mean.
	believe = 8
	// spare is how many free slots more than near times the peak a limit keeps when it sinks.
	spare = 2
	// several is the least number of requests at once that may show a queue by throughput alone. With 1, two that ran
	// where one did passed for a queue, in one of 400 random worlds for good (wild/random).
	several = 16
)

// whileFree is for a window p in which the limit did not bind. The residence is the service time then, unless a queue
// builds up.
func (l *Limit) whileFree(p point) {
	l.lowered, l.seen.level = point{}, level{}
	piled := l.use.lent == 0 && pilesUp(l.seen.past, p) // long requests pile up without harm
	if known := l.known(); p.residence > l.alarm() && (p.concurrency > near*known || piled) {
		l.halt(p, known, piled)
		return
	}
	if l.window.hasty {
		return // a few completions, which tell neither the service time nor the throughput
	}
	if l.told.useful > 0 && l.Limit() > l.told.useful && p.residence > max(2*l.knee.alone, float64(l.cfg.Slack)) {
		// Requests share the processors in clumps, which leave slots empty in between.
		l.knee.rate = max(l.knee.rate, p.throughput)
		l.try(p, fewer)
		return
	}
	l.seen.unbound++
	l.crowd.most = point{}
	l.seen.free.blend(p)
	l.learnFree(p)
	if p.throughput > l.knee.rate {
		l.knee.rate += (p.throughput - l.knee.rate) / memory
	}
	l.growInBurst(p)
	l.freeCrowd(p)
}

// learnFree takes the service time, and the number that runs without a queue, from a window p with free slots.
func (l *Limit) learnFree(p point) {
	k, u := &l.knee, &l.unqueued
	switch {
	case p.residence < k.alone:
		k.alone += (p.residence - k.alone) / 2
	case l.seen.unbound > believe:
		// A hidden queue would have filled the slots by now.
		k.alone += (min(p.took, near*k.alone) - k.alone) / 2
	}
	k.service = k.alone
	if p.residence > k.alone*near {
		return
	}
	if u.n == 0 && l.seen.unbound > memory/2 {
		*u = unqueued{p.concurrency, k.alone}
	} else if u.n > 0 && p.concurrency > u.n {
		*u = unqueued{u.n + (p.concurrency-u.n)/4, k.alone}
	}
	if k.at > 0 && !l.line.confirmed {
		k.at = max(k.at, p.concurrency)
	}
}

// growInBurst raises the limit if slots were missing for a part of the window p and nothing shows a queue behind
// them.
func (l *Limit) growInBurst(p point) {
	w := &l.window
	if w.full == 0 || l.use.lent > 0 || l.use.overdue > 0 || l.told.useful > 0 || p.residence > l.knee.alone*near || p.residence > l.harmless() {
		return
	}
	l.limit *= littleUp
}

// halt lowers the limit because a queue builds up at p, to what is known to be served at once. Before anything was
// measured, that is the number that leaves half of the objective at the present throughput; the ranks count only if
// more requests did more.
func (l *Limit) halt(p point, known float64, piled bool) {
	l.limit = max(known, p.concurrency*down)
	if l.knee.at > 0 || l.unqueued.n > 0 {
		return
	}
	slack, least := float64(l.cfg.Slack), known*(1+margin)+1
	if piled {
		least = p.concurrency * down
	}
	l.limit = max(p.throughput*min(half*slack+2*l.knee.alone, whole*slack), least)
}

// pilesUp reports whether at b, where at least half as many again run than at a, hardly more is done: the others
// wait, in whatever order requests end. Ranks do not show it where requests share what serves them.
func pilesUp(a, b point) bool {
	return a.samples > 0 && b.concurrency >= max(up*a.concurrency, several) &&
		math.Log(b.throughput/a.throughput) < queued*math.Log(b.concurrency/a.concurrency)
}

// alarm is the residence, in ns, from which on a window ends early: waiting would only let a hidden queue grow.
func (l *Limit) alarm() float64 {
	alone := l.knee.alone
	if alone == 0 {
		alone = l.window.early
	}
	return max(half*float64(l.cfg.Slack), 2*alone)
}

// alarmed reports whether the running window ends early because a hidden queue builds up.
func (l *Limit) alarmed() bool {
	w := &l.window
	enough, known := earlySize, max(l.knee.at, l.unqueued.n)
	if l.knee.service == 0 && float64(w.last.Sub(w.start))*float64(w.done) < 2*w.sum {
		return false // of the first requests, the short ones have ended first
	}
	switch {
	case known == 0, l.use.clumped > inClumps:
		enough *= 4 // the throughput is all there is to go by, or may be of a part of a clump
	case l.seen.level.windows > 0 && l.times.deviation() >= alike:
		enough *= 3 // the windows before were no alarm
	}
	return l.trial.kind == noTrial && w.done >= enough && (known > 0 || w.full == 0) &&
		float64(l.InUse()) > near*l.known() && w.residence() > l.alarm()
}

// sink lowers a limit far above peak, the number that ran at once, with and without a slot, in a window in which no
// slot was missing. Such a limit would let as many in before the first window of an overload ended, while a limit
// that is too low grows by a half each window, or more. It does not sink below the peak, because requests that run without a
// slot need one again when they end and their clients ask anew.
func (l *Limit) sink(peak int) {
	if room := max(near*l.seen.peak+spare, l.knee.at*(1+margin)); l.limit > room {
		l.limit += (room - l.limit) / 4
	}
	l.limit = max(l.limit, float64(peak)-0.5) // to which Limit rounds
}
