package admission

// crowds reports whether t is of a kind of which most outlive the objective, and its like hold half of the slots.
func (g *Gate) crowds(t *Ticket) bool {
	return t.Kind != nil && g.kinds.Full(g.limit.Limit()) && g.kinds.Long(t.Kind.Kind())
}

// begins notes that t holds a slot, if something is known of its kind.
func (g *Gate) begins(t *Ticket) {
	if t.Kind != nil && !g.kinds.Empty() {
		t.nature = g.kinds.Begin(t.Kind.Kind())
	}
}

// outlives notes that t, which outlived its objective, has given its slot back.
func (g *Gate) outlives(t *Ticket) {
	if t.Kind != nil {
		t.nature = g.kinds.Outlived(t.nature, t.Kind.Kind)
	}
}
