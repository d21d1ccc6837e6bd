package slots

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Limit is an adaptive bound on running requests. It is not safe for concurrent
// use; calls take bounded time and do not allocate.
type Limit struct {
	cfg   Config
	limit float64
	inUse int
	ended mono.Time // the last release, or loan of a slot that was taken for stuck
	lent  int       // running requests that gave their slots back; see Lend
	begun int       // requests that hold slots while their answers are under way; see Answer
	ends  uint64    // releases
	// overdue requests hold slots beyond their objectives; passed is how many of them would have
	// ended by chance, had they been like the others, since the last of them did.
	overdue int
	passed  float64
	useful  int     // see SetUseful
	short   bool    // see SetShort
	mean    float64 // ns of residence, and its mean deviation, per completion
	spread  float64

	window window
	// knee is the number of requests at once from which on more of them only wait for
	// each other, 0 while unknown, and samples how many completions say so; least are so
	// many that were seen to run without a queue, in swift ns each.
	knee, samples, least, swift float64
	once, freely                float64 // the most of them while slots were free, and their residence
	// rate is the completions per ns while the limit binds; service the residence in ns
	// without a hidden queue, now; alone the same as last measured.
	rate, service, alone float64

	line     line
	reach    reach
	calm     calm
	overlong overlong
	crowd    crowd
	past     point   // the last window
	fifo     bool    // ranks show that requests wait in line behind those in service
	unlined  unlined // counts again once there is no line
	lined    lined   // what the line did, and with how many in service
	ordered  bool    // see SetOrdered
	level    level   // all windows under this limit
	other    point   // the level before, to compare with
	calmly   point   // the windows in which slots were free

	length        float64 // ns, of the last window
	held, long    float64 // ns of slots a window, smoothed, and those of requests that turned out long by nature
	trial         trial
	excused       bool    // the last trial downwards told nothing because the work had become faster
	before        point   // the last trial that lowered the limit, until it is seen whether rightly
	untried       int     // binding windows since the last trial
	gap, raiseGap int     // of them between two trials
	wideGap       int     // and between two wide ones
	narrow        int     // binding windows since the last wide one
	proven        float64 // as many ran before the last wide one that confirmed a line
	wary          int     // windows in which no line is believed, because one was none
	idle          int     // windows in a row in which the limit did not bind
	peak          float64 // requests at once, decaying

	recovering recovery
	patient    mono.Time // until then it is catching up
	vain       vain
	caught     float64 // completions that told the service time when it had
}

// unlined is what was known of the knee before a line was confirmed.
type unlined struct{ knee, samples float64 }

// lined is how many a line has in service, and what they do.
type lined struct{ knee, rate float64 }

// New returns a limit at its initial value, or every mistake in cfg.
func New(cfg Config) (*Limit, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Limit{cfg: cfg, limit: float64(cfg.Initial), gap: trialFirst, raiseGap: raiseFirst, wideGap: wideFirst}
	l.window = newWindow(math.MinInt64, math.MinInt64) // time may begin anywhere
	return l, nil
}

// Limit returns the most requests that may run at once.
func (l *Limit) Limit() int { return int(l.limit + 0.5) }

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

// SetUseful says how many running requests are of use, as far as the driver knows: as
// many as there are processors, while these are what is short. More than that run
// while they take no longer for it, for they may be waiting for something else, most of
// the time, and use the processors up between them; but no hidden queue is kept. 0 means
// that nobody knows.
func (l *Limit) SetUseful(n int) {
	if n > 0 && l.useful == 0 {
		if l.crowd.bound > 0 {
			l.crowd, l.knee = crowd{}, 0
		}
		l.refute()
		l.gap, l.trial.last = trialFirst, 1 // what runs for nothing is worth finding out
		l.untried = l.gap
	}
	l.useful = max(n, 0)
}

// SetShort says whether the processors are short, whatever uses them: another process may do what the
// requests wait for. How many of them are of use nobody knows then.
func (l *Limit) SetShort(yes bool) { l.short = yes }

// Sharing reports whether requests share processors, as far as is known: the order in which they end tells
// nothing then, and fewer at once are in time.
func (l *Limit) Sharing() bool { return l.useful > 0 || l.short }

// SetOrdered says whether it matters who is served first. Then hardly any request is to wait
// where nobody can order it.
func (l *Limit) SetOrdered(yes bool) { l.ordered = yes }

// Useful returns what SetUseful said last.
func (l *Limit) Useful() int { return l.useful }

