package slots

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// binding is the share of a window during which every slot must have been
	// taken for its throughput to be the capacity at that limit.
	binding = 0.5
	// judgeAt is the ratio of two concurrencies from which on their throughputs
	// are compared. Nearer to 1, noise decides: with 128 exponential completions
	// on each side the elasticity is known to ±0.25.
	judgeAt = 0.6
	// probeTo is the share of the limit that a probe leaves: under judgeAt.
	probeTo = 0.55
	// probeFirst and probeLast are how many binding windows pass before the first
	// probe, and at most between two: each that finds no queue cost throughput
	// and doubles the number.
	probeFirst, probeLast = 16, 1024
	// judgeSamples is how many times Config.Samples completions a judgement takes
	// at most; sure is how many standard deviations end it earlier.
	judgeSamples, sure = 4, 1.6
	// cutSlacks is the residence, in Slacks, below which no cut aims: a hidden queue
	// inside it costs nobody anything, and where the work takes that long itself less
	// would idle the server. With a Slack of a tenth of the objective it is 0.3 of
	// it. Without it a server that became 6 times slower kept 0.24 of what the best
	// semaphore did, with it 0.56 (lab run wild/single, worst of 20 seeds).
	cutSlacks = 3
	// judgeSlacks, or judgeLeast if that is longer, is how long a cut may last before it
	// is judged by what is known: two objectives, of which Slack is a tenth. Waiting for
	// certainty kept a server that had become 8 times slower at a third of what it
	// could do for 4 s (simulation).
	judgeSlacks = 20
	judgeLeast  = 100 * time.Millisecond
	// queued is the elasticity below which there is a hidden queue.
	queued = 0.5
	// leeway is the share of the service time that the hidden queue may take in
	// any case: less, and the noise of the estimates would idle the server.
	leeway = 0.4
	// tolerance is how far the smoothed residence time may exceed the allowed
	// one before the limit is cut, alarm how far that of a single window.
	tolerance, alarm = 1.25, 2
	// much and some are how far the residence time of one window, and of several,
	// must fall under the service time to replace it at once: about two standard
	// deviations of the mean of exponential times.
	much, some = 0.6, 0.85
	// memory is how many windows the smoothed operating point spans.
	memory = 8
	// onePoint is how far, as a logarithm, a window may lie from the smoothed
	// operating point and belong to it.
	onePoint = 0.2
	// believe is after how many windows in which the limit did not bind the
	// service time may grow again: a hidden queue would have filled the slots by
	// then. First estimates can be far too low, with service times of two kinds a
	// quarter of the mean.
	believe = 32
	// longest is how many service times a long request takes.
	longest = 4
	// spare is how many slots more than twice what runs stay free.
	spare = 8
	// earlySize is the number of completions whose mean is the first idea of the
	// service time.
	earlySize = 4
	// futile is the share of a window's requests whose callers gave up that says
	// that the server does nothing else than to work for nobody.
	futile = 2.0 / 3
	// usefulSlack is the part of Slack that is left while more requests would be of no
	// use. With all of it, one processor with handlers that burn it had two to four
	// slots: nothing is served sooner, and what wants to refuse requests waits longer.
	usefulSlack = 4
	// idleQueue is the hidden queue, in Slacks, that is left alone while the limit
	// does not bind.
	idleQueue = 4
)

// Limit is an adaptive bound on running requests. It is not safe for concurrent
// use; calls take constant time and do not allocate.
type Limit struct {
	cfg     Config
	limit   float64
	inUse   int
	lent    int     // running requests that gave their slots back; see Lend
	lending float64 // share of the requests that do, smoothed
	useful  int     // see SetUseful
	service float64 // ns; 0: unknown
	anchor  float64 // ns; the service time of the last experiment
	mean    float64 // ns of residence, and its mean deviation, per completion
	spread  float64

	window window
	// level is where the limit is now; ref where it was, or would have been,
	// when it was last known to be right. The two are compared once they are far
	// enough apart.
	level, ref point
	cutting    bool // ref is where a cut began that is not judged yet
	cutAt      mono.Time
	probing    bool
	probeUp    bool
	resumed    float64 // the limit before a probe
	recovering recovery
	bound      int // windows that bound since the last probe
	idle       int // windows that did not, in a row
	probeGap   int
}

// recovery is what follows on work in vain.
type recovery uint8

const (
	recovered  recovery = iota
	catchingUp          // the server works off what it was given before
	regrowing
)

// point is an operating point: requests running, completions per nanosecond,
// nanoseconds from start to end; means over a number of completions.
type point struct {
	concurrency, throughput, residence float64
	samples, windows                   int
}

