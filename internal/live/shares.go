package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
)

// SharesConfig describes Shares. The zero value is a start for a gate with one
// slot.
type SharesConfig struct {
	// Config is the controller's. Servers should be about the gate's slots.
	share.Config
	// Classifier is how classes are learned, if Classes is nil.
	Classifier share.ClassifierConfig
	// Classes, if set, is where classes are learned, together with whoever else has
	// it. Default nil: on one's own.
	Classes *Classes
	// Decided, if set, is told every decision that ends a period, early ones left
	// out. It is called on a goroutine of its own, outside of all locks; decisions
	// come one at a time and in order. It must not block.
	Decided func(share.Decision)
}

// Shares decides what interactive requests get of a Gate's slots: a
// share.Classifier tells them from others, and a share.Controller sets the weights
// of the two classes, on the real clock.
//
//	Enter ─ Classify ─▶ Gate.Enter ─▶ Visit ─ handler ─ Leave
//	  │ arrivals, who gave up             what it took │
//	  └──────────▶ share.Controller ◀──────────────────┘
//	                   │ every period
//	                   └─▶ Gate.SetWeight
//
// All its methods may be called at once from any goroutine. A request costs four
// locks beside the gate's.
type Shares struct {
	gate    *Gate
	weigh   func(work.Class, float64) bool
	decided func(share.Decision)
	classes *Classes

	mu         sync.Mutex
	controller *share.Controller
	stats      SharesStats
	timer      *time.Timer
	closed     bool
	running    sync.WaitGroup // of the timer's function
}

// NewShares begins to set the class weights of a gate, or returns every mistake in
// cfg. One gate takes one Shares at a time. Close ends it.
func NewShares(g *Gate, cfg SharesConfig) (*Shares, error) {
	controller, err := share.New(cfg.Config)
	classes, errClass := cfg.Classes, error(nil)
	if classes == nil {
		classes, errClass = NewClasses(cfg.Classifier)
	}
	if err := errors.Join(err, errClass); err != nil {
		return nil, err
	}
	s := &Shares{gate: g, weigh: g.SetWeight, decided: cfg.Decided, classes: classes, controller: controller}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.period(Now())
	s.running.Add(1)
	s.timer = time.AfterFunc(s.due(), s.onTimer)
	return s, nil
}

// Close ends the changes of weights; they stay as they are. It waits until Decided
// has returned, and so must not be called by it. Visits that are under way may
// still leave. Further calls do nothing.
func (s *Shares) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		if s.timer.Stop() {
			s.running.Done()
		}
	}
	s.mu.Unlock()
	s.running.Wait()
}

// due returns how long it is until the period ends. It is called with the lock
// held.
func (s *Shares) due() time.Duration { return max(s.controller.NextWake().Sub(Now()), 0) }

// period ends a period if it is over, with the lock held. The gate's lock is taken
// inside of this one, and never the other way round.
func (s *Shares) period(now mono.Time) share.Decision {
	d := s.controller.OnWake(now)
	if d.Reason != share.Early {
		s.stats.Decision = d
	}
	s.weigh(work.Interactive, max(d.Weight, schedule.MinWeight))
	s.weigh(work.Default, max(1-d.Weight, schedule.MinWeight))
	return d
}

func (s *Shares) onTimer() {
	defer s.running.Done()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	d := s.period(Now())
	s.mu.Unlock()
	if s.decided != nil && d.Reason != share.Early {
		s.decided(d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Add(1)
		s.timer.Reset(s.due())
	}
}

// SharesStats is what Shares shows of itself.
type SharesStats struct {
	// Decision is the last that ended a period.
	Decision share.Decision
	// Admitted and GaveUp count requests, by class, since the start: those that
	// were let in to wait or run, and those whose callers left before the end.
	Admitted, GaveUp [work.NumClasses]uint64
	// Keys is how many kinds of requests are remembered.
	Keys int
}

// Stats returns a copy, for display.
func (s *Shares) Stats() SharesStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Keys, _ = s.classes.Keys()
	return s.stats
}

// arrived and gaveUp count a request, with the lock held.
func (s *Shares) arrived(class work.Class) {
	s.stats.Admitted[class]++
	s.controller.OnArrival(class)
}