// Trying reports whether fewer run just now than could, to learn how long a request takes:
// the queue in front is longer than it need be.
func (l *Limit) Trying() bool { return l.trial.dir < 0 }

// Knee returns the number of requests at once from which on more of them only wait for
// each other, as far as known; 0 before.
func (l *Limit) Knee() float64 { return l.knee }

// Acquire takes a slot. The caller asks Free first; taking more than the limit
// is allowed and counted, for requests that must run. The place is for Release or Lend.
func (l *Limit) Acquire(now mono.Time) Place {
	l.integrate(now)
	if l.inUse == 0 {
		l.ended = now // nothing is stuck
	}
	l.inUse++
	l.window.most = max(l.window.most, l.inUse)
	place := l.line.enter(now, l.mean*apart)
	place.ends, place.found, place.all = l.ends, l.inUse, l.inUse+l.lent
	return place
}

// Answer says that the answer of a request that holds a slot has begun. Should its slot come back before
// the answer ends it is one of a stream, whose service is what came before: see Part. Until it is known,
// what it holds the slot for is left out of what the slots are used for.
func (l *Limit) Answer(now mono.Time, place *Place) {
	if place.answered == 0 {
		l.integrate(now)
		l.begun++
		place.answered = now
	}
}

// integrate advances the averages of the window up to now.
func (l *Limit) integrate(now mono.Time) { l.window.integrate(now, l.inUse-l.begun, l.lent, l.Free()) }

// Release returns a slot that was taken at started, at a place. A request that was executed to
// its end is a sample of the residence time. One that was given up is one if it
// took longer than the others do: it would have taken longer still, and where
// every caller gives up at a deadline nothing else would be known of a queue that
// is longer than it.
func (l *Limit) Release(now, started mono.Time, place Place, executed bool) {
	w, ran := &l.window, float64(l.inUse)
	rank := l.vacate(now, place)
	if place.answered != 0 {
		w.area += float64(now.Sub(place.answered)) // it is no stream
	}
	l.sample(now, started, place, rank, ran, float64(max(now.Sub(started), 1)), executed)
}

// sample takes what an end tells: of a request that ran for r ns, at a rank of so many that ran.
func (l *Limit) sample(now, started mono.Time, place Place, rank int, ran, r float64, executed bool) {
	w := &l.window
	if l.overdue == 0 || r > whole*float64(l.cfg.Slack) {
		l.passed = 0
	} else if executed {
		l.passed += float64(l.overdue) / ran
	}
	if r > whole*float64(l.cfg.Slack) {
		l.overlong.add(float64(place.all), r, executed)
	}
	sample := executed || r > l.mean && (l.mean > 0 || r > half*float64(l.cfg.Slack))
	if executed {
		if l.mean == 0 {
			l.mean = r
		}
		off := r - l.mean
		l.mean += off / 32
		l.spread += (math.Abs(off) - l.spread) / 32
		if l.calm.end(rank, ran, float64(place.found), r) && !l.fifo {
			l.confirm(l.reach.most())
		}
	}
	if l.settling(now) || !sample {
		return
	}
	if l.service == 0 && w.done == 0 {
		*w = newWindow(started, started)
	}
	w.add(now, r, executed, l.tooLate(r))
	w.order.add(rank)
	l.reach.add(rank)
	l.endWindow(now)
}

// Return is Release for a request that tells nothing of the service.
func (l *Limit) Return(now mono.Time, place Place) { l.vacate(now, place) }

// Part is Release for a stream, whose answer has begun and goes on without a slot: what came before is a
// sample.
func (l *Limit) Part(now, started mono.Time, place Place) {
	ran := float64(l.inUse)
	rank := l.vacate(now, place)
	l.sample(now, started, place, rank, ran, float64(max(place.answered.Sub(started), 1)), true)
}

// vacate takes a slot back at the end of a request, and returns its rank in the line.
func (l *Limit) vacate(now mono.Time, place Place) (rank int) {
	l.integrate(now)
	l.ended = now
	l.ends++
	return l.drop(place)
}

// drop takes a slot out of what is in use, and returns its rank in the line.
func (l *Limit) drop(place Place) (rank int) {
	if place.answered != 0 {
		l.begun--
	}
	if l.window.flush > 0 && place.number < l.window.next {
		l.window.old--
	}
	l.inUse--
	return l.line.leave(place)
}

// Forget begins to measure anew: what was seen since the last change tells nothing.
func (l *Limit) Forget(now mono.Time) {
	if l.service > 0 {
		l.begin(now, 1)
	}
}

