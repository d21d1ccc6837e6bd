package live

import (
	"context"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Outlet drives a compared policy of clients on the real clock, as a Wallet drives
// credits: one policy for one server. NewGateOf is its counterpart at the server.
// All its methods may be called at once from any goroutine.
type Outlet struct {
	notify func(demand int)
	mu     sync.Mutex
	policy baseline.Sender
	timer  *time.Timer
	armed  mono.Time
	closed bool
}

// NewOutlet returns an outlet around policy, which nothing else may call any more.
// notify, if not nil, is called when the server must be told the number of waiting
// requests because no request carries it; not under a lock, and it must not block.
func NewOutlet(policy baseline.Sender, notify func(demand int)) *Outlet {
	o := &Outlet{policy: policy, notify: notify, armed: mono.Never}
	o.timer = time.AfterFunc(time.Hour, o.onTimer)
	o.timer.Stop()
	return o
}

// Sending is one request that its policy let go. One of Answered and Lost must
// follow.
type Sending struct {
	core   credit.Waiter
	outlet *Outlet
	wake   chan verdict
	sent   mono.Time
	demand int
	asks   bool
}

// Demand returns what to report with the request: how many others wait.
func (s *Sending) Demand() int { return s.demand }

// Asks is what the request says of grants: see wire.Tags.Asks.
func (s *Sending) Asks() bool { return s.asks }

// Submit waits until the policy lets a request go, or refuses it with a *Refusal.
// The wait ends with ctx.
func (o *Outlet) Submit(ctx context.Context, p work.Priority) (*Sending, error) {
	s := &Sending{outlet: o, wake: make(chan verdict, 1)}
	s.core.Owner = s
	s.core.Deadline = mono.Never
	if d, ok := ctx.Deadline(); ok {
		s.core.Deadline = Instant(d)
	}
	o.mu.Lock()
	now := Now()
	v := verdict{}
	if v.step, v.reason = o.policy.Submit(now, &s.core, p); v.step == credit.Send {
		s.start(now)
	}
	o.finish(now)
	if v.step == credit.Wait {
		select {
		case v = <-s.wake:
		case <-ctx.Done():
			o.mu.Lock()
			gaveUp := o.policy.Cancel(&s.core)
			o.finish(Now())
			if gaveUp {
				return nil, notSent(ctx)
			}
			v = <-s.wake // it had its turn meanwhile
		}
	}
	if v.step == credit.Refuse {
		return nil, &Refusal{Reason: v.reason, Pushback: -1}
	}
	return s, nil
}

// start notes that the request goes now. It is called with the lock held.
func (s *Sending) start(now mono.Time) {
	s.sent, s.demand, s.asks = now, s.outlet.policy.Demand(), s.core.Asked()
}

// Answered takes what the server's policy put on the answer.
func (s *Sending) Answered(f baseline.Feedback) {
	o := s.outlet
	o.mu.Lock()
	now := Now()
	o.policy.OnReply(now, &s.core, now.Sub(s.sent), f)
	o.finish(now)
}

// Lost says that no answer will come.
func (s *Sending) Lost() {
	o := s.outlet
	o.mu.Lock()
	if p, counts := o.policy.(interface{ OnLost(*credit.Waiter) }); counts {
		p.OnLost(&s.core)
	}
	o.finish(Now())
}

// OnGrant takes a grant of the server that came without an answer.
func (o *Outlet) OnGrant(g wire.Grant) {
	o.mu.Lock()
	now := Now()
	o.policy.OnGrant(now, g)
	o.finish(now)
}

// Close stops the timer. What waits ends with its context.
func (o *Outlet) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.timer.Stop()
}

// finish delivers what a call to the policy made due and releases the lock, which
// is held when it is called.
func (o *Outlet) finish(now mono.Time) {
	for w, step, reason := o.policy.Next(now); w != nil; w, step, reason = o.policy.Next(now) {
		s := w.Owner.(*Sending)
		if step == credit.Send {
			s.start(now)
		}
		s.wake <- verdict{step, reason} // never blocks: one verdict a request
	}
	if at := o.policy.NextWake(); !o.closed && at < o.armed {
		o.armed = at
		o.timer.Reset(max(at.Sub(now), 0))
	}
	demand, tell := 0, false
	if p, reports := o.policy.(interface{ NextDemand(mono.Time) (int, bool) }); reports && o.notify != nil {
		demand, tell = p.NextDemand(now)
	}
	o.mu.Unlock()
	if tell {
		o.notify(demand)
	}
}

func (o *Outlet) onTimer() {
	o.mu.Lock()
	now := Now()
	o.armed = mono.Never
	o.policy.OnWake(now)
	o.finish(now)
}
