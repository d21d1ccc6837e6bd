package live

import (
	"context"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/wire"
)

// Turn is a request that is in the gate, from Arrive to Await, which must follow. It may
// pass from one goroutine to another in between, and is not copied after Await.
type Turn struct {
	ticket  *Ticket
	visit   *visit
	elapsed wire.Progress
	gone    bool // nobody waited for the answer when the request came
}

// Arrive is the first half of Admit, for an edge whose reading goroutine must not wait:
// the request is in the gate from now on, with the ticket t. It never waits.
func (g *Gate) Arrive(ctx context.Context, r Request, t *Ticket) Turn {
	return g.take(ctx, &r, t)
}

// take is Arrive for a request that need not be copied once more, and that it changes.
func (g *Gate) take(ctx context.Context, r *Request, t *Ticket) Turn {
	if d, ok := ctx.Deadline(); ok {
		if at := Instant(d); r.Deadline == 0 || at < r.Deadline {
			r.Deadline = at
		}
	}
	gone := ctx.Err() != nil
	now := Now()
	if gone {
		// Nobody waits for the answer: it has no budget, whatever its deadline.
		r.Deadline = now - 1
	}
	v := g.begin(ctx, now, r, t)
	g.arrive(now, r, t, v)
	g.lag.Load().poke(t.started)
	return Turn{ticket: t, visit: v, elapsed: r.Elapsed, gone: gone}
}

// Waits reports whether the request has to wait for a slot. If not, Await at most has
// the network looked at (WatchNetwork), where handlers are long.
func (u *Turn) Waits() bool { return u.ticket.verdict == admission.Wait }

// Shed reports whether the request is refused already: Await then does not wait.
func (u *Turn) Shed() bool { return u.ticket.verdict == admission.Shed }

// Await is the second half of Admit: it waits for the request's turn, and returns nil or
// the *Refusal. The wait ends with ctx.
func (u *Turn) Await(ctx context.Context) error {
	t := u.ticket
	g := t.gate
	if t.verdict == admission.Run && t.mode != Off {
		t.queued = t.core.Queued()
	} else if err := t.wait(ctx); err != nil {
		if u.gone {
			err.cause = Ended(ctx)
		}
		u.visit.refused(err, u.gone)
		return err
	}
	t.began = t.started
	if t.mode == Enforce && g.node.Gate() != nil && g.lag.Load().turn(t.started) {
		t.began = Now()
	}
	if t.stint != nil && (t.stay.Measured || u.visit != nil) {
		now := t.began
		if t.verdict == admission.Wait {
			now = Now()
		}
		t.span = &t.place
		t.span.begin(now, u.elapsed) // the waits in the gate are over
		if t.visit = u.visit; u.visit != nil {
			u.visit.admitted()
		}
	}
	return nil
}
