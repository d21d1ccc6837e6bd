package live

import (
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// finish delivers what a call to the node made due, releases the lock, and sends
// grants. It is called with the lock held.
func (g *Gate) finish(now mono.Time) {
	if g.handed.Load() != nil {
		now = g.takeOver(now)
	}
	if g.node.Queueing() {
		now = g.tell(now)
	}
	if at := g.node.NextWake(); at < g.armed && !g.closed {
		g.arm(now, at)
	}
	if !g.node.Granting() {
		g.mu.Unlock()
		return
	}
	g.deliver()
}

// tell has what waits, and leaves, hear its verdict. It returns the instant of the last. It is called with the
// lock held, and may release it for a moment.
func (g *Gate) tell(now mono.Time) mono.Time {
	for verdicts := 1; ; verdicts++ {
		t, v := g.node.Next(now)
		if t == nil {
			return now
		}
		waiter := t.Owner.(*Ticket)
		if v == admission.Shed {
			g.shed(now, waiter)
		}
		waiter.wake <- v // never blocks: one verdict a ticket
		if verdicts%verdictsHeld == 0 {
			g.mu.Unlock() // the rest is as due for the next call, or for this one
			g.mu.Lock()
			now = g.now()
		}
	}
}

// deliver releases the lock, with which it is called, and sends grants.
func (g *Gate) deliver() {
	c, grant, ok := g.node.NextGrant()
	if !ok {
		g.mu.Unlock()
		return
	}
	first := delivery{c.Owner, grant}
	var more []delivery
	for c, grant, ok = g.node.NextGrant(); ok; c, grant, ok = g.node.NextGrant() {
		more = append(more, delivery{c.Owner, grant})
	}
	g.mu.Unlock()
	first.send()
	for _, d := range more {
		d.send()
	}
}

// verdictsHeld is how many waiting requests are told of their verdicts while the lock is
// held: when the deadline of 10,000 passes at once, that takes 5 ms, and arrivals would
// wait for all of it.
const verdictsHeld = 64

// delivery is a grant on its way to a client's notify.
type delivery struct {
	owner any
	grant wire.Grant
}

func (d delivery) send() {
	if c, ok := d.owner.(*Client); ok && c.notify != nil {
		c.notify(d.grant)
	}
}

// arm starts the timer, as the node must be woken at an instant before it would fire.
func (g *Gate) arm(now, at mono.Time) {
	g.armed = at
	g.timer.Reset(max(at.Sub(now), 0))
}

func (g *Gate) onTimer() {
	g.mu.Lock()
	now := g.now()
	if g.closed {
		g.mu.Unlock()
		return
	}
	g.armed = mono.Never
	g.lagUnderWay(now)
	g.node.OnWake(now)
	questions := g.questions(now)
	g.finish(now)
	for _, ask := range questions {
		ask()
	}
}
