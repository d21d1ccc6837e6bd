package bed

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/world"
)

// send is what the generator of an open loop calls.
func (g *group) send(ctx context.Context, i int, intended time.Time) measure.Outcome {
	switch e := g.request(ctx, i, i, intended); e.kind {
	case served:
		return measure.Outcome{Kind: measure.Served}
	case refused:
		return measure.Outcome{Kind: measure.Refused, Reason: e.reason.String()}
	case expired:
		return measure.Outcome{Kind: measure.TimedOut}
	}
	return measure.Outcome{Kind: measure.Failed}
}

// request makes the i-th request of the group, by a connection that turn chooses, with
// its retries, and counts it.
func (g *group) request(ctx context.Context, turn, i int, intended time.Time) end {
	id := g.id(i)
	m := g.connection(turn)
	o := one{intended: intended.Sub(g.begin), end: end{kind: failed}}
	if m != nil {
		o.client = m.client
		if g.Deadline > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, intended.Add(g.Deadline))
			defer cancel()
		}
		if g.GiveUp > 0 { // by no deadline, of which services would know
			var leave context.CancelFunc
			ctx, leave = context.WithCancel(ctx)
			defer leave()
			patience := time.Duration(rand.New(rand.NewPCG(id, 2)).ExpFloat64() * float64(g.GiveUp))
			defer time.AfterFunc(time.Until(intended.Add(patience)), leave).Stop()
		}
		var sent atomic.Int32
		o.end = g.attempts(context.WithValue(ctx, sentKey{}, &sent), m, id)
		o.attempts = int(sent.Load())
	}
	o.took = time.Since(intended)
	g.tally.add(o)
	return o.end
}

// id is the number from which the i-th request's work follows.
func (g *group) id(i int) uint64 {
	if g.Cycle > 0 {
		i %= g.Cycle
	}
	return mix(g.seed ^ mix(uint64(i)))
}

// connection returns the connection whose turn it is, nil if there is none yet.
func (g *group) connection(turn int) *member {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.conns) == 0 {
		return nil
	}
	return g.conns[turn%len(g.conns)]
}

// attempts makes a request until it is answered, or may not be sent again.
func (g *group) attempts(ctx context.Context, m *member, id uint64) end {
	chance := rand.New(rand.NewPCG(id, 1))
	ask := g.choose(chance.Float64())
	for try := 1; ; try++ {
		e := endOf(m.callers[ask.Service].call(ctx, ask.Method, id))
		if e.kind == served {
			g.earn()
		}
		if e.kind != refused || g.native() || try >= g.Retry.Attempts || !g.mayRetry(e) {
			return e
		}
		pause := e.pushback
		if g.Retry.Stubborn || pause < 0 {
			pause = time.Duration((0.5 + chance.Float64()) * float64(g.Retry.Backoff<<(try-1)))
		}
		if by, ok := ctx.Deadline(); ok && time.Until(by) <= pause {
			return e
		}
		if sleep(ctx, pause); ctx.Err() != nil {
			return e
		}
	}
}

// choose returns what is asked for at u of all weight.
func (g *group) choose(u float64) world.Target {
	u *= g.weights
	for _, ask := range g.Ask {
		if u -= ask.Weight; u < 0 {
			return ask.Target
		}
	}
	return g.Ask[len(g.Ask)-1].Target
}

// earn notes a success, a share of which may be retried.
func (g *group) earn() {
	if g.Retry.Budget <= 0 {
		return
	}
	const most = 10 // retries saved up, as gRPC's throttling has it
	g.mu.Lock()
	defer g.mu.Unlock()
	g.earned = min(g.earned+g.Retry.Budget, most)
}

// mayRetry reports whether a refused request may be sent again, and takes it off the
// budget.
func (g *group) mayRetry(e end) bool {
	if !e.reason.Retryable() && !g.Retry.Stubborn {
		return false
	}
	if g.Retry.Budget <= 0 {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.earned < 1 {
		return false
	}
	g.earned--
	return true
}
