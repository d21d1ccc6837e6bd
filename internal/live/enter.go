package live

import (
	"context"
	"errors"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Enter admits r, at once or after a wait, or refuses it with a *Refusal. A wait
// ends with ctx, and the refusal then wraps ctx's error. An admitted request must
// be followed by Leave, also when its handler panics. The deadline of r counts if
// it is sooner than that of ctx.
func (g *Gate) Enter(ctx context.Context, r Request) (*Ticket, error) {
	t := new(Ticket)
	if err := g.Admit(ctx, r, t); err != nil {
		return nil, err
	}
	return t, nil
}

// Admit is Enter for who has room for a ticket in something of his own, and allocates
// nothing for a request that need not wait. What t was before does not matter, but
// no request may be in a gate with it, and nobody may still mean that one by it, or by its Span: both are used again.
func (g *Gate) Admit(ctx context.Context, r Request, t *Ticket) error {
	turn := g.take(ctx, &r, t)
	return turn.Await(ctx)
}

// arrive is the middle of Arrive: the request is in the gate from now on, with the
// ticket t. It never waits.
func (g *Gate) arrive(now mono.Time, r *Request, t *Ticket, v *visit) {
	mode, room := Mode(g.mode.Load()), t.room // in the literal they would make a copy of it
	*t = Ticket{gate: g, mode: mode, verdict: admission.Run, room: room}
	if t.mode != Off {
		t.prepare(now, r)
	}
	if !g.mu.TryLock() {
		g.lock()
	}
	now = g.at(now)
	t.started = now
	g.lagUnderWay(now)
	if t.mode == Off && !g.closed {
		g.off++
		g.mu.Unlock()
		return
	}
	if t.core == nil {
		t.prepare(now, r)
	}
	if g.closed {
		t.closed = true
		t.verdict = admission.Shed
		g.mu.Unlock()
		return
	}
	if g.node.Described() || g.shares != nil || r.Process != 0 || r.Elapsed != (wire.Progress{}) {
		t.describe(now, r, v)
	}
	if g.tasks.on {
		t.kind = r.Kind
		if !g.tasks.readmit.Empty() {
			g.tasks.knock(now, r, t)
		}
	}
	if r.Token != (wire.Token{}) && !t.protected {
		token := r.Token
		t.shown = &token
	}
	if t.mode != Monitor {
		t.verdict = g.node.Arrive(now, t.core)
	} else if would, _ := g.node.Observe(now, t.core); would == admission.Shed {
		t.would = t.core.Reason()
		g.tallies.Would[t.would]++
		g.explain(now, t, true)
	}
	switch t.verdict {
	case admission.Shed:
		g.shed(now, t)
	case admission.Wait:
		t.wake = make(chan admission.Verdict, 1)
		fallthrough
	case admission.Run:
		if g.tasks.on {
			g.tasks.enter(t)
		}
	}
	g.finish(now)
}

// wait is what Await waits for.
func (t *Ticket) wait(ctx context.Context) *Refusal {
	g, verdict := t.gate, t.verdict
	if verdict == admission.Wait {
		select {
		case verdict = <-t.wake:
		case <-ctx.Done():
			cause := Ended(ctx)
			if t.giveUp(cause) {
				return g.refuse(t, t.core.Reason(), t.pushback, cause)
			}
			verdict = <-t.wake
		}
		t.started = t.core.Started()
	}
	if t.mode != Off && !t.closed {
		t.queued = t.core.Queued()
	}
	switch {
	case t.closed:
		return g.refuse(t, work.Draining, g.Objective(), nil)
	case verdict == admission.Shed:
		return g.refuse(t, t.core.Reason(), t.pushback, nil)
	}
	return nil
}

// giveUp takes a waiting ticket out of the queue, and reports false if it does
// not wait any more.
func (t *Ticket) giveUp(cause error) bool {
	g, reason := t.gate, work.Canceled
	if errors.Is(cause, context.DeadlineExceeded) {
		reason = work.Expired
	}
	g.mu.Lock()
	now := g.now()
	if !g.node.Refuse(now, t.core, reason) {
		g.mu.Unlock()
		return false
	}
	g.shed(now, t)
	g.finish(now)
	return true
}

// shed notes what the refusal of t will say. It is called with the lock held.
func (g *Gate) shed(now mono.Time, t *Ticket) {
	told := t.pushback
	t.reply(now)
	if t.core.Reason() == work.Culprit {
		t.pushback = told
	}
	g.tasks.refused(t)
	g.tasks.leave(t)
	g.tallies.Shed[t.core.Reason()]++
	t.refusal = g.explain(now, t, false)
}

// reply takes what the answer will say. It is called with the lock held.
func (t *Ticket) reply(now mono.Time) {
	var f baseline.Feedback
	t.gate.node.Reply(now, t.core, &f)
	if t.hasGrant = f.HasGrant; t.hasGrant {
		t.grant = f.Grant
	}
	if t.stint != nil {
		t.announce(f.Announces, f.Rate, f.HasRate)
	}
	if !f.Shed() {
		return
	}
	switch t.pushback = f.Pushback; {
	case t.pushback != 0: // else the policy does not say
	case f.Reason.Retryable():
		t.pushback = t.gate.Objective()
	default:
		t.pushback = -1
	}
}

func (g *Gate) refuse(t *Ticket, r work.Reason, pushback time.Duration, cause error) *Refusal {
	if observe := g.observe.Load(); observe != nil {
		(*observe)(Event{
			Reason: r, Enforced: true, Class: t.core.Class, Workflow: t.core.Workflow, Priority: t.core.Priority,
			Queued: max(t.core.Queued(), 0),
		})
	}
	refusal := &Refusal{ID: t.refusal, Reason: r, Pushback: pushback, Grant: t.grant, HasGrant: t.hasGrant, cause: cause}
	if t.stint != nil {
		refusal.announced = t.announced
	}
	return refusal
}
