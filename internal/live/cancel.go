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
var ErrCancelled = errors.New("spillgate: cancelled, because others wait for what this request holds")

// Watch returns the context for the handler of an admitted request, which ends when
// the gate cancels the request: context.Cause is then an ErrCancelled. Without
// culprits to cancel it is ctx itself, and costs nothing. done, which is not nil, ends
// the context; it is called when the handler has returned. Watch is called once,
// before the handler.
func (t *Ticket) Watch(ctx context.Context) (watched context.Context, done func()) {
	if t.id == 0 { // only the goroutine of the request sets it, before
		return ctx, func() {}
	}
	if !t.gate.cancels {
		return ctx, func() {}
	}
	watched, cancel := context.WithCancelCause(ctx)
	t.gate.mu.Lock()
	if t.id != 0 {
		t.cancel = cancel
	}
	t.gate.mu.Unlock()
	return watched, func() { cancel(nil) }
}

// Cancelled returns what to tell the client of a request that was cancelled while it
// ran, nil if it was not. After it, the request is not cancelled any more. Edges call it
// when the handler has returned, before Leave. The refusal's Resend has the token with
// which the request is let in again.
func (t *Ticket) Cancelled() *Refusal {
	g := t.gate
	if !g.tasks.on {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t.cancel = nil
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
	if t == nil || t.cancel == nil || t.cancelled || t.protected {
		return nil, nil
	}
	t.cancelled = true
	t.rare = &rare{}
	g.node.Mark(now, t.core)
	t.rare.resend = wire.Resend{Token: token, After: g.tasks.readmit.Issue(now, token, t.fingerprint(), background(t.core.Priority))}
	tell = t.cancel
	return tell, t
}

// cause is what the handler reads.
func cause(resource string) error {
	if resource == "" {
		return ErrCancelled
	}
	return fmt.Errorf("%w: %s", ErrCancelled, resource)
}
