package admission

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// NextWake returns the instant at which a waiting ticket becomes too old, or the
// pool must act on its own, or mono.Never.
func (g *Gate) NextWake() mono.Time {
	at := mono.Never
	if t := g.running.head; t != nil && g.lends {
		at = max(t.due+1, g.lendAt)
	}
	if g.pool.Wanted(g.demand.seen) {
		at = min(at, g.pool.NextWake())
	}
	if g.shaper != nil && g.shaper.adapter != nil {
		at = min(at, g.shaper.adapter.NextWake())
	}
	if g.Queueing() {
		at = g.turns(at)
	}
	return at
}

// turns returns when something that waits leaves or has a turn, if it is before at.
func (g *Gate) turns(at mono.Time) mono.Time {
	if len(g.pushed) > 0 {
		return g.pushed[0].started
	}
	if oldest := g.queue.Oldest(); oldest != nil {
		at = min(at, g.staleAt(oldest.Owner.(*Ticket)).Add(1), g.queue.NextWake())
	}
	if g.shaper != nil {
		at = min(at, g.shaper.nextWake())
	}
	return min(at, g.wakeAside())
}

// Queueing reports whether Next may return a ticket: not while nothing waits, as mostly.
func (g *Gate) Queueing() bool {
	return g.Waiting() > 0 || len(g.pushed) > 0 || g.shaper != nil && len(g.shaper.busy) > 0
}

// OnWake does what is due at now. Early, late and repeated calls are harmless.
// Call Next and Pool().NextGrant after it.
func (g *Gate) OnWake(now mono.Time) { g.tick(now) }

// noDelay is which part of TargetDelay, inverted, messages may wait for in sockets where nothing is queued: 1.2 ms of
// an objective of 100 ms. They wait for some microseconds in every process. With a quarter a fan-out in a spike did 14 %
// less.
const noDelay = 32

// tick does what is due at now. Mostly that is nothing.
func (g *Gate) tick(now mono.Time) {
	if head := g.running.head; g.pool.Due(now) || g.overdue > 0 || head != nil && now > head.due || g.shaper != nil && g.shaper.due(now) {
		g.act(now)
	}
}

// act is what tick does when something may be due.
func (g *Gate) act(now mono.Time) {
	g.lend(now)
	if g.shaper != nil {
		g.adapt(now)
	}
	if g.pool.Due(now) {
		if g.pool.Demand() > 0 && g.pool.Issued() >= g.pool.Total() {
			g.bound += min(now.Sub(g.ticked), 2*g.pool.Interval()) // a pool that rests binds nobody
		}
		g.ticked = now
		g.pool.Tolerate(g.tolerated())
		pressure := g.pressure(g.Delay(now))
		if pressure > g.cfg.TargetDelay && g.keeps(now) {
			pressure = g.cfg.TargetDelay // the credits keep their size too
		}
		if (pressure == 0 || g.queue.Len() == 0 && pressure <= g.cfg.TargetDelay/noDelay) && g.limit.Free() {
			g.pool.Fill(now, g.limit.Limit()-g.limit.InUse()) // to hold requests back would leave slots empty
		}
		g.pool.OnWake(now, pressure)
	}
}

// pressure is what the pool is told of a delay d: d itself, or more when the
// service takes so much of the objective that credits have to steer to a shorter
// queue than TargetDelay. The pool's target stays half of what the AQM refuses,
// or bursts would be refused all the time. While the limit is lower than it need be, to
// learn from it, the queue tells nothing about the demand.
func (g *Gate) pressure(d time.Duration) time.Duration {
	if target := max(min(g.cfg.MaxDelay, g.worth.strict)/2, 1); target < g.cfg.TargetDelay {
		d = time.Duration(float64(d) * float64(g.cfg.TargetDelay) / float64(target))
	}
	if g.limit.Trying() || g.hold.open {
		return min(d, g.cfg.TargetDelay) // at which the pool stays as it is
	}
	return d
}

// pass tells the limit how many of those that run have passed their objectives.
func (g *Gate) pass(now mono.Time) {
	first := g.running.next
	g.running.pass(now)
	for t := first; t != g.running.next; t = t.next {
		g.outlives(t)
	}
	if g.overdue > 0 || g.running.overdue > 0 {
		g.overdue = g.running.overdue
		g.limit.SetOverdue(g.overdue)
	}
}

// lend takes back the slots of requests that run for longer than the objective. NextWake
// names the instant, so that it does not depend on other events.
func (g *Gate) lend(now mono.Time) {
	if !g.lends {
		return
	}
	g.pass(now)
	for t := g.running.head; t != nil && now > t.due && now >= g.lendAt; t = g.running.head {
		if !g.mayLend(now, t) {
			g.lendAt = now.Add(g.cfg.Objective / 8) // ask again when others have ended
			return
		}
		if !t.lent { // else it runs beside
			g.gone(t)
		}
		t.lent = true
		g.running.remove(t)
		g.kinds.Lent(t.nature)
		t.holds = false
	}
}
