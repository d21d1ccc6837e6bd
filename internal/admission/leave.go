package admission

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Answer says that the answer to a ticket that runs has begun. Should the ticket leave as work.Released
// its time up to here is a sample of the service, if sample says so. A second call does nothing.
func (g *Gate) Answer(now mono.Time, t *Ticket, sample bool) {
	if t.answered != 0 || t.state != running {
		return
	}
	t.answered, t.untimed = now, !sample
	if !t.lent {
		g.limit.Answer(now, &t.slot)
	}
}

// Leave returns the slot of a ticket that ran. A second call does nothing.
func (g *Gate) Leave(now mono.Time, t *Ticket, o work.Outcome) {
	if !t.End() {
		return
	}
	g.departs(now)
	if !t.lent {
		g.gone(t)
	}
	g.pass(now)
	g.running.remove(t)
	until, executed, sample := now, o.Executed(), g.sample(t)
	if o == work.Released {
		executed = t.answered != 0
		if sample = sample && executed && !t.untimed; executed {
			until = t.answered
		}
	}
	ran := until.Sub(t.started)
	took := g.pace.ran.value // where this one tells nothing
	if sample && !t.lent && o != work.Cancelled && (executed || float64(ran) > g.pace.ran.value) {
		g.pace.ran.add(float64(ran))
		took = float64(ran)
		all := until.Sub(t.since) - t.promised
		if g.cfg.Schedule.Order.ByDeadline() || t.overtaken {
			all = ran // to be overtaken is no doubt about how long a service takes
		}
		g.worth.add(g.pace.share(all, t.scale))
	}
	if !t.lent && g.pace.ran.value > 0 {
		g.usage.add(&t.senders, min(float64(ran)/g.pace.ran.value, longest)-1)
	}
	if sample {
		g.decide(now)
		if !t.slot.Beside() {
			held := ran
			if t.lent {
				held = t.due.Sub(t.started) // then it gave its slot back
			}
			g.lengths.held(t, held, g.queue.Len() > 0)
		}
	}
	if g.shaper != nil {
		used := ran
		if g.settling() || !sample {
			used = min(used, g.limit.Service()) // the rest is a queue that there should not have been
		}
		g.shaper.leave(now, t, o, used/time.Duration(g.limit.Limit()))
	}
	if !o.Executed() && o != work.Released && sample && !t.overdue && now >= t.useful(g.cfg.Objective) {
		g.outlives(t) // its caller gave up
		t.overdue = true
	}
	if t.nature != nil || sample {
		g.kinds.End(t.nature, t.kind, t.holds, t.overdue && (t.answered == 0 || t.answered > t.due), sample || t.lent)
	}
	g.free(now, t, o, sample)
	g.pace.follow(g.limit)
	busy := g.busy()
	g.filled.pass(now, g.part(busy), g.cfg.Objective)
	if !busy {
		g.demand.idle = now
	}
	if sample {
		g.pace.left(now, busy, g.cfg.Objective, took)
	} else {
		g.pace.busy, g.pace.last, g.pace.quiet = false, now, silence{last: now}
	}
	if g.hold.open && (g.hold.found || !g.hold.named) && !busy && g.aside.hopeful.Len() == 0 {
		g.release(now)
	}
	g.queue.Settle(&t.task, ran)
	g.tick(now)
}

// free returns the slot of t, which is a sample of the service or is none.
func (g *Gate) free(now mono.Time, t *Ticket, o work.Outcome, sample bool) {
	if o == work.Dropped {
		g.limit.Barren()
	}
	switch {
	case t.lent:
		g.limit.Repay(now, t.started, t.slot, o.Executed() || o == work.Released)
	case !sample:
		g.limit.Return(now, t.slot, o == work.Released)
	case o == work.Released:
		g.limit.Part(now, t.started.Add(-g.behind(now)), t.slot)
	default:
		g.limit.Release(now, t.started.Add(-g.behind(now)), t.slot, o.Executed())
	}
}

// settling reports whether more run than the limit allows, because it was lowered, or
// fewer than could, to learn from it: neither the queue nor how long they take tells what
// the server can do.
func (g *Gate) settling() bool { return g.limit.InUse() > g.limit.Limit() || g.limit.Trying() }

// here counts that t holds a slot, or waits in the queue. Whoever waits aside, or runs without a slot, takes nothing from
// others and does not count.
func (g *Gate) here(t *Ticket) {
	if t.Client == nil {
		g.unasked++
	}
}

// gone counts that t, which was here, is not any more.
func (g *Gate) gone(t *Ticket) {
	if t.Client == nil {
		g.unasked--
	}
}

// Ahead is Reply for an answer whose header goes before the ticket, which runs, leaves: it decides about the credits
// then, and Reply says nothing any more. It reports false for a ticket without a Client, and one that does not run.
func (g *Gate) Ahead(now mono.Time, t *Ticket, grant *wire.Grant) bool {
	if t.Client == nil || t.state != running || t.ahead {
		return false
	}
	t.ahead = true
	*grant = g.pool.Ahead(now, t.Client)
	if g.cfg.Schedule.Fair {
		grant.Part = g.pool.Part(t.Flow)
	}
	return true
}

// Reply returns the grant for the reply to t, and false if that carries none, as it would tell the
// client nothing new: see credit.Pool.Tells. It must be called once for every
// ticket that arrived and has a Client, whatever became of it, after Leave, Shed
// or Cancel; later calls return the zero Grant and false.
func (g *Gate) Reply(now mono.Time, t *Ticket) (grant wire.Grant, tells bool) {
	tells = g.ReplyTo(now, t, &grant)
	return grant, tells
}

// ReplyTo is Reply that writes to grant, and only if the reply carries it.
func (g *Gate) ReplyTo(now mono.Time, t *Ticket, grant *wire.Grant) (tells bool) {
	c := t.Client
	if c == nil || t.state != ended {
		return false
	}
	t.Client = nil
	if t.reason == work.Delay || t.reason == work.QueueFull || t.reason == work.Infeasible || t.pushed {
		g.pool.OnShed(c)
	}
	if t.ahead {
		g.pool.Left(now, c)
		return false
	}
	if !g.pool.Reply(now, c, t.reason != work.None && !t.observed, t.Asks, g.cfg.Schedule.Fair, grant) {
		return false
	}
	if g.cfg.Schedule.Fair {
		grant.Part = g.pool.Part(t.Flow)
	}
	return true
}
