package admission

import (
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// crowds reports whether t is of a kind of which most outlive the objective, and its like hold half of the slots.
func (g *Gate) crowds(t *Ticket) bool {
	return t.Kind != nil && g.kinds.Full(g.limit.Limit()) && g.kinds.Crowds(t.Kind.Kind(), g.limit.Limit())
}

// begins notes that t holds a slot, if something is known of its kind.
func (g *Gate) begins(t *Ticket) {
	t.holds = true
	if t.Kind != nil && !g.kinds.Empty() {
		t.nature = g.kinds.Begin(t.Kind.Kind())
	}
}

// outlives notes that t, which holds a slot, has just outlived its objective.
func (g *Gate) outlives(t *Ticket) {
	if t.Kind != nil && g.lends {
		t.nature = g.kinds.Outlived(t.nature, t.Kind.Kind)
	}
}

// beside runs t at once, without a slot of the limit's, if it is of a kind of which most outlive the objective, and reports
// whether it did. Its like may be half as many as there are slots, until each has shown that it is long by nature.
func (g *Gate) beside(now mono.Time, t *Ticket) bool {
	if g.kinds.Empty() || t.Kind == nil || g.shaper != nil || g.draining || t.Barred != work.None || t.Budget(now) <= 0 {
		return false
	}
	name := t.Kind.Kind()
	if !g.kinds.Came(now, name, g.cfg.Objective) || g.kinds.Crowds(name, g.limit.Limit()) {
		return false
	}
	place, ok := g.limit.Beside(now)
	if !ok {
		return false
	}
	t.since = t.Arrived
	t.slot, t.lent, t.holds = place, true, true
	t.nature = g.kinds.Begin(name)
	t.scale = g.pace.scale
	g.enter(t)
	g.running.push(t, now.Add(t.objective(g.cfg.Objective)))
	return true
}

// kind names what t does, "" if nobody said.
func (t *Ticket) kind() string {
	if t.Kind == nil {
		return ""
	}
	return t.Kind.Kind()
}
