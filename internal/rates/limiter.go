package rates

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/bucket"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/signal"
	"github.com/spillgate/spillgate/internal/work"
)

// Verdict is what becomes of a request at its workflow's limit.
type Verdict uint8

const (
	// Pass: the request enters; it must end with OnDone.
	Pass Verdict = iota
	// Wait: the request is counted in the backlog. The caller queues it, in the
	// order it likes, and asks Next when its turn comes, or tells OnCancel.
	Wait
	// Drop: the request is refused, with a reason.
	Drop
)

// String names v as scripts and logs do.
func (v Verdict) String() string {
	switch v {
	case Pass:
		return "pass"
	case Wait:
		return "wait"
	case Drop:
		return "drop"
	}
	return "unknown"
}

const (
	// burstTime is the time for which a workflow may save up its rate. While there
	// are credits and what is short is further down it may save up creditBurst requests
	// in any case, for which the queue there has room: with one, a workflow of few requests
	// loses a third of its rate when twice as many come by chance; with 4, 31.2 % of the
	// requests of bursts of three times the capacity were in time, with 8 and 16, 32.1 and
	// 32.3 %, with 32, which the queue has no room for, 31.3 % (wisp/trace).
	burstTime   = 10 * time.Millisecond
	creditBurst = 8
	// latencyPeriods is how many periods the least latency is taken over.
	latencyPeriods = 10
	// probeEvery lets one in so many requests through that are infeasible by what
	// is known, about 6 %: if what is known is wrong, they correct it.
	probeEvery = 16
	// probeTime bounds how many these are when far more come than may enter, or they
	// would take all tokens: one in probeEvery of what may enter, or one in so long a
	// time if that is more, and never more than every second of it. Without,
	// a workflow that offered fifteen times the capacity got none of it (simulation).
	probeTime = 250 * time.Millisecond
)

// limiter shapes one workflow: a token bucket at its rate, and a forecast of
// whether a request that has to wait can still meet its deadline.
type limiter struct {
	bucket  *bucket.Bucket // nil until first limited
	rate    float64
	backlog int

	// latency is how long an admitted request takes from here on. Admitted
	// requests alone teach it, so a forecast that is too long would refuse those
	// that could correct it: it is the least of the recent periods' means, and
	// falls towards the plain service time while there are none.
	latency float64 // seconds
	least   signal.Least
	window  bool // least has its window
	sum     float64
	samples float64
	service signal.Average // of what requests say remains, seconds
	doubts  int            // infeasible requests since the last that was let through
	probed  mono.Time      // when that was, 0: never
}

// sample takes the latency of an admitted request.
func (l *limiter) sample(d time.Duration) {
	l.sum += max(mono.Seconds(d), 0)
	l.samples++
}

// measure closes a period.
func (l *limiter) measure(now mono.Time, period time.Duration) {
	if !l.window {
		l.least, l.window = signal.NewLeast(latencyPeriods*period), true
	}
	if l.samples > 0 {
		l.least.Add(now, l.sum/l.samples)
		l.sum, l.samples = 0, 0
	}
	if least, ok := l.least.At(now); ok {
		l.latency = least
	} else if base, _ := l.service.Value(); l.latency > base {
		l.latency = smooth(l.latency, base)
	}
}

// set changes the rate, and the burst, to so many requests or more. The bucket keeps
// its balance, up to the new burst: what had passed before had been paid for.
func (l *limiter) set(now mono.Time, rate, least float64) {
	l.rate = rate
	if rate >= NoLimit {
		return
	}
	burst := max(least, rate*burstTime.Seconds())
	if l.bucket == nil {
		// A rate is above zero and finite, and so is its burst.
		l.bucket, _ = bucket.New(now, bucket.Config{Rate: rate, Burst: burst})
		return
	}
	l.bucket.SetRate(now, rate)
	l.bucket.SetBurst(now, burst)
}

func (l *limiter) limited() bool { return l.rate > 0 && l.rate < NoLimit }

// wait returns how long a request has to wait behind the backlog.
func (l *limiter) wait() time.Duration {
	w := float64(l.backlog) / l.rate * 1e9
	if w >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(w)
}

// until returns how long a request waits that comes now: behind the backlog, and for
// the next token. Where a rate is low the latter is the most of it: at 40 a second it
// is up to 25 ms, and a budget may be less.
func (l *limiter) until(now mono.Time, wait time.Duration) time.Duration {
	if !l.limited() {
		return 0
	}
	next := l.bucket.ReadyAt(now, 1).Sub(now)
	return max(wait, wait+next) // the sum may overflow
}

// probeGap is the least time between two probes.
func (l *limiter) probeGap() time.Duration {
	if !l.limited() {
		return 0
	}
	each := 1e9 / l.rate
	return time.Duration(min(probeEvery*each, max(2*each, float64(probeTime))))
}

