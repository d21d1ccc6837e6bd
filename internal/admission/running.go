package admission

// runList is the tickets that run and hold a slot, in the order in which they
// started, threaded through the tickets. The zero runList is empty.
type runList struct{ head, tail *Ticket }

// push puts t, which starts now, at the end.
func (l *runList) push(t *Ticket) {
	t.prev, t.next = l.tail, nil
	if l.tail == nil {
		l.head = t
	} else {
		l.tail.next = t
	}
	l.tail = t
}

// remove takes t out. It does nothing if t is not in the list.
func (l *runList) remove(t *Ticket) {
	if t.prev == nil && l.head != t {
		return
	}
	if t.prev == nil {
		l.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
}
