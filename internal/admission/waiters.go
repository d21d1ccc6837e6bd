package admission

// waiters is the tickets that wait for a slot, in no order, so that some of them can be looked
// at. The zero waiters is empty.
type waiters struct {
	tickets []*Ticket
	looked  int // the place of the one that was looked at last
}

func (w *waiters) push(t *Ticket) {
	t.place = len(w.tickets)
	w.tickets = append(w.tickets, t)
}

// remove takes out t, which is one of them.
func (w *waiters) remove(t *Ticket) {
	last := len(w.tickets) - 1
	moved := w.tickets[last]
	w.tickets[t.place], moved.place = moved, t.place
	w.tickets[last] = nil
	w.tickets = w.tickets[:last]
}

// next returns one ticket after the other, again from the start at the end. There must be
// one.
func (w *waiters) next() *Ticket {
	if w.looked++; w.looked >= len(w.tickets) {
		w.looked = 0
	}
	return w.tickets[w.looked]
}