// feasible says why a request with this budget left cannot wait so long behind the
// backlog and still be in time, or not until then without using up more than a share
// of the budget. One in probeEvery of those that cannot is let through, as far as
// probeTime allows.
func (l *limiter) feasible(now mono.Time, budget, wait, until time.Duration, share float64) (reason work.Reason, probe bool) {
	tolerance := budget - time.Duration(l.latency*1e9)
	if wait <= tolerance && (until == 0 || float64(until) <= share*float64(budget)) {
		return work.None, false
	}
	if l.doubts++; l.doubts >= probeEvery && (l.probed == 0 || now.Sub(l.probed) >= l.probeGap()) {
		l.doubts, l.probed = 0, now
		return work.None, true
	}
	if tolerance >= 0 {
		return work.Rate, false // it is the limit that takes too long
	}
	return work.Infeasible, false
}

// Enter decides about a request that OnArrival has counted. It passes what has a
// token and nobody ahead; it refuses what has no budget left (work.Expired), what
// could not be answered in time even without a wait here (work.Infeasible), what
// would wait here until it could not, or for longer than Config.WaitShare, or
// without a deadline longer than Config.MaxWait (work.Rate), and what is beyond
// Config.QueueLimit (work.QueueFull). A workflow without a limit passes: where
// nothing is short, nothing is refused on a forecast. So does, while there are
// credits, what comes from a peer that says its demand: it holds itself to its rate.
// A second call for a request repeats what it may do, and takes nothing.
func (a *Adapter) Enter(now mono.Time, t *Request) (Verdict, work.Reason) {
	f := a.flow(t.Workflow)
	switch {
	case t.state == waiting:
		return Wait, work.None
	case f == nil || t.state != arrived:
		return Pass, work.None
	}
	l := &f.limiter
	if t.Remaining > 0 {
		l.learnService(t.Remaining)
	}
	budget := t.Deadline.Sub(now)
	switch {
	case budget <= 0:
		t.state = fresh
		return Drop, work.Expired
	case !l.limited() && l.backlog == 0, a.credits && t.held():
		return f.pass(now, t)
	}
	wait := l.wait()
	why, probe := l.feasible(now, budget, wait, l.until(now, wait), a.cfg.WaitShare)
	switch {
	case why != work.None:
		t.state = fresh
		return Drop, why
	case l.backlog == 0 && l.bucket.Allow(now):
		return f.pass(now, t)
	case t.Deadline == mono.Never && wait > a.cfg.MaxWait:
		t.state = fresh
		return Drop, work.Rate
	case l.backlog >= a.cfg.QueueLimit:
		t.state = fresh
		return Drop, work.QueueFull
	}
	l.backlog++
	t.state, t.probe = waiting, probe
	return Wait, work.None
}

// Next decides about a waiting request whose turn has come: Wait means that no
// token is there before ReadyAt, and that it stays in the queue. A request that
// is not waiting passes without a token.
func (a *Adapter) Next(now mono.Time, t *Request) (Verdict, work.Reason) {
	f := a.flow(t.Workflow)
	if f == nil || t.state != waiting {
		return Pass, work.None
	}
	l := &f.limiter
	budget := t.Deadline.Sub(now)
	if budget <= 0 {
		l.backlog--
		t.state = fresh
		return Drop, work.Expired
	}
	if l.limited() {
		if !t.probe {
			why, probe := l.feasible(now, budget, 0, 0, 1)
			if why != work.None {
				l.backlog--
				t.state = fresh
				return Drop, why
			}
			t.probe = probe
		}
		if !l.bucket.Allow(now) {
			return Wait, work.None
		}
	}
	l.backlog--
	return f.pass(now, t)
}

func (f *flow) pass(now mono.Time, t *Request) (Verdict, work.Reason) {
	t.state, t.passed = inside, now
	f.passed++
	return Pass, work.None
}

// OnCancel ends a request of which nothing ran: its caller gave up while it waited
// here, or whoever stands behind refused it. It is no sample of what requests take:
// counted as one, half of the requests refused behind would halve their cost and
// double the rate. A request that has ended does nothing.
func (a *Adapter) OnCancel(t *Request) {
	f := a.flow(t.Workflow)
	switch {
	case f == nil:
	case t.state == waiting:
		f.limiter.backlog--
		t.state = fresh
	case t.state == inside:
		f.passed--
		t.state = fresh
	}
}

// Backlog returns the waiting requests of a workflow.
func (a *Adapter) Backlog(w Workflow) int {
	if f := a.flow(w); f != nil {
		return f.limiter.backlog
	}
	return 0
}

// ReadyAt returns the earliest instant, not before now, at which Next can pass a
// waiting request of a workflow at today's rate; mono.Never if none waits.
// OnWake changes rates, so ask again after it.
func (a *Adapter) ReadyAt(now mono.Time, w Workflow) mono.Time {
	f := a.flow(w)
	switch {
	case f == nil || f.limiter.backlog == 0:
		return mono.Never
	case !f.limiter.limited():
		return now
	}
	return f.limiter.bucket.ReadyAt(now, 1)
}

func (l *limiter) learnService(d time.Duration) {
	if _, any := l.service.Value(); !any {
		l.service = signal.NewAverage(sampleWeight)
	}
	l.service.Add(mono.Seconds(d))
}
