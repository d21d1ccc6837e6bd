package slots

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Limit is an adaptive concurrency limit. It is not safe for concurrent use; calls take bounded time and do not
// allocate.
type Limit struct {
	cfg  Config
	use  use
	told told
	belief
	most int // what Limit returns: see round

	// What requests show when they end.
	times     times
	arrivals  arrivals
	reach     reach
	calm      calm
	overlong  overlong
	streaming streaming

	// The running window, and what is kept of earlier ones.
	window   window
	seen     seen
	slotTime slotTime

	// What the limit follows from beside belief: see target.
	crowd  crowd
	vain   vain
	barren barren

	trial   trial // that runs
	lowered point // before a trial or a line lowered the limit, until regret has judged it
}

// belief is what a limit follows from, and what comes back if it was lowered in vain.
type belief struct {
	limit    float64
	knee     knee
	unqueued unqueued // the most requests that lately ran without a queue
	line     line
	agenda   agenda
}

// use counts the requests that run.
type use struct {
	slots     int       // requests that hold slots
	answering int       // of these, requests whose answers have begun: see Answer
	lent      int       // requests that gave their slots back: see Lend
	ends      uint64    // requests that have ended
	ended     mono.Time // last end, or last loan of a slot that seemed stuck
	clumped   float64   // share of the ends that hardly were apart from the one before, of late
	overdue   int       // requests that hold slots beyond their objectives
	missing   float64   // ends of overdue requests expected by chance since the last one: see outlast
}

// told is what the driver knows of the host and of the queue in front.
type told struct {
	useful  int     // processors, while these are short: see SetUseful
	lag     float64 // ns, smoothed: see SetLag
	short   bool
	ordered bool
}

// knee is what is known of the number of requests at once from which on more of them only wait for each other. The
// durations are in ns, the rate in completions per ns.
type knee struct {
	at      float64 // requests; 0 while unknown
	samples float64 // completions that the knee was measured with; 0 for a guess
	rate    float64 // throughput while the limit binds
	service float64 // residence time without a hidden queue, now
	alone   float64 // the same, as last measured
	asked   bool    // a shortage of processors has brought a trial forward
}

// unqueued is a number of requests that ran at once without a queue, and their residence time in ns.
type unqueued struct{ n, residence float64 }

// New returns a limit at its initial value, or every mistake in cfg.
func New(cfg Config) (*Limit, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Limit{cfg: cfg, belief: belief{limit: float64(cfg.Initial), agenda: agenda{gap: trialFirst, upGap: raiseFirst, wideGap: wideFirst}}}
	l.window = newWindow(math.MinInt64, math.MinInt64) // time may begin anywhere
	l.round()
	return l, nil
}

// Limit returns the most requests that may run at once.
func (l *Limit) Limit() int {
	if b := l.barren.bound; b > 0 {
		return int(min(l.limit, max(b, float64(l.fewest()))) + 0.5)
	}
	return int(l.limit + 0.5)
}

// InUse returns the number of slots that are taken: as many as requests hold, without the part of those whose answers have
// begun that lately were streams. Where the limit is fixed all count.
func (l *Limit) InUse() int {
	if l.use.answering == 0 || !l.Lends() {
		return l.use.slots
	}
	return l.use.slots - int(l.streaming.share()*float64(l.use.answering)+0.5)
}

// Running returns the number of requests that run, with and without slots.
func (l *Limit) Running() int { return l.use.slots + l.use.lent }

// Free reports whether one more request may run.
func (l *Limit) Free() bool { return l.InUse() < l.most }

// round takes over what Limit returns, which is asked for several times a request and changes with a window.
func (l *Limit) round() { l.most = l.Limit() }

// Service returns the estimated residence time without a hidden queue, 0 before the first completion.
func (l *Limit) Service() time.Duration {
	if l.knee.service == 0 && l.window.done > 0 {
		return time.Duration(l.window.sum / float64(l.window.done))
	}
	return time.Duration(l.knee.service)
}

// SetUseful tells the limit that this process is short of processors, and that it has n of them; 0 ends the shortage.
// During a shortage the limit does not fall below n. More than n run as far as the rest waits a tenth of the objective
// at most, and further while more requests take no longer than n, because those may wait for something else most of
// the time. A shortage brings the next trial forward, because it may end useless work, but only once, or while the knee
// was never measured: fewer that mostly wait end the shortage themselves, and it comes back with the limit.
func (l *Limit) SetUseful(n int) {
	if n > 0 && l.told.useful == 0 {
		if l.crowd.bound > 0 {
			l.crowd, l.knee.at = crowd{}, 0
		}
		l.refute()
		if l.knee.samples == 0 || !l.knee.asked {
			l.agenda.gap, l.agenda.last, l.knee.asked = trialFirst, more, true
			l.agenda.untried = l.agenda.gap
		}
	}
	l.told.useful = max(n, 0)
	l.round()
}

// SetLag takes for how long a request lay in a socket before the process saw it. While processors are short, that is
// part of the tenth of the objective which requests that run may wait for each other, and so is the way out: who reads
// messages waits behind them.
func (l *Limit) SetLag(d time.Duration) { l.told.lag += (float64(d) - l.told.lag) / lagMemory }

// SetShort says whether the processors are short because of any process on the host. Requests may wait for work of
// another process, so the number of useful requests is unknown then.
func (l *Limit) SetShort(yes bool) { l.told.short = yes }

// Sharing reports whether requests are known to share processors. The order in which they end then tells nothing, and
// with fewer at once more are in time.
func (l *Limit) Sharing() bool { return l.told.useful > 0 || l.told.short }

