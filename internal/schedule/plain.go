package schedule

import (
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// plain says what all waiting tasks have in common, so that one structure serves where
// two would be kept. In FIFO with one priority the line of a leaf is the order, and no
// heap is. In EDF and LSTF, with one priority and the same time from the key to the
// loss, the first in the order of a leaf is also its first to be lost. The heap of losses
// then is empty without Fair, as there are but two leaves, and has the first task of each
// leaf with it. The first task with something else of its own ends it, until the queue
// has been empty.
type plain struct {
	holds    bool
	priority work.Priority
	group    int
	offset   int64 // of the loss from the key, unknown before a task has a deadline
}

const unknown = -1

// one reports whether the order of q may do with one structure at all. With Senders some tasks are not in the order yet.
func (c *Config) one() bool {
	return c.Order == FIFO || c.Order.ByDeadline() && c.Senders == 0
}

// admit keeps q plain with t, which is about to wait, or ends that.
func (q *Queue) admit(t *Task) {
	if q.len == 0 {
		q.plain, q.mixed = plain{holds: q.cfg.one(), priority: t.Priority, group: t.group, offset: unknown}, false
	}
	if !q.mixed && (t.lent || t.Priority != q.plain.priority) {
		q.mix()
	}
	if q.plain.holds && !q.conforms(t) {
		q.spread()
	}
}

func (q *Queue) conforms(t *Task) bool {
	if t.lent || t.Priority != q.plain.priority || t.group != q.plain.group {
		return false
	}
	if q.cfg.Order == FIFO {
		return q.cfg.Senders == 0 || t.lastIn(&t.leaf.ages)
	}
	key, lost := q.cfg.Order.key(t), int64(t.lost())
	if lost == int64(mono.Never) {
		return key == lost
	}
	offset := lost - key
	if q.plain.offset == unknown && (offset == 0 || offset == 1) && lost >= key {
		q.plain.offset = offset
	}
	return offset == q.plain.offset && lost >= key
}

// lastIn reports whether the turn of t is last where its arrival is, behind those that wait in l.
func (t *Task) lastIn(l *list) bool {
	return l.tail == nil || t.Arrived >= l.tail.Arrived && t.turn >= l.tail.turn
}

// spread gives all waiting tasks their places in both structures. It takes time linear
// in their number.
func (q *Queue) spread() {
	q.plain.holds = false
	switch {
	case q.cfg.Order == FIFO:
	case q.cfg.Fair:
		for t := q.arrivals.head; t != nil; t = t.links[ofQueue].next {
			if t.places[byLoss] == nowhere {
				q.expect(t)
			}
		}
		return
	default:
		for class := range q.classes {
			for t := q.classes[class].ages.head; t != nil; t = t.links[ofLeaf].next {
				q.expect(t)
			}
		}
		return
	}
	for class := range q.classes {
		q.classes[class].heapLine(q)
		for _, leaf := range q.flows[class] {
			if leaf != nil {
				leaf.heapLine(q)
			}
		}
	}
}

// heapLine puts the line of a leaf into its heap. It is in order already.
func (n *node) heapLine(q *Queue) {
	for t := n.ages.head; t != nil; t = t.links[ofLeaf].next {
		s := q.standing(t)
		n.order.push(entry{s.key, t, s.priority})
	}
}

// lineOnly reports whether leaves need no heap.
func (q *Queue) lineOnly() bool { return q.plain.holds && q.cfg.Order == FIFO }

// firstsOnly reports whether the heap of losses has the first task of each leaf alone.
func (q *Queue) firstsOnly() bool { return q.plain.holds && q.cfg.Fair && q.cfg.Order != FIFO }

// follow has the heap of losses follow the order of a leaf, where another task has become the first, if it has the first
// tasks alone. was is the first before, nil if none waited there.
func (q *Queue) follow(leaf *node, was *Task) {
	if !q.firstsOnly() {
		return
	}
	first, at := leaf.order.first(), int64(mono.Never)
	if first != nil {
		at = leaf.order.entries[0].key
	}
	listed := was != nil && was.places[byLoss] != nowhere
	switch {
	case listed && at != int64(mono.Never):
		q.losses.replace(was, entry{key: at + q.plain.offset, task: first})
	case listed:
		q.losses.remove(was)
	case at != int64(mono.Never):
		q.losses.push(entry{key: at + q.plain.offset, task: first})
	}
}

// expect notes when t will be lost.
func (q *Queue) expect(t *Task) {
	if at := t.lost(); at != mono.Never {
		q.losses.push(entry{key: int64(at), task: t})
	}
}

// losing returns the task that is lost first, and when; nil and mono.Never if none is.
func (q *Queue) losing() (*Task, mono.Time) {
	if !q.plain.holds || q.cfg.Fair || q.cfg.Order == FIFO {
		if len(q.losses.entries) == 0 {
			return nil, mono.Never
		}
		return q.losses.entries[0].task, mono.Time(q.losses.entries[0].key)
	}
	var first *Task
	at := mono.Never
	for class := range q.classes {
		h := q.classes[class].order.entries
		if len(h) == 0 || h[0].key == int64(mono.Never) {
			continue
		}
		t, lost := h[0].task, mono.Time(h[0].key+q.plain.offset)
		if lost < at || lost == at && first != nil && t.older(first) {
			first, at = t, lost
		}
	}
	return first, at
}
