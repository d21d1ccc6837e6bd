package admission

import (
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// Queue is a line of waiting tickets threaded through the tickets themselves,
// for a policy that stands where a Gate can stand and decides otherwise. The
// zero Queue is empty. Every call takes constant time and does not allocate.
type Queue struct {
	head, tail *Ticket
	len        int
}

// Len returns the number of waiting tickets.
func (q *Queue) Len() int { return q.len }

// Head returns the ticket that has waited longest, nil if none waits.
func (q *Queue) Head() *Ticket { return q.head }

// Tail returns the ticket that has waited shortest, nil if none waits.
func (q *Queue) Tail() *Ticket { return q.tail }

// Push puts t, which began and neither waits nor runs, at the end.
func (q *Queue) Push(t *Ticket) {
	t.state, t.prev, t.next = waiting, q.tail, nil
	if q.tail == nil {
		q.head = t
	} else {
		q.tail.next = t
	}
	q.tail = t
	q.len++
}

// Remove takes t out, from wherever it stands. It reports false and does nothing
// if t does not wait. A ticket of another queue must not be passed.
func (q *Queue) Remove(t *Ticket) bool {
	if t.state != waiting {
		return false
	}
	if t.prev == nil {
		q.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		q.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.state, t.prev, t.next = fresh, nil, nil
	q.len--
	return true
}

// The rest of this file is what a policy other than Gate notes on a ticket, so
// that drivers read every policy's tickets alike.

// Begin makes t new again, as Gate.Arrive does first: it has no reason, waits for
// nothing, and arrived at now unless Arrived says earlier.
func (t *Ticket) Begin(now mono.Time) {
	if t.Arrived == 0 || t.Arrived > now {
		t.Arrived = now
	}
	t.state, t.reason, t.started, t.plain, t.ahead, t.observed = fresh, work.None, now, t.Client == nil, false, false
	t.since, t.promised, t.pushed, t.spared, t.overtaken, t.aside = now, 0, false, false, false, nil
	t.answered, t.untimed, t.length, t.nature, t.crowds, t.holds, t.lent = 0, false, nil, nil, false, false, false
}

// Start notes that t runs from now on.
func (t *Ticket) Start(now mono.Time) Verdict {
	t.state, t.started = running, now
	return Run
}

// Refuse notes that t was refused at now for r.
func (t *Ticket) Refuse(now mono.Time, r work.Reason) Verdict {
	t.state, t.reason, t.started = ended, r, now
	return Shed
}

// End notes that t has left. It reports false if t did not run, or has left
// already: there is no slot to return then.
func (t *Ticket) End() bool {
	if t.state != running {
		return false
	}
	t.state = ended
	return true
}

// Started returns the instant at which the ticket began to run, or was refused.
func (t *Ticket) Started() mono.Time { return t.started }
