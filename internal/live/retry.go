package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// longestPushback is the longest that a request waits to be sent again. A server
// that asks for more is down for whoever waits; what it says is not trusted to
// keep a caller without a deadline for a day.
const longestPushback = time.Minute

// Retries says which refused requests of a client are sent again. The zero value
// is ready and has an empty budget. Its methods may be called at once from any
// goroutine.
type Retries struct {
	mu     sync.Mutex
	budget credit.RetryBudget
}

// Earn notes a request that was answered without an error. It counts as a success
// unless the answer came too late to help: after the deadline of ctx, or after the
// objective of the server that answered, from the instant at which the caller meant to
// send. from is nil if the server is not known; a server that did not say its objective
// has none. The objective is the gate's: where a method has a longer one of its own,
// calls of it that take longer than the gate's earn nothing.
func (r *Retries) Earn(ctx context.Context, from *Server, began mono.Time) {
	if ctx.Err() != nil || from.objective() < Now().Sub(began) {
		return
	}
	r.mu.Lock()
	r.budget.Earn()
	r.mu.Unlock()
}

// Ask decides about a request made with ctx that was refused with shed. It
// returns work.None if the request may be sent again after shed.Pushback, which
// the budget has then paid for; otherwise why not: work.RetryBudget if the budget
// alone stands in the way, work.Infeasible if ctx ends before the pushback does or
// the pushback is above a minute,
// else the reason of the refusal, which is final: the server did not call it
// retryable, or the request was made while serving another. Only the edge of a
// system retries, or the attempts of its tiers would multiply.
func (r *Retries) Ask(ctx context.Context, shed wire.Shed) work.Reason {
	if !shed.Retryable || shed.Pushback < 0 || Serving(ctx) {
		if shed.Reason == work.None { // "refused, for a reason not told"
			return work.Downstream
		}
		return shed.Reason
	}
	if d, ok := ctx.Deadline(); shed.Pushback > longestPushback || ok && time.Until(d) <= shed.Pushback {
		return work.Infeasible
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.budget.Spend() {
		return work.RetryBudget
	}
	return work.None
}

// Pause waits for d, and reports false if ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ServingKey is the key to which the context of a request that a server works on
// answers with something other than nil. Edges of servers do, whatever protocol
// they speak, so that edges of clients know that they are not at the edge of the
// system.
type ServingKey struct{}

// RefusedBelow tells the request that ctx is of, if any, that a call made on its behalf was refused. A context that answers
// to ServingKey hears of it if what it answers with has a method RefusedBelow, whatever protocols the two speak.
func RefusedBelow(ctx context.Context) {
	if served, ok := ctx.Value(ServingKey{}).(interface{ RefusedBelow() }); ok {
		served.RefusedBelow()
	}
}

// UnsentBelow is RefusedBelow for a call that its client did not send, because of err. It does nothing if err is no
// refusal, or if the caller gave the call up while it waited.
func UnsentBelow(ctx context.Context, err error) {
	var r *Refusal
	if errors.As(err, &r) && r.Reason != work.Canceled {
		RefusedBelow(ctx)
	}
}

// Serving reports whether ctx is of a request that a server of this process works
// on.
func Serving(ctx context.Context) bool { return ctx.Value(ServingKey{}) != nil }
