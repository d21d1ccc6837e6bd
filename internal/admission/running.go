package admission

import "github.com/spillgate/spillgate/internal/mono"

// runList is the tickets that run and hold a slot, in the order in which their
// objectives end, threaded through the tickets: where all have the gate's, that is the
// order in which they started. The zero runList is empty.
type runList struct {
	head, tail *Ticket
	// overdue tickets, at the head, have run for longer than their objectives; next is the
	// one after them.
	overdue int
	next    *Ticket
}

// pass counts the tickets whose objectives have ended by now.
func (l *runList) pass(now mono.Time) {
	for ; l.next != nil && now > l.next.due; l.next = l.next.next {
		l.next.overdue = true
		l.overdue++
	}
}

// push puts t, whose objective ends at due, in its place. It goes past those that run
// with so much longer an objective, of which there are fewer than slots.
func (l *runList) push(t *Ticket, due mono.Time) {
	t.due, t.overdue = due, false
	before := l.tail
	for before != nil && before.due > due {
		before = before.prev
	}
	t.prev, t.next = before, l.head
	if before == nil {
		l.head = t
	} else {
		t.next = before.next
		before.next = t
	}
	if t.next == nil {
		l.tail = t
	} else {
		t.next.prev = t
	}
	if t.next == l.next {
		l.next = t
	}
}

// remove takes t out. It does nothing if t is not in the list.
func (l *runList) remove(t *Ticket) {
	if t.prev == nil && l.head != t {
		return
	}
	if t.overdue {
		l.overdue--
	} else if l.next == t {
		l.next = t.next
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
