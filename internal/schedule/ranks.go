package schedule

import "github.com/spillgate/spillgate/internal/work"

// ranks counts the tasks that wait in a leaf by their priorities, for Ahead. It is kept from the first task whose
// priority is not that of all others until the queue has been empty.
type ranks [1 << 8]int32

// rank counts t, which waits in n, with a priority.
func (n *node) rank(t *Task, p work.Priority) {
	if n.ranks == nil {
		n.ranks = new(ranks)
	}
	t.rank = p
	n.ranks[p]++
}

// unrank undoes rank.
func (n *node) unrank(t *Task) { n.ranks[t.rank]-- }

// mix begins to count priorities. It takes time linear in the number of waiting tasks.
func (q *Queue) mix() {
	q.mixed = true
	if q.cfg.Fair {
		for t := q.arrivals.head; t != nil; t = t.links[ofQueue].next {
			t.leaf.rank(t, q.standing(t).priority)
		}
		return
	}
	for class := range q.classes {
		for t := q.classes[class].ages.head; t != nil; t = t.links[ofLeaf].next {
			t.leaf.rank(t, q.standing(t).priority)
		}
	}
}

// preceding returns how many tasks of a leaf go before one of a priority, of which as many have turns no later than its
// own: those of a better priority, and of the same one as many as have such turns.
func (q *Queue) preceding(leaf *node, p work.Priority, due int) int {
	switch {
	case q.mixed:
	case p < q.plain.priority:
		return 0
	case p > q.plain.priority:
		return leaf.waiting // priority comes before turns
	default:
		return due
	}
	if leaf.ranks == nil { // nothing waited here since
		return 0
	}
	better := 0
	for _, n := range leaf.ranks[:p] {
		better += int(n)
	}
	return better + min(int(leaf.ranks[p]), due)
}

// Mixed reports whether tasks of several priorities wait, or did since the queue was empty.
func (q *Queue) Mixed() bool { return q.mixed }