// add takes another window into the mean.
func (p *point) add(q point) {
	p.windows = min(p.windows+1, memory)
	w := 1 / float64(p.windows)
	p.concurrency += (q.concurrency - p.concurrency) * w
	p.throughput += (q.throughput - p.throughput) * w
	p.residence += (q.residence - p.residence) * w
	p.samples += q.samples
}

// window collects completions under one limit.
type window struct {
	// flush is how many completions are not counted yet: those of requests that
	// ran when the limit last moved tell of the queue before. Which of them are
	// gone is not asked: counting only requests that started since would count
	// the short ones first.
	flush int
	// opens is the instant before which nothing is counted: after a far move, long
	// requests complete at the old pace for as long as they take.
	opens mono.Time
	start mono.Time
	last  mono.Time // of the two integrals
	area  float64   // ∫ inUse dt
	full  float64   // ns without a free slot
	most  int       // requests that ran at once
	done  int
	given int     // up, of done: no throughput
	sum   float64 // of residence times
	early float64 // smallest mean of earlySize completions
	group float64
}

// New returns a limit at its initial value, or every mistake in cfg.
func New(cfg Config) (*Limit, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Limit{cfg: cfg, limit: float64(cfg.Initial), probeGap: probeFirst}
	l.window = newWindow(math.MinInt64, 0, math.MinInt64) // time may begin anywhere
	return l, nil
}

// Limit returns the most requests that may run at once.
func (l *Limit) Limit() int { return int(l.limit + 0.5) }

// SetUseful says how many running requests are of use, as far as the driver knows: as
// many as there are processors, while these are what is short. Up to there the limit
// grows, and not beyond, and the hidden queue is kept shorter. 0 means that nobody knows.
//
// A limit that is above already grows on while the residence is short, and is only not
// tried out further up: so many requests may be waiting for something else, most of the
// time, and use the processors up between them.
func (l *Limit) SetUseful(n int) { l.useful = max(n, 0) }

// Useful returns what SetUseful said last.
func (l *Limit) Useful() int { return l.useful }

// atUseful reports whether no more requests run than are of use.
func (l *Limit) atUseful() bool { return l.useful > 0 && l.Limit() <= l.useful }

// slack is the residence time that may be spent in the hidden queue.
func (l *Limit) slack() float64 {
	if l.useful > 0 {
		return float64(l.cfg.Slack) / usefulSlack
	}
	return float64(l.cfg.Slack)
}

// InUse returns the requests that run.
func (l *Limit) InUse() int { return l.inUse }

// Free reports whether one more may run.
func (l *Limit) Free() bool { return l.inUse < l.Limit() }

// Service returns the estimate of the residence time without a hidden queue, 0
// before the first completion.
func (l *Limit) Service() time.Duration {
	if l.service == 0 && l.window.done > 0 {
		return time.Duration(l.window.sum / float64(l.window.done))
	}
	return time.Duration(l.service)
}

// Tail returns the residence time that all but about one request in fifty stay
// under: the mean and four mean deviations, as a retransmission timer has it
// (RFC 6298). 0 before the first completion.
func (l *Limit) Tail() time.Duration { return time.Duration(l.mean + 4*l.spread) }

// Acquire takes a slot. The caller asks Free first; taking more than the limit
// is allowed and counted, for requests that must run.
func (l *Limit) Acquire(now mono.Time) {
	l.integrate(now)
	l.inUse++
	l.window.most = max(l.window.most, l.inUse)
}

// Release returns a slot that was taken at started. A request that was executed to
// its end is a sample of the residence time. One that was given up is one if it
// took longer than the others do: it would have taken longer still, and where
// every caller gives up at a deadline nothing else would be known of a queue that
// is longer than it.
func (l *Limit) Release(now, started mono.Time, executed bool) {
	l.integrate(now)
	l.inUse--
	l.lending -= l.lending / lendMemory
	r := float64(max(now.Sub(started), 1))
	sample := executed || l.mean > 0 && r > l.mean
	if executed {
		if l.mean == 0 {
			l.mean = r
		}
		off := r - l.mean
		l.mean += off / 32
		l.spread += (math.Abs(off) - l.spread) / 32
	}
	w := &l.window
	if w.flush > 0 {
		if w.flush--; w.flush == 0 {
			*w = newWindow(now, 0, w.opens)
		}
		return
	}
	if now < w.opens {
		*w = newWindow(now, 0, w.opens)
		return
	}
	if !sample {
		return
	}
	if l.service == 0 && w.done == 0 {
		*w = newWindow(started, 0, started)
	}
	w.done++
	if !executed {
		w.given++
	}
	w.sum += r
	w.group += r
	if w.done%earlySize == 0 {
		w.early = min(w.early, w.group/earlySize)
		w.group = 0
	}
	l.endWindow(now)
}

