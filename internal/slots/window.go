package slots

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// window collects completions under one limit.
type window struct {
	start   mono.Time
	last    mono.Time // instant up to which the three integrals go
	area    float64   // ∫ requests that hold slots dt, in ns
	full    float64   // time without a free slot, in ns
	aside   float64   // ∫ requests without slots dt, in ns
	most    int       // requests that ran at once
	done    int       // completions
	given   int       // of these, requests whose callers gave up: no throughput
	late    int       // of the others, late ones: see tooLate
	over    int       // completions that took longer than the objective
	tardy   int       // answers that came later than the objective after the arrival
	overran float64   // sum of the residence times of these, in ns
	sum     float64   // of residence times, in ns
	lent    float64   // time for which requests held slots that they then gave back, in ns
	order   order
	first   mono.Time // completion
	early   float64   // smallest mean of earlySize completions in a row, in ns
	group   float64   // sum of those in the present row
	newest  float64   // mean of the last full row
	hasty   bool      // it ended early: see alarmed

	// A changed limit is not in force at once: see settling.
	moved  bool      // the limit changed before this window, and is not in force yet
	beyond bool      // requests begin beyond the limit: it is never in force
	fresh  bool      // only requests count that began under the limit
	opens  mono.Time // the limit is not in force before
	// flush is how many completions are still left out, because those of requests that ran when the limit came in
	// force tell of the queue before. Leaving out exactly the requests that ran then would count short requests
	// first.
	flush int
	// old of these requests run still; next is the number of the first request after them.
	old  int
	next uint64
}

const (
	// earlySize is how many completions give a first idea of the service time: the mean of four exponential times is
	// off by a half.
	earlySize = 4
	// usually is how many completions make a window.
	usually = 32
	// longest is after how many Slacks a window ends that has too few completions, if it has a few, and patience the
	// least time until then: a handful of completions at 20/s.
	longest, patience = 40, 250 * time.Millisecond
)

func newWindow(now, start mono.Time) window {
	return window{start: start, last: now, early: math.Inf(1)}
}

// integrate advances the integrals to now: running requests held slots, and lent ones ran without.
func (w *window) integrate(now mono.Time, running, lent int, free bool) {
	if dt := float64(now.Sub(w.last)); dt > 0 {
		w.area += dt * float64(running)
		w.aside += dt * float64(lent)
		if !free {
			w.full += dt
		}
		w.last = now
	}
}

// add takes a completion that took r ns.
func (w *window) add(now mono.Time, r float64, executed, late bool) {
	if w.done == 0 {
		w.first = now
	}
	w.done++
	switch {
	case !executed:
		w.given++
	case late:
		w.late++
	}
	w.sum += r
	w.group += r
	if w.done%earlySize == 0 {
		w.newest = w.group / earlySize
		w.early = min(w.early, w.newest)
		w.group = 0
	}
}

// residence is the larger of two estimates of the mean residence time, in ns: that of the completions, and that of
// Little's law, in which a queue that builds up shows before it is served.
func (w *window) residence() float64 { return max(w.sum, w.area) / float64(w.done) }

// point sums up a window that is length ns long.
func (w *window) point(length, limit float64) point {
	done := float64(w.done)
	return point{
		concurrency: w.area / length,
		throughput:  max(float64(w.done-w.given), 0.5) / length, // no completion is chance, and counts half
		residence:   w.residence(), took: w.sum / done, samples: done, limit: limit,
		vain: float64(w.given+w.late) / done, given: float64(w.given) / done, over: float64(w.over) / done, tardy: float64(w.tardy) / done, overran: w.overran / max(float64(w.tardy), 1), lent: w.aside / length,
		order: w.order, bound: w.full >= binding*length || w.area >= crowded*limit*length,
	}
}

