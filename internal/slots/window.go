package slots

import (
	"math"

	"github.com/spillgate/spillgate/internal/mono"
)

// point is an operating point: requests running, completions per nanosecond,
// nanoseconds from start to end; means over a number of completions.
type point struct {
	concurrency, throughput, residence float64
	took                               float64 // ns, the mean of those done
	samples                            float64
	limit                              float64
	vain                               float64 // share of them that were late, or whose callers gave up
	given                              float64 // share of the latter
	lent                               float64 // requests that ran without a slot
	order                              order
	bound                              bool // slots were missing for half of the time
}

// window collects completions under one limit.
type window struct {
	start mono.Time
	last  mono.Time // of the two integrals
	area  float64   // ∫ inUse dt
	full  float64   // ns without a free slot
	aside float64   // ∫ lent dt
	most  int       // requests that ran at once
	done  int
	given int     // up, of done: no throughput
	late  int     // of the others, those that were late: see Limit.tooLate
	sum   float64 // of residence times
	spent float64 // of it, of those late
	lent  float64 // of them, up to when their slots were lent
	order order
	first mono.Time // of the completions
	early float64   // smallest mean of earlySize completions
	group float64
	// moved is set while a change of the limit is not in force: see Limit.settling.
	moved bool
	fresh bool // only requests count that began under the limit, as in a trial
	hasty bool // ended early: see Limit.alarmed
	opens mono.Time
	// flush is how many completions are not counted yet: those of requests that
	// ran when a trial's limit came in force tell of the queue before. Which of them are
	// gone is not asked: counting only requests that started since would count
	// the short ones first.
	flush int
	// old of those that ran then run still, of which number next would have been the first that did not. Where
	// times vary far more than exponential ones many short requests end while long ones from before still wait.
	old  int
	next uint64
}

// earlySize is the number of completions whose mean is the first idea of the
// service time: the mean of four exponential times is off by a half.
const earlySize = 4

func newWindow(now, start mono.Time) window {
	return window{start: start, last: now, early: math.Inf(1)}
}

// integrate advances the time averages, with so many running up to now.
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

// add takes a completion.
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
		w.spent += r
	}
	w.sum += r
	w.group += r
	if w.done%earlySize == 0 {
		w.early = min(w.early, w.group/earlySize)
		w.group = 0
	}
}

// residence is how long a request takes, as Little's law has it or as those had it that
// are done: a queue that builds up shows in the first before it is served.
func (w *window) residence() float64 { return max(w.sum, w.area) / float64(w.done) }

// point sums the window up.
func (w *window) point(length, limit float64) point {
	// Half a completion stands for none: it is in this window by chance.
	return point{concurrency: w.area / length, throughput: max(float64(w.done-w.given), 0.5) / length, residence: w.residence(), took: w.sum / float64(w.done), samples: float64(w.done),
		limit: limit, lent: w.aside / length, vain: float64(w.given+w.late) / float64(w.done), given: float64(w.given) / float64(w.done), order: w.order, bound: w.full >= binding*length || w.area >= crowded*limit*length}
}

// endWindow acts on the running window once it holds enough completions.
func (l *Limit) endWindow(now mono.Time) {
	w := &l.window
	length := float64(now.Sub(w.start))
	if length <= 0 {
		return
	}
	if l.inVain(now) {
		l.giveWay(now, w.point(length, float64(l.Limit())))
		return
	}
	if !l.enough(length) {
		if w.hasty = l.alarmed(); !w.hasty {
			return
		}
	}
	p := w.point(length, float64(l.Limit()))
	l.length = length
	l.weigh()
	l.wary = max(l.wary-1, 0)
	if l.service == 0 {
		// It began with nothing running, so nothing was done for the first while.
		if since := float64(now.Sub(w.first)); since > 0 && w.done > earlySize {
			p.throughput = float64(w.done-1) / since
		}
		// Should a queue have built up in this window, some met little of it.
		l.alone = min(p.residence, w.early)
		l.service = l.alone
	}
	was := l.limit
	l.peak = max(float64(w.most+l.lent), l.peak*(1-1.0/(2*memory)))
	if l.cfg.Min == l.cfg.Max {
		l.service += (min(p.residence, l.service*2) - l.service) / memory
	} else {
		l.steer(p)
		if w.full == 0 && l.trial.dir == 0 && l.limit == was {
			l.sink(w.most + l.lent)
			was = l.limit
		}
		if l.crowd.bound > 0 && l.trial.dir == 0 {
			l.limit = min(l.limit, l.crowd.bound)
		}
		l.limit = max(float64(l.fewest()), min(l.limit, float64(l.cfg.Max)))
	}
	l.level.add(w, length)
	l.past = p
	l.begin(now, l.limit/was)
}