// lendable is the share of the requests that may give their slots back while they
// run. Few are long by nature; where many are, the work has become slow, and more of
// it must not be let in. lendMemory is over how many requests the share is smoothed.
const (
	lendable   = 1.0 / 8
	lendMemory = 64
)

// Lend takes back the slot of a request that has run for longer than its objective
// and runs on: a long poll, a stream, an export. It is no sample of how long others
// take. It reports false, and does nothing, where so many do that it is the work
// that is slow, and where Max run without a slot already. Repay ends the request, instead of Release.
func (l *Limit) Lend(now mono.Time) bool {
	if l.lending+1.0/lendMemory > lendable || l.lent >= l.cfg.Max || !l.Lends() {
		return false
	}
	l.integrate(now)
	l.lending += 1.0 / lendMemory
	l.inUse--
	l.lent++
	return true
}

// Lends reports whether Lend can ever take a slot back: not where the limit is fixed,
// whose owner has decided how many run.
func (l *Limit) Lends() bool { return l.cfg.Min < l.cfg.Max }

// Repay ends a request whose slot was lent.
func (l *Limit) Repay() { l.lent-- }

// Lent returns the requests that run without a slot.
func (l *Limit) Lent() int { return l.lent }

// integrate advances the time averages.
func (l *Limit) integrate(now mono.Time) {
	w := &l.window
	if dt := float64(now.Sub(w.last)); dt > 0 {
		w.area += dt * float64(l.inUse)
		if !l.Free() {
			w.full += dt
		}
		w.last = now
	}
}

// endWindow acts on the running window once it holds enough completions.
func (l *Limit) endWindow(now mono.Time) {
	w := &l.window
	length := float64(now.Sub(w.start))
	if length <= 0 {
		return
	}
	// No fewer than ran at once, or the window is shorter than a residence time.
	// The first one is needed too soon for that.
	many := float64(w.done+1)*length > w.area
	enough := w.done >= l.cfg.Samples && (l.service == 0 || many) && float64(w.done) >= float64(l.cfg.Samples)*l.variation()
	if l.recovering != recovered && w.done >= 2*earlySize && many {
		enough = true
	}
	overdue := w.done >= earlySize && length >= float64(l.cfg.MaxWindow)
	if !enough && !overdue && !l.alarmed() && !l.inVain() {
		return
	}
	// Half a completion stands for none: it is in this window by chance.
	p := point{w.area / length, max(float64(w.done-w.given), 0.5) / length, max(w.sum, w.area) / float64(w.done), w.done, 1}
	full := w.full / length
	if l.inVain() {
		l.giveWay(now, p)
		return
	}
	if l.service == 0 {
		// Should a queue have built up in this window, some met little of it.
		l.setService(p.residence)
		if w.early < p.residence/2 {
			l.setService(w.early)
		}
	}
	// The mean is of one operating point: a drifting limit must not drag it along.
	if away := math.Abs(math.Log(p.concurrency / l.level.concurrency)); l.level.samples > 0 && away > onePoint {
		l.level = point{}
	}
	l.level.add(p)
	was := l.limit
	if l.cfg.Min < l.cfg.Max {
		l.steer(p, full >= binding)
		if l.limit == was && w.full == 0 && !l.probing {
			l.sink(w.most)
			was = l.limit
		}
		l.limit = max(float64(l.cfg.Min), min(l.limit, float64(l.cfg.Max)))
	} else if p.residence < l.service {
		l.service += (p.residence - l.service) / memory
	}
	*w = newWindow(now, 0, now)
	if move := math.Abs(l.limit - was); move > was/4 {
		long := min(l.mean+4*l.spread, longest*l.service)
		*w = newWindow(now, l.inUse, now.Add(time.Duration(long)))
		l.level = point{}
	} else if move > was/32 {
		*w = newWindow(now, l.inUse, now)
	}
}

// inVain reports whether hardly anything in the running window was finished before
// its caller gave up.
func (l *Limit) inVain() bool {
	w := &l.window
	return w.done >= 2*earlySize && float64(w.given) > futile*float64(w.done) && l.cfg.Min < l.cfg.Max
}

