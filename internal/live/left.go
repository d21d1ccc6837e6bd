package live

// Left reports whether the ticket's slot was given back, by whomever.
func (t *Ticket) Left() bool {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	return t.left
}