// SetOrdered says whether the order of service matters. The hidden queue, which nothing can order, is then kept to a
// tenth of the objective.
func (l *Limit) SetOrdered(yes bool) { l.told.ordered = yes }

// Useful returns what SetUseful said last.
func (l *Limit) Useful() int { return l.told.useful }

// Trying reports whether a trial runs that lowers the limit: the queue in front is then longer than it need be.
func (l *Limit) Trying() bool { return l.trial.kind.down() }

// Knee returns the number of requests at once from which on more of them only wait for each other, 0 while it is
// unknown.
func (l *Limit) Knee() float64 { return l.knee.at }

// Acquire takes a slot. The caller asks Free first, but may take more than the limit for requests that must run. The
// place is for Release, Return, Part or Lend.
func (l *Limit) Acquire(now mono.Time) Place {
	l.integrate(now)
	if l.use.slots == 0 {
		l.use.ended = now // nothing is stuck
	}
	l.use.slots++
	n := l.InUse()
	l.window.most = max(l.window.most, n)
	l.window.beyond = l.window.beyond || n > l.most
	place := l.arrivals.enter(now, l.times.mean*apart)
	place.ends, place.found, place.all = l.use.ends, n, n+l.use.lent
	return place
}

// Answer says that the answer of a request that holds a slot has begun. The time from here on does not count as use
// of the slot until it is known whether the request is a stream: Part says that it is one, Release that it is none. Where
// hardly any work is left by then, the request leaves the line of those that are worked on.
func (l *Limit) Answer(now mono.Time, place *Place) {
	if place.answered == 0 {
		l.integrate(now)
		l.use.answering++
		place.answered = now
		if l.streaming.done(l.times.mean) {
			l.leaveLine(place)
		}
	}
}

// integrate advances the averages of the window to now.
func (l *Limit) integrate(now mono.Time) {
	l.window.integrate(now, l.use.slots-l.use.answering, l.use.lent, l.Free())
}

// Release returns a slot that was taken at started, at a place. A request that was executed to its end is a sample of
// the residence time. A request whose caller gave up is a sample if it took longer than the mean: it would have taken
// longer still, and where every caller gives up at a deadline nothing else shows a queue that is longer than the
// deadline.
func (l *Limit) Release(now, started mono.Time, place Place, executed bool) {
	w, ran := &l.window, float64(l.InUse())
	rank := l.vacate(now, place)
	if place.answered != 0 {
		written := float64(now.Sub(place.answered))
		w.area += written // it is no stream
		l.streaming.add(written, false)
	}
	l.sample(now, started, place, rank, ran, float64(max(now.Sub(started), 1)), executed)
}

// Return is Release for a request that tells nothing of the service, and may have been a stream.
func (l *Limit) Return(now mono.Time, place Place, stream bool) {
	l.vacate(now, place)
	if stream && place.answered != 0 {
		l.streaming.add(float64(now.Sub(place.answered)), true)
	}
}

// Part is Release for a stream, whose answer has begun and goes on without a slot. The time up to the answer's
// beginning is a sample.
func (l *Limit) Part(now, started mono.Time, place Place) {
	ran := float64(l.InUse())
	rank := l.vacate(now, place)
	l.streaming.add(float64(now.Sub(place.answered)), true)
	l.sample(now, started, place, rank, ran, float64(max(place.answered.Sub(started), 1)), true)
}

// Forget begins a new window: what the running one has seen tells nothing.
func (l *Limit) Forget(now mono.Time) {
	if l.knee.service > 0 {
		l.begin(now, 1)
	}
}

// sample takes the end of a request that took r ns, with the given rank among the ran requests that held slots.
func (l *Limit) sample(now, started mono.Time, place Place, rank int, ran, r float64, executed bool) {
	w, objective := &l.window, whole*float64(l.cfg.Slack)
	if l.use.overdue == 0 || r > objective {
		l.use.missing = 0
	} else if executed {
		overdue := float64(l.use.overdue)
		l.use.missing += overdue / max(ran, overdue)
	}
	if r > objective {
		l.overlong.add(float64(place.all), r, executed)
	}
	sample := executed || r > l.times.mean && (l.times.mean > 0 || r > half*float64(l.cfg.Slack))
	if executed {
		l.fruit(now)
		l.times.add(r)
		if !l.line.confirmed && l.calm.end(rank, ran, float64(place.found), r) {
			l.confirm(l.reach.most())
		}
	}
	if l.barren.bound > 0 || l.settling(now) || !sample {
		return // under a bound fewer run than the limit says
	}
	if l.knee.service == 0 && w.done == 0 {
		*w = newWindow(started, started)
	}
	w.add(now, r, executed, l.tooLate(r))
	if r > objective {
		w.over++
	}
	if executed && r+float64(place.Waited) > objective {
		w.tardy++
		w.overran += r
	}
	w.order.add(rank)
	l.reach.add(rank)
	l.endWindow(now)
}

// vacate takes a slot back at the end of a request, and returns the request's rank.
func (l *Limit) vacate(now mono.Time, place Place) (rank int) {
	l.integrate(now)
	l.use.end(now, l.times.mean)
	return l.drop(place)
}

// drop takes a request out of those that hold slots, and returns its rank.
func (l *Limit) drop(place Place) (rank int) {
	if place.answered != 0 {
		l.use.answering--
	}
	l.use.slots--
	if !place.out {
		l.leaveLine(&place)
	}
	return place.rank
}

// leaveLine takes a request out of the order in which requests took their slots, and notes its rank.
func (l *Limit) leaveLine(place *Place) {
	if l.window.flush > 0 && place.number < l.window.next {
		l.window.old--
	}
	place.out, place.rank = true, l.arrivals.leave(*place)
}