// giveWay quarters the limit when all work is in vain. A server that does not hear
// that callers gave up goes on working for nobody for as long as it is given more:
// how long its work takes cannot be told until it has caught up. Then the limit
// doubles with every few completions until they take longer again.
func (l *Limit) giveWay(now mono.Time, p point) {
	l.limit = max(float64(l.cfg.Min), min(l.limit, p.concurrency)/4)
	l.recovering = catchingUp
	l.level, l.ref, l.probing, l.cutting = point{}, point{}, false, false
	l.bound, l.idle, l.probeGap = 0, 0, probeFirst
	l.window = newWindow(now, l.inUse, now)
}

// variation is the square of the residence times' coefficient of variation, at
// least 1, which exponential times have: so many times more samples are needed.
func (l *Limit) variation() float64 {
	if l.service == 0 {
		return 1
	}
	cv := 1.36 * l.spread / l.mean // exact for exponential times, whose mean deviation is 2/e
	return max(1, min(cv*cv, 8))
}

func newWindow(now mono.Time, flush int, opens mono.Time) window {
	return window{start: now, last: now, flush: flush, opens: opens, early: math.Inf(1)}
}

// alarmed reports whether the running window shows a residence time so long that
// waiting for its end would only let the hidden queue grow.
func (l *Limit) alarmed() bool {
	w := &l.window
	return l.service > 0 && !l.probing && w.done >= 2*earlySize &&
		w.sum > float64(w.done)*alarm*max(l.allowed(), l.service+idleQueue*l.slack())
}

// allowed is the residence time the limit is steered to.
func (l *Limit) allowed() float64 {
	return l.service + max(l.slack(), l.service*leeway)
}

func (l *Limit) setService(s float64) { l.service, l.anchor = s, s }

// steer moves the limit after a window.
func (l *Limit) steer(p point, bound bool) {
	if l.judge(bound) {
		return
	}
	if l.probing {
		if !bound { // load fell away: nothing binds, nothing can be learned
			l.probing, l.limit, l.ref = false, l.resumed, point{}
		}
		return
	}
	// Nothing takes less than the service time: it was shorter than believed.
	if p.residence < l.service*much {
		l.setService(p.residence)
		l.level, l.ref, l.probeGap = p, point{}, probeFirst
	} else if l.level.samples >= judgeSamples*l.cfg.Samples && l.level.residence < l.service*some {
		l.setService(l.level.residence)
	}
	allowed := l.allowed()
	if l.recovering != recovered {
		switch {
		case p.residence <= allowed:
			l.recovering = regrowing
			if bound {
				l.limit *= 2
			}
		case l.recovering == regrowing:
			l.recovering = recovered
		}
		l.level, l.ref = point{}, point{}
		return
	}
	// A hidden queue under this is not worth an experiment that may cost
	// throughput. While nothing waits in front it does even less harm, and the
	// first windows of a cold start know short requests only.
	harmless := l.slack() * idleQueue
	if bound {
		harmless /= 2
	}
	limit := max(allowed*tolerance, l.service+harmless)
	atOnce := max(allowed*alarm, limit)
	if p.residence > atOnce || l.level.residence > limit {
		l.cut(p)
		return
	}
	l.cutting = false
	if !bound {
		// Nothing binds, and if that has been so for a while, the residence is the
		// service time, unless a queue builds up, which is why it may only grow so
		// far without an experiment. In an overload credits make single windows
		// like this.
		if l.idle++; l.idle < memory && p.residence > l.service {
			return
		}
		l.service += (p.residence - l.service) / (2 * memory)
		l.anchor = min(l.anchor, l.service)
		l.service = min(l.service, l.anchor*tolerance)
		if l.idle >= believe {
			l.idle, l.anchor = memory, l.service
		}
		l.ref = point{}
		return
	}
	l.idle = 0
	if l.ref.samples == 0 {
		l.ref = l.level
	}
	// To the limit whose residence is the allowed one if throughput stays; at
	// least half a slot more while it is shorter, so that rounding does not hold
	// a small limit down.
	want := l.limit * max(0.8, min(allowed/l.level.residence, 1.5))
	if want > l.limit && want < l.limit+0.5 {
		want = l.limit + min(0.5, l.limit/16)
	}
	if l.atUseful() {
		want = min(want, max(l.limit, float64(l.useful)))
	}
	l.limit = want
	l.bound++
	if l.bound >= l.probeGap && l.level.samples >= judgeSamples*l.cfg.Samples {
		l.probe()
	}
}

