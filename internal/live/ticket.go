package live

import (
	"cmp"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Ticket is the right to run one request, from Enter or Admit to Leave. It must not be
// copied.
type Ticket struct {
	core   *admission.Ticket // nil once it has left, if it never waited
	gate   *Gate
	*stint // nil unless workflows matter
	task
	mode     Mode
	verdict  admission.Verdict // on arrival
	closed   bool              // the gate was
	hasGrant bool
	left     bool
	would    work.Reason
	wake     chan admission.Verdict
	started  mono.Time
	began    mono.Time // the handler
	queued   time.Duration
	grant    wire.Grant
	pushback time.Duration
	refusal  RefusalID
	parting  parting
	room     *stint // that of the request before, if t is used again
}

// prepare gives t its ticket of the core, with what r says. Nobody else knows t yet, so the lock is not needed.
func (t *Ticket) prepare(now mono.Time, r *Request) {
	c, _ := t.gate.spares.Get().(*admission.Ticket)
	if c == nil {
		c = new(admission.Ticket)
	}
	c.Request = r.Request
	c.Arrived = r.Arrived
	c.Waited, c.Objective, c.Kind = r.Waited, r.Objective, r.Kind
	c.Owner = t
	c.Source, c.Peer, c.Whom = r.Sender.source, r.Sender.peer, r.Sender.whom
	if r.Client != nil && r.Client.account != nil {
		// An account is of one client, by however many connections.
		c.Client, c.Source = r.Client.account, 0
	}
	switch g := t.gate; {
	case c.Deadline == 0:
		c.Deadline = mono.Never
	case g.urgent && r.Untrusted && c.Deadline > now:
		// Its context still ends at its own deadline.
		c.Deadline = max(c.Deadline, now.Add(cmp.Or(r.Objective, g.Objective())))
	}
	t.core = c
}

// recycle keeps the core's ticket of a request that has left for another one. One that has
// waited is in nobody's queue any more, and yet not as new; those are left to the
// garbage collector.
func (t *Ticket) recycle() {
	if t.verdict != admission.Run {
		return
	}
	c := t.core
	t.core = nil
	c.Owner, c.Client, c.Arrived, c.Barred = nil, nil, 0, work.None
	c.Flow, c.Remaining, c.Total, c.Done, c.Least, c.From, c.Claim, c.Mark, c.Stay = 0, 0, 0, 0, 0, 0, 0, 0, nil
	t.gate.spares.Put(c)
}

// Began returns when the handler of an admitted request could begin.
func (t *Ticket) Began() mono.Time { return t.began }

// Waited reports whether the request had to wait for a slot. If not, Queued tells of the way to the gate alone.
func (t *Ticket) Waited() bool { return t.verdict == admission.Wait }

// Queued returns how long the request waited for its turn.
func (t *Ticket) Queued() time.Duration { return t.queued }

// Would returns why the request would have been refused that a gate with mode Monitor let
// in, work.None if it would not.
func (t *Ticket) Would() work.Reason { return t.would }

// Grant returns the credits for the reply, after Leave; false for a client that
// has no account.
func (t *Ticket) Grant() (wire.Grant, bool) { return t.grant, t.hasGrant }

// Begun says that the answer has begun. Should it go on for so long that the slot comes back
// before its end (work.Released), the slot was not used from here on, and with sample the time up to here says how long such
// work takes: the client did not have the handler wait before. Calls at once from several
// goroutines are allowed; only the first counts.
func (t *Ticket) Begun(sample bool) {
	g, now := t.gate, Now()
	g.lock()
	now = g.at(now)
	if t.left || t.mode == Off {
		g.mu.Unlock()
		return
	}
	g.node.Answer(now, t.core, sample)
	g.finish(now)
}

// Leave returns the ticket's slot and says how the request ended. Work that is Done
// after the deadline of its caller, or after the objective, is Late. Only the first
// call counts; calls at once from several goroutines are allowed.
func (t *Ticket) Leave(o work.Outcome) {
	g, now := t.gate, Now()
	if !g.leave(t, now, o) || t.mode == Off {
		return
	}
	o = t.parting.outcome
	observe := g.observe.Load()
	var event Event
	if observe != nil {
		event = Event{
			Reason: t.core.Reason(), Enforced: t.mode == Enforce, Class: t.core.Class, Workflow: t.core.Workflow,
			Priority: t.core.Priority, Outcome: o, Queued: t.queued, Service: now.Sub(t.started), Reach: t.parting.reach,
		}
		if o == work.Cancelled {
			event.Reason, event.Enforced = work.Culprit, true
		}
	}
	t.recycle()
	if t.traced.now.Load() != nil || g.tracing.Load() != nil {
		t.traced.end()
	}
	if t.stint != nil && t.visit != nil {
		t.visit.end(t, now, o)
	}
	if observe != nil {
		(*observe)(event)
	}
}

// depart tells the node that t leaves at now, and reports false if it has before. It is called with the lock
// held.
func (t *Ticket) depart(now mono.Time, o work.Outcome) bool {
	g := t.gate
	if t.left || t.mode != Off && !t.core.Running() {
		return false
	}
	t.left = true
	if t.mode == Off {
		g.off--
		return true
	}
	g.lagUnderWay(now)
	if t.cancelled {
		o = work.Cancelled
	} else {
		o, t.parting.reach = g.node.End(now, t.core, o)
	}
	if t.Span() != nil && o.Executed() && !t.failed.Load() {
		took := t.span.end(now)
		g.node.Took(now, t.core, took, o)
		if t.visit != nil {
			t.visit.took(took)
		}
	}
	g.node.Leave(now, t.core, o)
	t.reply(now)
	g.tallies.Served[o]++
	g.tasks.ended(t, o)
	g.tasks.leave(t)
	if lag := g.lag.Load(); lag != nil {
		lag.turns.ran(now.Sub(t.began))
	}
	t.parting.outcome = o
	return true
}
