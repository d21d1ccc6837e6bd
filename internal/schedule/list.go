package schedule

// list is a line of tasks in the order of their arrival, threaded through one
// of their link pairs. which picks the pair.
type list struct {
	which      int
	head, tail *Task
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
	for prev != nil && t.older(prev) {
		prev = prev.links[l.which].prev
	}
	next := l.head
	if prev != nil {
		next = prev.links[l.which].next
	}
	t.links[l.which] = link{prev, next}
	l.join(prev, t)
	l.join(t, next)
}

// remove takes t out, which must be in l.
func (l *list) remove(t *Task) {
	k := t.links[l.which]
	l.join(k.prev, k.next)
	t.links[l.which] = link{}
}

// join makes a and b neighbours; nil is the end of the line.
func (l *list) join(a, b *Task) {
	if a == nil {
		l.head = b
	} else {
		a.links[l.which].next = b
	}
	if b == nil {
		l.tail = a
	} else {
		b.links[l.which].prev = a
	}
}