// probe moves the limit far enough to be judged, down and up in turn: down finds
// slots that only hold a queue, up finds slots that are missing.
func (l *Limit) probe() {
	l.bound, l.ref = 0, l.level
	// A hidden queue is part of the residence. While the whole of that is short,
	// it is not worth the throughput to ask how much of it is queue.
	short := l.level.residence < idleQueue*l.slack()
	up := l.probeUp || short || l.Limit() <= l.cfg.Min
	if up && l.useful > 0 && l.Limit() >= l.useful {
		l.probeUp = false
		return
	}
	l.probing, l.resumed = true, l.limit
	if up {
		l.limit = max(math.Ceil(l.ref.concurrency/probeTo), float64(l.cfg.Min+1))
	} else {
		l.limit = max(math.Floor(l.ref.concurrency*probeTo), float64(l.cfg.Min))
	}
	l.probeUp = !l.probeUp
}

// sink lowers a limit that is far above most, what ran at once in a window in which
// no slot was missing. It would let that many in before the first window of an
// overload ended; and a limit that turns out too low grows by half a window.
func (l *Limit) sink(most int) {
	if room := 2*float64(most) + spare; l.limit > room {
		l.limit += (room - l.limit) / 4
	}
}

// cut lowers the limit to what the throughput needs, in one step to half at most
// unless that is far from enough.
func (l *Limit) cut(p point) {
	from := min(l.limit, p.concurrency)
	if l.Limit() <= l.cfg.Min || from <= float64(l.cfg.Min) {
		// There is nothing below to compare with: this is how long the work takes.
		l.setService(p.residence)
		l.ref, l.cutting = point{}, false
		return
	}
	if l.ref.samples == 0 || l.ref.concurrency < p.concurrency {
		l.ref = p
	}
	l.cutting = true
	if p.concurrency <= l.ref.concurrency*judgeAt {
		return // far enough: the judgement comes first
	}
	want := p.throughput * max(l.allowed(), cutSlacks*l.slack())
	floor := l.ref.concurrency / 2
	if want < floor/2 {
		floor = 1.5 * want // so far beyond that half would still be a long queue
	}
	l.limit = max(min(want, from*0.9), floor)
	l.level, l.cutAt = point{}, l.window.last
}

// judge compares level and ref, if they are far enough apart and known well
// enough, and reports whether that is all that is to be done now.
func (l *Limit) judge(bound bool) bool {
	// Whether residence or throughput follows fewer running requests tells the
	// same, whatever made them fewer: after a cut, credits or the AQM may.
	if !bound && !l.cutting || l.ref.samples == 0 {
		return false
	}
	known := float64(l.level.samples) >= judgeSamples*float64(l.cfg.Samples)*l.variation() || l.level.windows >= memory ||
		l.cutting && l.window.last.Sub(l.cutAt) > max(judgeSlacks*l.cfg.Slack, judgeLeast)
	distance := math.Log(l.level.concurrency / l.ref.concurrency)
	if math.Abs(distance) < -math.Log(judgeAt) {
		if l.probing && known { // it could not go far, at a small limit
			l.probing, l.limit, l.ref = false, l.resumed, point{}
			return true
		}
		return false
	}
	elasticity := math.Log(l.level.throughput/l.ref.throughput) / distance
	// The noise of elasticity, were both throughputs those of Poisson departures.
	noise := math.Sqrt(1/float64(l.level.samples)+1/float64(l.ref.samples)) / math.Abs(distance) * l.variation()
	if !known && math.Abs(elasticity-queued) < sure*noise {
		return true // far enough apart to be judged, and not known well enough: stay
	}
	probe := l.probing
	l.probing, l.cutting = false, false
	both := (l.level.residence*float64(l.level.samples) + l.ref.residence*float64(l.ref.samples)) / float64(l.level.samples+l.ref.samples)
	switch {
	case distance < 0 && elasticity > queued:
		// Fewer slots, less throughput: each did its part of the work, and the
		// residence is the service time.
		if probe {
			l.setService(both)
			l.limit = l.resumed
			l.probeGap = min(l.probeGap*2, probeLast)
		} else {
			l.setService(l.level.residence) // ref may be from before the work slowed
			l.limit = max(l.limit, l.ref.concurrency)
			l.bound, l.probeGap = 0, probeFirst
		}
		l.ref, l.level = point{}, point{}
	case distance < 0:
		// Fewer slots, the same throughput: the others held a queue.
		l.setService(min(l.service, l.level.residence))
		l.ref = l.level
		return false
	case elasticity > queued:
		// More slots, more throughput.
		l.setService(max(l.service, both))
		l.ref = l.level
		return false
	default:
		// More slots, the same throughput: they hold a queue.
		if probe {
			l.limit = l.resumed
			l.probeGap = min(l.probeGap*2, probeLast)
		} else {
			l.setService(min(l.service, l.ref.residence))
			l.limit = min(l.limit, max(l.level.throughput*l.allowed(), l.ref.concurrency))
		}
		l.ref, l.level = point{}, point{}
	}
	return true
}
