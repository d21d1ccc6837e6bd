package schedule

import "github.com/spillgate/spillgate/internal/mono"

// list is a line of tasks in the order of their arrival, threaded through one
// of their link pairs. which picks the pair.
type list struct {
	which      int
	head, tail *Task
	since      mono.Time // when head arrived, which is far away in memory
}

// The lists that a task is in while it waits.
const (
	ofQueue = iota
	ofLeaf
	numLists
)

type link struct{ prev, next *Task }

// insert puts t behind every older task. Tasks arrive in order but for
// those that were on their way for longer, so that this looks at few.
func (l *list) insert(t *Task) {
	prev := l.tail
	if prev == nil || !t.older(prev) { // as nearly always
		t.links[l.which] = link{prev: prev}
		if prev == nil {
			l.head, l.since = t, t.Arrived
		} else {
			prev.links[l.which].next = t
		}
		l.tail = t
		return
	}
	next := prev
	for prev = next.links[l.which].prev; prev != nil && t.older(prev); prev = next.links[l.which].prev {
		next = prev
	}
	t.links[l.which] = link{prev, next}
	if next.links[l.which].prev = t; prev == nil {
		l.head, l.since = t, t.Arrived
	} else {
		prev.links[l.which].next = t
	}
}

// remove takes t out, which must be in l.
func (l *list) remove(t *Task) {
	k := t.links[l.which]
	if k.next == nil {
		l.tail = k.prev
	} else {
		k.next.links[l.which].prev = k.prev
	}
	if k.prev != nil {
		k.prev.links[l.which].next = k.next
	} else if l.head = k.next; k.next != nil {
		l.since = k.next.Arrived
	}
	t.links[l.which] = link{}
}