// weigh adds the window to what requests held the slots for, and to what long ones did.
func (l *Limit) weigh() {
	l.held += (l.window.area - l.held) / memory
	l.long += (l.window.lent - l.long) / memory
}

// begin begins a window after the limit moved by a factor.
func (l *Limit) begin(now mono.Time, moved float64) {
	hasty := l.window.hasty && l.useful > 0 // what shares the processors ends late, one as well as another
	l.window = newWindow(now, now)
	switch {
	case moved < 1-unmoved:
		l.window.moved, l.window.opens, l.window.fresh = true, now, hasty
	case moved > 1+unmoved:
		l.window.moved, l.window.opens = true, now.Add(l.turn())
	default:
		return
	}
	if v := &l.level; v.order.count >= enoughRanks/4 {
		l.other = point{concurrency: v.area / v.length, throughput: v.done / v.length, residence: max(v.sum, v.area) / v.ends, samples: v.done, order: v.order}
	}
	l.level = level{}
}

// enough reports whether the running window, length ns long, holds enough completions.
func (l *Limit) enough(length float64) bool {
	w, samples := &l.window, float64(l.cfg.Samples)
	// No fewer than ran at once, or the window is shorter than a residence time.
	many := float64(w.done+1)*length > w.area
	switch {
	case w.done < earlySize:
		return false
	case l.trial.crowd && float64(w.done) >= samples && many && outdoes(w.point(length, l.limit), l.trial.from):
		return true // less is done
	case l.trial.crowd:
		samples = max(4*samples, 8*l.limit)
	case l.trial.dir < 0:
		samples = max(samples, 3*l.limit)
	case l.trial.wide:
		samples = max(4*samples, 8*l.limit)
	case l.trial.dir > 0:
		samples = max(2*samples, 4*l.limit)
	}
	switch {
	case length >= float64(l.cfg.MaxWindow):
		return true
	case l.recovering != recovered && w.done >= 2*earlySize && many:
		return true
	case l.trial.dir < 0 && !l.trial.crowd && w.done >= 2*earlySize && many && w.sum >= l.trial.from.residence*float64(w.done):
		return true // fewer take as long: if half of them had waited, the mean of eight were twice as long once in a hundred times
	case l.limit < l.peak && l.knee == 0 && l.service > 0 && l.useful == 0 && l.trial.dir == 0 && w.done >= 2*earlySize && many && w.full >= binding*length && w.residence() <= l.harmless():
		return true // more may run: no slot is to be missing for longer than it takes to see that
	case l.fifo && l.trial.dir == 0 && w.done >= 2*earlySize && w.residence() > slowed*l.alone:
		return true // what the ranks told stays, but each slot costs more than it did
	case l.fifo && l.trial.dir > 0 && !l.trial.wide && !l.trial.crowd:
		return float64(w.done) >= 2*l.limit // the rank of one more is not among them once in eight times
	}
	// The first one is needed too soon for that. The first comparison is no condition of its own, but true of
	// few calls.
	return float64(w.done) >= samples && float64(w.done) >= samples*l.variation() && (many || l.service == 0)
}

// level is the sum of the windows under one limit, so that what falls into one and
// not into the next by chance is right in the end.
type level struct {
	length, done, area float64
	sum                float64 // of residence times
	ends               float64 // as many as there are in it
	windows            int
	order              order
}

// throughput returns that of the windows and of p, which was length ns long, together; of
// p alone, and forgets the others, if that is another one.
func (v *level) throughput(p point, length float64) float64 {
	if v.windows == 0 {
		return p.throughput
	}
	x := (v.done + p.throughput*length) / (v.length + length)
	if away := p.throughput / x; away > 2 || away < 0.5 {
		*v, x = level{}, p.throughput
	}
	return x
}

func (v *level) add(w *window, length float64) {
	if v.windows++; v.windows > memory {
		v.length, v.done, v.area, v.sum, v.ends, v.windows = v.length/2, v.done/2, v.area/2, v.sum/2, v.ends/2, memory/2
		v.order.count, v.order.sum = v.order.count/2, v.order.sum/2
	}
	v.length += length
	v.done += float64(w.done - w.given)
	v.area += w.area
	v.sum += w.sum
	v.ends += float64(w.done)
	v.order.merge(w.order)
}

// calmMemory is over how many completions the mean of windows is smoothed in which slots were free.
const calmMemory = 256

// blend takes a window into the mean p of windows.
func (p *point) blend(q point) {
	had := min(p.samples, calmMemory)
	share := q.samples / (had + q.samples)
	p.concurrency += (q.concurrency - p.concurrency) * share
	p.throughput += (q.throughput - p.throughput) * share
	p.residence += (q.residence - p.residence) * share
	p.samples = had + q.samples
}
