package schedule

import (
	"math"
	"time"
)

// Kind is what is known of for how long a task will hold the resource. In FIFO, tasks that hold it for longer do not crowd
// out those that hold it for less: see kinds. In other orders it counts for nothing.
type Kind struct {
	// Group is the number of the tasks that hold the resource for about as long, 1 for the shortest, at most MaxGroup.
	// 0 is unknown, and such a task is never put behind.
	Group int
	// Length is for how long tasks of this kind hold the resource, in the mean.
	Length time.Duration
}

// MaxGroup is the most groups of kinds that are told apart; longer ones are in the last.
const MaxGroup = 8

// kinds has the tasks of a leaf in one line for each group. The line whose first task has the first turn is next, but for two
// things:
//
//	behind   a group, but for the shortest, that had more than an equal part of the time that groups had which waited meanwhile
//	too far  a turn that is more than reach ahead
//
// If each first task is behind or too far the first turn is next, so the resource is never idle. A longer group has what it has
// in the order of arrival, as long as that is no more than an equal part. The shortest has the rest.
//
// Turns of senders come first: one that asks in many ways has as many turns as one that asks in one, because no task of a turn
// that is too far goes before one whose turn has come. When the leaf is empty all is forgotten.
type kinds struct {
	lines [MaxGroup + 1]kindLine
	mean  float64 // time that a task took which was served, ns
}

// kindLine is the tasks of one group.
type kindLine struct {
	order   heap
	waiting int
	time    time.Duration // that they will take
	over    time.Duration // that the group had beyond an equal part
}

const (
	// reach is how many turns early a task may be served for the sake of its kind: a sender has no more than so many at the
	// cost of others, once.
	reach = 16 * ARound
	// mostOver is for how many of its tasks a group is put behind at most, for what it had while hardly anything else waited.
	mostOver = 4
	// servedMemory is over how many tasks the mean time is smoothed.
	servedMemory = 64
)

// measure notes which group t, which is about to wait, is in.
func (q *Queue) measure(t *Task) {
	if t.group = 0; q.cfg.Order == FIFO && t.Kind.Group > 0 {
		t.group = min(t.Kind.Group, MaxGroup)
	}
	if t.length = t.Kind.Length; t.group == 0 || t.length <= 0 {
		t.length = max(t.Cost, 1)
	}
	t.length = min(t.length, maxUse>>20) // a million of them can be added
}

// Group returns the group of t's kind that counts while it waits, or did when it was pushed last: 0 in an order other than FIFO.
func (t *Task) Group() int { return t.group }

// joinKinds counts t, which is about to wait in the leaf n, and begins to keep lines if what waits there is of another group.
func (n *node) joinKinds(t *Task) {
	if n.waiting == 0 {
		n.group, n.several = t.group, false
		return
	}
	if !n.several && t.group != n.group {
		n.split()
	}
	if n.several {
		n.kinds.count(t, 1)
	}
}

// split begins to keep lines. All that waits is in the heap, because it is not plain any more.
func (n *node) split() {
	if n.kinds == nil {
		n.kinds = new(kinds)
	}
	for g := range n.kinds.lines {
		l := &n.kinds.lines[g]
		*l = kindLine{order: heap{which: byOrder, entries: l.order.entries}} // empty, with its memory
	}
	n.kinds.mean, n.several = 0, true
	for _, e := range n.order.entries {
		n.kinds.lines[e.task.group].order.push(e)
		n.kinds.count(e.task, 1)
	}
	clear(n.order.entries) // or it would keep tasks from being collected
	n.order.entries = n.order.entries[:0]
}

// count adds t, n is 1, or takes it away, n is -1.
func (k *kinds) count(t *Task, n int) {
	l := &k.lines[t.group]
	l.waiting += n
	l.time += time.Duration(n) * t.length
}

// lineOf returns the heap of a leaf that t is in.
func (n *node) lineOf(t *Task) *heap {
	if n.several {
		return &n.kinds.lines[t.group].order
	}
	return &n.order
}

// shortest returns the shortest group of which tasks wait, or that of g if that is shorter.
func (k *kinds) shortest(g int) int {
	for s := 1; s < len(k.lines); s++ {
		if k.lines[s].waiting > 0 || s == g {
			return s
		}
	}
	return len(k.lines)
}

// first returns the task that is next.
func (k *kinds) first(r *rota) *Task {
	var first *entry
	shortest, late := k.shortest(0), false
	for g := range k.lines {
		l := &k.lines[g]
		if len(l.order.entries) == 0 {
			continue
		}
		e := &l.order.entries[0]
		behind := g > shortest && l.over > 0 || r != nil && Turn(e.key) > r.now+reach
		switch {
		case first == nil, e.priority < first.priority:
		case e.priority > first.priority, behind && !late, behind == late && !e.before(first):
			continue
		}
		first, late = e, behind
	}
	return first.task
}

// early reports whether a task waits whose turn is before that of t.
func (k *kinds) early(t *Task) bool {
	for g := range k.lines {
		if e := k.lines[g].order.entries; len(e) > 0 && Turn(e[0].key) < t.turn {
			return true
		}
	}
	return false
}

// serve counts t, which waits and is about to be served.
func (k *kinds) serve(t *Task) {
	groups := 0
	for g := range k.lines {
		groups += min(k.lines[g].waiting, 1)
	}
	own := &k.lines[t.group]
	own.over += t.length
	for g := range k.lines {
		l := &k.lines[g]
		l.over = max(l.over-t.length/time.Duration(groups), 0)
	}
	own.over = min(own.over, mostOver*t.length)
	if k.mean == 0 {
		k.mean = float64(t.length)
	}
	k.mean += (float64(t.length) - k.mean) / servedMemory
}

// aheadOf returns how many tasks of the mean length take as long as those of n that are served before one of a kind that
// is pushed now. Of all that wait, so many have turns no later than its own.
func (n *node) aheadOf(of Kind, due int) int {
	g := min(max(of.Group, 0), MaxGroup)
	if !n.several {
		if g > 0 && n.group > g {
			return min(due, 1)
		}
		return due
	}
	k, part := n.kinds, float64(due)/float64(n.waiting)
	shortest := k.shortest(g)
	own := float64(k.lines[g].time) * part
	equal, total := own+float64(of.Length), own
	for h := range k.lines {
		l := &k.lines[h]
		if h == g || l.waiting == 0 {
			continue
		}
		time := float64(l.time) * part
		switch {
		case h > shortest:
			time = min(time, equal) // it has no more meanwhile
		case g > shortest && h > 0:
			time = max(time, equal) // it has at least as much
		}
		total += time
	}
	mean := k.mean
	if mean == 0 {
		for g := range k.lines {
			mean += float64(k.lines[g].time)
		}
		mean /= float64(n.waiting)
	}
	return int(math.Ceil(total / mean))
}
