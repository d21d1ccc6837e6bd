package live

import (
	"context"
	"errors"
	"fmt"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// ErrCancelled is the cause, to errors.Is, of the context of a request that was
// cancelled because others waited for what it held.
var ErrCancelled = errors.New("spillgate: cancelled because this request blocks others")

// Watch returns the context for the handler of an admitted request, which ends when
// the gate cancels the request: context.Cause is then an ErrCancelled. Without
// culprits to cancel it is ctx itself, and the second result is false. Watch is called once,
// before the handler, and Unwatch when the handler has returned.
func (t *Ticket) Watch(ctx context.Context) (context.Context, bool) {
	if t.id == 0 || !t.gate.cancels { // only the goroutine of the request sets id, before
		return ctx, false
	}
	t.handler.Begin(ctx)
	t.hears.Store(listens)
	return &t.handler, true
}

// Unwatch ends the context that Watch returned, if Watch made one.
func (t *Ticket) Unwatch() {
	if t.handler.parent != nil {
		t.handler.Cancel(nil)
	}
}

// What a handler hears of its cancel. listens is left without the lock of the gate, once: by the
// finder, which then cancels the request, or by the edge, after which nothing can cancel it.
const (
	deaf    uint32 = iota // it is not told, or not any more
	listens               // it is told if the request is cancelled
	told                  // it has been told, or is about to be
)

// Cancelled returns what to tell the client of a request that was cancelled while it
// ran, nil if it was not. After it, the request is not cancelled any more. Edges call it
// when the handler has returned, before Leave. The refusal's Resend has the token with
// which the request is let in again.
func (t *Ticket) Cancelled() *Refusal {
	g := t.gate
	if !g.cancels || t.hears.CompareAndSwap(listens, deaf) {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t.hears.Store(deaf)
	if !t.cancelled {
		return nil
	}
	return &Refusal{Reason: work.Culprit, Pushback: -1, Resend: t.rare.resend, cause: ErrCancelled}
}

// cancelOf marks the request with an id as cancelled and returns what tells its
// handler. It is called with the lock held.
func (g *Gate) cancelOf(now mono.Time, id uint64, token wire.Token) (tell func(error), t *Ticket) {
	for t = g.tasks.head; t != nil && t.id != id; t = t.next {
	}
	if t == nil || t.cancelled || t.protected || !t.hears.CompareAndSwap(listens, told) {
		return nil, nil
	}
	t.cancelled = true
	t.rare = &rare{}
	g.node.Mark(now, t.core)
	t.rare.resend = wire.Resend{Token: token, After: g.tasks.readmit.Issue(now, token, t.fingerprint(), background(t.core.Priority))}
	return t.handler.Cancel, t
}

// cause is what the handler reads.
func cause(resource string) error {
	if resource == "" {
		return ErrCancelled
	}
	return fmt.Errorf("%w: %s", ErrCancelled, resource)
}