func (s *Shares) gaveUp(class work.Class, after time.Duration) {
	s.stats.GaveUp[class]++
	s.controller.OnCancel(class, after)
}

// Explain returns the class of requests with this key, and why, for display.
func (s *Shares) Explain(k share.Key) share.Verdict { return s.classes.Explain(k) }

// Classes returns where classes are learned.
func (s *Shares) Classes() *Classes { return s.classes }

// OnArrival, OnDone and OnCancel tell of a request that the gate let in without
// Enter, as share.Controller has it: that it was let in to wait or run, and that it
// was completed, or that its caller left before the end. A class that does not
// exist counts as work.Default.
func (s *Shares) OnArrival(class work.Class) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived(known(class))
}

// known takes a class that does not exist for the default one.
func known(class work.Class) work.Class {
	if class >= work.NumClasses {
		return work.Default
	}
	return class
}

// OnDone is explained at OnArrival.
func (s *Shares) OnDone(class work.Class, did share.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.controller.OnDone(class, did)
}

// OnCancel is explained at OnArrival. after is how long the caller waited.
func (s *Shares) OnCancel(class work.Class, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gaveUp(known(class), after)
}

// Visit is a Ticket of a request that Shares knows of.
type Visit struct {
	*Ticket
	shares  *Shares
	key     share.Key
	class   work.Class
	arrived mono.Time
	allowed time.Duration
	gone    func() error // of the request's context
	left    bool
}

// Enter gives r its class and admits it through the gate as Gate.Enter does. A
// request that comes with the class work.Interactive keeps it: whether to believe
// that is the edge's affair. Leave must follow on the visit, not on its ticket.
func (s *Shares) Enter(ctx context.Context, k share.Key, r Request) (*Visit, error) {
	began := Now()
	v := &Visit{shares: s, key: k, class: r.Class, arrived: began, gone: ctx.Err}
	if r.Arrived != 0 && r.Arrived < began {
		v.arrived = r.Arrived
	}
	if v.class != work.Interactive {
		v.class = s.classes.Classify(k)
	}
	r.Class = v.class
	if at, ok := ctx.Deadline(); ok {
		v.allowed = Instant(at).Sub(v.arrived)
	}
	if r.Deadline != 0 && r.Deadline != mono.Never {
		if d := r.Deadline.Sub(v.arrived); v.allowed == 0 || d < v.allowed {
			v.allowed = d
		}
	}
	gone := ctx.Err() != nil
	t, err := s.gate.Enter(ctx, r)
	if err != nil {
		if !gone && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			// It was let in to wait, and nobody waits for it any more.
			s.mu.Lock()
			now := Now()
			s.arrived(v.class)
			s.gaveUp(v.class, now.Sub(v.arrived))
			s.mu.Unlock()
		}
		return nil, err
	}
	v.Ticket = t
	s.mu.Lock()
	s.arrived(v.class)
	s.mu.Unlock()
	return v, nil
}

// Class returns the class that the request was let in with.
func (v *Visit) Class() work.Class { return v.class }

// Leave returns the ticket's slot, and takes what the request did. Of did, what is
// 0 is taken from the clock: Service and Own are then the time for which the
// slot was held, Total is Service. An interactive request that is work.Ignored, and
// whose context has ended, is a caller who gave up. Only the first call counts.
func (v *Visit) Leave(o work.Outcome, did share.Course) {
	held := Now().Sub(v.started)
	v.Ticket.Leave(o)
	s := v.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Now()
	if v.left {
		return
	}
	v.left = true
	switch {
	case o.Executed():
		if did.Service <= 0 {
			did.Service = held
		}
		if did.Own <= 0 {
			did.Own = did.Service
		}
		s.controller.OnDone(v.class, share.Sample{
			Latency: now.Sub(v.arrived), Isolated: s.classes.Learn(v.key, did).Isolated,
			Waited: v.Queued(), Service: held, Allowed: v.allowed,
		})
	case o == work.Ignored && v.class == work.Interactive && v.gone() != nil:
		s.gaveUp(v.class, now.Sub(v.arrived))
	}
}
