package admission

import (
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

// fewerWait is how many times as few requests of kinds that mostly outlive the objective may hold slots while such requests
// wait for each other: with fewer of them more are in time. Without this, up to 16 % of the answers are late beside a hot
// key, not 6 % (lab/worlds).
const fewerWait = 4

// long returns what is known of t's kind if most of that outlive the objective, and notes whether its like hold as much as
// they may.
func (g *Gate) long(now mono.Time, t *Ticket) *slots.Nature {
	if !g.kinds.Any() {
		return nil
	}
	n := g.kinds.Long(now, t.kind(), g.cfg.Objective)
	part := g.limit.Limit()
	if g.limit.Waits() {
		part /= fewerWait
	}
	t.crowds = n != nil && g.kinds.Full(n, part, 0)
	return n
}

// beside runs t at once, without a slot, if nearly all of its kind outlive the objective and its like hold less than they
// may, and reports whether it did. It takes no slot from others then, so no queue is a reason to refuse it. Where rates
// hold, they count it.
func (g *Gate) beside(now mono.Time, t *Ticket) bool {
	n := g.long(now, t)
	if !n.Natural() || t.crowds || g.shaper != nil || g.draining || t.Barred != work.None || t.Budget(now) <= 0 {
		return false
	}
	place, ok := g.limit.Beside(now)
	if !ok {
		return false
	}
	t.since, t.scale = t.Arrived, g.pace.scale
	t.slot, t.lent, t.holds, t.nature = place, true, true, n
	g.kinds.Join(n)
	g.usage.let(&t.senders)
	g.running.push(t, now.Add(t.objective(g.cfg.Objective)))
	return true
}

// begins notes that t holds a slot, if something is known of its kind.
func (g *Gate) begins(t *Ticket) {
	if t.holds = true; t.Kind != nil && !g.kinds.Empty() {
		t.nature = g.kinds.Begin(t.kind())
	}
}

// outlives notes that t, which holds a slot, has just outlived its objective. A stream whose answer has begun is in time.
func (g *Gate) outlives(t *Ticket) {
	if t.Kind != nil && g.lends && t.answered == 0 {
		t.nature = g.kinds.Outlived(t.nature, t.kind)
	}
}

// mayLend reports whether t, which has outlived its objective, gives its slot back at now. A kind that holds more than it may
// does so whatever else ends, or what came before it was known would hold every slot.
func (g *Gate) mayLend(now mono.Time, t *Ticket) bool {
	above := t.nature.Natural() && g.kinds.Full(t.nature, g.limit.Limit(), 1)
	return g.limit.Lend(now, t.started, t.slot, above)
}

// kind names what t does, "" if nobody said.
func (t *Ticket) kind() string {
	if t.Kind == nil {
		return ""
	}
	return t.Kind.Kind()
}
