package admission

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// changed is how long, in objectives, credits stay out that were granted before a server became
// slower: a second where the objective is 200 ms.
const changed = 5

// half of an overload is where what has spent its objective elsewhere is refused although a slot is free: see spent.
const half = 0.5

// judge returns why t is refused on arrival, if it is. With room, it may push out another request for it.
func (g *Gate) judge(now mono.Time, t *Ticket, room bool) work.Reason {
	switch {
	case g.draining:
		return work.Draining
	case t.Barred != work.None:
		return t.Barred
	case t.Budget(now) <= 0:
		return work.Expired
	case g.queue.Len() >= g.cfg.QueueLimit && (t.Attempt > 0 || !(room && g.makeRoom(now, t, true))):
		return work.QueueFull
	case g.cfg.NoAQM:
		return work.None
	case t.crowds:
		return work.Share
	}
	var expected time.Duration
	if g.busy() {
		expected = g.Expect(now, t)
	}
	if expected == 0 {
		g.demand.idle = now
	}
	wait := now.Sub(t.Arrived) + expected
	t.promised = wait
	if t.Attempt > 0 {
		if g.yields(now, t, wait, expected > 0) && !g.keeps(now) {
			return work.Delay
		}
	} else {
		g.demand.pass()
	}
	if t.Client != nil && t.plain && (expected > 0 || g.pool.Demand() > t.Client.Demand()) {
		// Beyond its grant. A free slot belongs to the clients that wait for a grant.
		return work.Share
	}
	if g.spent(now, t, wait) && (expected > 0 || g.overload(now) >= half) && !g.keeps(now) {
		if t.Attempt == 0 {
			g.demand.refuse()
		}
		return g.missed(t)
	}
	if wait <= 0 {
		return work.None
	}
	if r := g.tooLong(t, wait, expected > 0); r != work.None && !g.keeps(now) {
		g.demand.refuse()
		g.pool.OnDelay(g.pressure(wait))
		wait -= time.Duration(g.pace.gap.value)
		if late := wait > t.useful(g.cfg.Objective).Sub(t.Arrived)-g.worth.hope; late || expected == 0 || !room || !g.makeRoom(now, t, false) {
			return r
		}
		t.promised = wait // with one less ahead
		return work.None
	}
	if t.Client == nil && expected > 0 && wait > g.cfg.TargetDelay/2 && g.crowded() && !g.keeps(now) {
		return work.Share
	}
	return work.None
}

// yields reports whether a retry that would wait so long is refused in favour of fresh
// requests, which have more of their objectives left. The heavier the overload, the shorter
// a retry may wait; in a full overload it may not wait at all. A free slot serves a retry,
// too. Retries and their refusals are no sign of overload: first attempts are the load.
func (g *Gate) yields(now mono.Time, t *Ticket, wait time.Duration, queued bool) bool {
	return queued && float64(wait) > (1-g.overload(now))*float64(g.maxDelay(t))
}

// tooLong returns why a request with an expected wait above 0 is refused, if it is. While a slot is
// free, no request is refused for its deadline by estimate: if the estimate were too high,
// nothing would run to correct it.
func (g *Gate) tooLong(t *Ticket, wait time.Duration, queued bool) work.Reason {
	most := g.maxDelay(t)
	if !queued {
		most = max(most, max(g.cfg.Objective-g.worth.need, 0)/2)
	}
	switch {
	case wait > most:
		return work.Delay
	case !queued || g.cfg.Schedule.Order.ByDeadline():
		return work.None // who has little time left goes first, and what is lost leaves the queue
	}
	budget := t.useful(g.cfg.Objective).Sub(t.Arrived)
	if budget >= g.cfg.Objective || wait <= g.worth.worthwhile(budget, g.worth.overload.of(t.leaves(g.cfg.Objective))) {
		return work.None
	}
	return g.missed(t)
}

// spent reports whether t would likely be late after a wait, because a part of its objective was over before it was sent: at
// its client, or in earlier attempts. In an overload, and where it would have to wait, it would take the place of a request that
// can be in time. Of the answers of 1,000 random services 0.16 ± 0.05 % more were late without this rule, and the goodput was
// lower by 0.11 ± 0.09 %. What was sent at once is never refused for this estimate, however long it lay in a socket, so the
// estimate is corrected if it is too high. Where the order is by deadline, who has little time left need not wait.
func (g *Gate) spent(now mono.Time, t *Ticket, wait time.Duration) bool {
	if g.cfg.Schedule.Order.ByDeadline() {
		wait = now.Sub(t.Arrived)
	}
	return t.Waited > g.unseen(now) && t.useful(g.cfg.Objective).Sub(t.Arrived)-wait < g.worth.credited // see begin
}

// missed is why a request is refused that would be late: for its caller, or for the objective alone.
func (g *Gate) missed(t *Ticket) work.Reason {
	if t.Deadline > t.useful(g.cfg.Objective) {
		return work.Delay
	}
	return work.Infeasible
}

// crowded reports whether clients without credits, taken together, have half of the
// gate beside clients with credits. A queue of their requests would take the credits of
// the clients that wait for one.
func (g *Gate) crowded() bool {
	return g.pool.Clients() > 0 && 2*g.unasked >= g.queue.Len()+g.limit.InUse()
}

// maxDelay is the expected wait beyond which t is refused on arrival.
func (g *Gate) maxDelay(t *Ticket) time.Duration {
	if t.leaves(g.cfg.Objective) {
		return min(g.cfg.MaxDelay, g.worth.leaving)
	}
	return min(g.cfg.MaxDelay, g.worth.wait)
}

// Late reports whether an answer at now comes too late for t, which arrived: after the
// deadline of its caller or after the objective.
func (g *Gate) Late(now mono.Time, t *Ticket) bool { return now > t.useful(g.cfg.Objective) }

// stale returns why t has waited too long to be of use, if it has.
func (g *Gate) stale(now mono.Time, t *Ticket) work.Reason {
	switch {
	case g.cfg.NoAQM || now <= g.staleAt(t) || g.spare(now, t) || g.keeps(now) && t.Budget(now) > g.worth.hope:
		return work.None
	case t.Budget(now) <= g.worth.hope:
		return work.Infeasible
	}
	return work.Delay
}

// staleAt is the last instant at which t may still start: later its answer would
// likely miss its deadline or the objective. While others wait behind it, the time is
// better spent on one of them. While processors are short it is not, because a late
// refusal costs as much as an answer.
func (g *Gate) staleAt(t *Ticket) mono.Time {
	need := g.worth.hope
	switch {
	case g.queue.Len() <= 1 || g.limit.Useful() > 0 || t.spared:
	case t.plain || g.pace.slowed(changed*g.cfg.Objective): // the credits are those of a faster server
		need = g.worth.need
	default:
		need = g.worth.credited
	}
	objective := t.objective(g.cfg.Objective)
	at := t.task.Arrived.Add(max(objective-t.Waited-need, objective/16))
	if g.hold.open {
		at = max(at, g.hold.until)
		need = g.worth.hope
	}
	if t.Deadline != mono.Never {
		at = min(at, t.Deadline.Add(-need))
	}
	return at
}

// late is why a request was dropped that cannot meet its deadline.
func late(now, deadline mono.Time) work.Reason {
	if deadline <= now {
		return work.Expired
	}
	return work.Infeasible
}