// endWindow acts on the running window once that holds enough completions.
func (l *Limit) endWindow(now mono.Time) {
	w := &l.window
	length := float64(now.Sub(w.start))
	if length <= 0 {
		return
	}
	defer l.round()
	if l.inVain(now) {
		l.giveWay(now, w.point(length, float64(l.Limit())), w.late > w.given)
		return
	}
	if l.flooded() {
		p := w.point(length, float64(l.Limit()))
		p.took = p.residence // those that have ended met fewer
		l.giveWay(now, p, true)
		return
	}
	if !l.enough(length) {
		if w.hasty = l.alarmed(); !w.hasty {
			return
		}
	}
	p := w.point(length, float64(l.Limit()))
	l.seen.length = length
	l.slotTime.add(w)
	l.line.wary = max(l.line.wary-1, 0)
	if l.knee.service == 0 {
		l.firstEstimate(now, &p)
	}
	was := l.limit
	l.seen.peak = max(float64(w.most+l.use.lent), l.seen.peak*(1-1.0/(2*memory)))
	if l.Lends() {
		l.steer(p)
		if w.full == 0 && l.trial.kind == noTrial && l.limit == was {
			l.sink(w.most + l.use.lent)
			was = l.limit
		}
		if l.crowd.bound > 0 && l.trial.kind == noTrial {
			l.limit = min(l.limit, l.crowd.bound)
		}
		l.limit = max(float64(l.fewest()), min(l.limit, float64(l.cfg.Max)))
	} else {
		l.knee.service += (min(p.residence, l.knee.service*2) - l.knee.service) / memory
	}
	l.seen.level.add(w, length)
	l.seen.past = p
	l.begin(now, l.limit/was)
}

// firstEstimate takes the service time from the first window, p, and corrects p's throughput: nothing ended while the
// first requests ran. If a queue built up in this window, its earliest requests met little of it.
func (l *Limit) firstEstimate(now mono.Time, p *point) {
	w := &l.window
	if since := float64(now.Sub(w.first)); since > 0 && w.done > earlySize {
		p.throughput = float64(w.done-1) / since
	}
	l.knee.alone = min(p.residence, w.early)
	l.knee.service = l.knee.alone
}

// enough reports whether the running window, length ns long, holds enough completions. A trial asks for more of them,
// because its window is compared with others.
func (l *Limit) enough(length float64) bool {
	w, samples, limit := &l.window, float64(usually), l.limit
	// A window with fewer completions than ran at once is shorter than a residence time.
	many := float64(w.done+1)*length > w.area
	if w.done < earlySize {
		return false
	}
	switch k := l.trial.kind; {
	case k.climbs() && float64(w.done) >= samples && many && l.plain(w.point(length, limit)):
		return true
	case k.climbs(), k == wide:
		samples = max(4*samples, 8*limit)
	case k == fewer:
		samples = max(samples, 3*limit)
	case k == more:
		samples = max(2*samples, 4*limit)
	}
	if length >= float64(max(longest*l.cfg.Slack, patience)) || w.done >= 2*earlySize && l.soon(length, many) {
		return true
	}
	if l.line.confirmed && l.trial.kind == more {
		return float64(w.done) >= 2*limit // the rank of one more is not among them once in eight times
	}
	// The first comparison follows from the second, and saves most calls the rest. The first window is needed too
	// soon to wait for many.
	return float64(w.done) >= samples && float64(w.done) >= samples*l.variation() && (many || l.knee.service == 0)
}

// soon reports whether eight completions are enough for the running window.
func (l *Limit) soon(length float64, many bool) bool {
	w := &l.window
	switch {
	case l.vain.state != recovered && many:
		return true
	case l.trial.kind != noTrial:
		return false
	case l.limit < l.seen.peak && l.knee.at == 0 && l.knee.service > 0 && l.told.useful == 0 && many && w.full >= binding*length && w.residence() <= l.harmless():
		return true // more may run, and each window without them refuses some
	}
	return l.line.confirmed && w.residence() > slowed*l.knee.alone // each slot costs more than it did
}