// settling reports whether a change of the limit is not in force yet: more run than it
// allows, or what runs is from before. The window begins when it is.
func (l *Limit) settling(now mono.Time) bool {
	w := &l.window
	if w.moved && (l.inUse > l.Limit() || now < w.opens) {
		return true
	}
	if w.moved {
		fresh := w.fresh || l.trial.dir < 0 || l.trial.crowd
		*w = newWindow(now, now)
		if fresh {
			w.flush, w.old, w.next = l.inUse, l.inUse, l.line.next
		}
	}
	if w.flush > 0 {
		if w.flush > 1 || !l.mixed() {
			w.flush--
		}
		if w.flush == 0 {
			*w = newWindow(now, now)
		}
		return true
	}
	return false
}

// mixed reports whether more of what runs is from before the change of the limit than may be, where times vary
// much. What began in a crowd may take long after it: where fewer may do more hardly any of it may be left.
func (l *Limit) mixed() bool {
	if l.trial.crowd || l.trial.dir < 0 && l.trial.from.residence > max(whole*float64(l.cfg.Slack), far*l.alone) {
		return l.window.old > l.inUse/hardlyOver
	}
	return l.window.old > l.inUse/leftOver && l.deviation() > wild
}

const (
	// leftOver is which part of what runs, inverted, may be from before a change, hardlyOver where that is hardly any.
	leftOver, hardlyOver = 4, 16
	// wild is the coefficient of variation from which on the number of ends does not tell how many of them are gone.
	wild = 1.5
)

// apart is which part of a residence two requests must start apart for the order in which
// they end to tell something: constant times vary by some hundredths.
const apart = 1.0 / 16

// outlives is how many times as many requests as run must have ended while one runs that is
// long by nature: so many mean residences, by Little's law, whatever these are by now. Of
// exponential times one in fifty is as long.
const outlives = 4

// outlast is how many ends of overdue requests must be missing for all of them to be long by nature:
// an end is one of theirs as often as they are a part of what runs. Of work that is slow, with times as
// random as exponential ones, so many are missing by chance once in four hundred times. It is more than
// outlives because all of them give their slots back then. Without this rule 64 long polls at once cost
// the short requests beside them a third (wild/live-polls).
const outlast = 6

// SetOverdue says how many of the requests that hold slots have run for longer than their objectives.
// The driver does so before a Release and before Lend.
func (l *Limit) SetOverdue(n int) {
	if l.overdue = n; n == 0 {
		l.passed = 0
	}
}

// Lend takes back the slot of a request that has run for longer than its objective
// and runs on: a long poll, a stream, an export. It is no sample of how long others
// take. It reports false, and does nothing, where too few have ended meanwhile to tell it
// from others, by itself or together with all that are overdue, for then it is the work that
// may be slow, and more of it must not be let in; and where Max run without a slot already. Should nothing end for an
// objective while every slot is taken, one is lent all the same, to see whether others end
// soon: long polls that came first would hold every slot for good. Repay ends the
// request, instead of Release.
func (l *Limit) Lend(now, started mono.Time, place Place) bool {
	few := l.ends-place.ends <= outlives*uint64(l.inUse) && l.passed <= outlast
	stuck := !l.Free() && now.Sub(l.ended) > time.Duration(whole*l.cfg.Slack)
	if (few || l.overlong.wait()) && !stuck || l.lent >= l.cfg.Max || !l.Lends() {
		return false
	}
	l.integrate(now)
	if few {
		l.ended = now
	}
	held := float64(now.Sub(started))
	if place.answered != 0 {
		held = float64(place.answered.Sub(started))
	}
	l.window.lent += held
	l.drop(place)
	l.lent++
	if w := &l.window; !w.moved && w.flush == 0 && w.done > 0 {
		w.add(now, held, true, false) // as far as slots are concerned
	}
	return true
}

// Lends reports whether Lend can ever take a slot back: not where the limit is fixed,
// whose owner has decided how many run.
func (l *Limit) Lends() bool { return l.cfg.Min < l.cfg.Max }

// Repay ends a request whose slot was lent, which began at started, at a place.
func (l *Limit) Repay(now, started mono.Time, place Place, executed bool) {
	l.lent--
	if place.answered == 0 {
		l.overlong.add(float64(place.all), float64(now.Sub(started)), executed)
	}
}

// Lent returns the requests that run without a slot.
func (l *Limit) Lent() int { return l.lent }
