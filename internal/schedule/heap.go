package schedule

import "github.com/spillgate/spillgate/internal/work"

// heap is a 4-ary heap of entries by value: the key lies beside its neighbours',
// and only ties look at the tasks. Every task knows its place in it, so that
// taking it out of the middle needs no search. which picks the place.
type heap struct {
	which   int
	entries []entry
}

// The heaps that a task can be in.
const (
	byOrder = iota
	byLoss  // of the hope to meet the deadline
	byTurn  // that has not come
	numHeaps
)

type entry struct {
	key      int64
	task     *Task
	priority work.Priority
}

func (a *entry) before(b *entry) bool {
	if a.priority != b.priority {
		return a.priority < b.priority
	}
	if a.key != b.key {
		return a.key < b.key
	}
	if a.task.turn != b.task.turn {
		return a.task.turn < b.task.turn
	}
	return a.task.older(b.task)
}

// first returns the best task, nil if there is none.
func (h *heap) first() *Task {
	if len(h.entries) == 0 {
		return nil
	}
	return h.entries[0].task
}

func (h *heap) push(e entry) {
	h.entries = append(h.entries, e)
	h.up(len(h.entries)-1, e)
}

// nowhere is the place of a task that is not in a heap.
const nowhere = -1

// remove takes t out if it is in h.
func (h *heap) remove(t *Task) {
	if i := t.places[h.which]; i != nowhere {
		h.take(t, i)
	}
}

// take takes out t, which is at i. It is apart so that remove can be inlined: most tasks are in one heap.
func (h *heap) take(t *Task, i int) {
	last := len(h.entries) - 1
	e := h.entries[last]
	h.entries[last] = entry{} // or it would keep a task from being collected
	h.entries = h.entries[:last]
	t.places[h.which] = nowhere // it may be pushed elsewhere, and into another heap there
	if i < last {
		h.put(i, e)
	}
}

// replace puts e in place of the task of another, which is in h.
func (h *heap) replace(t *Task, e entry) {
	i := t.places[h.which]
	t.places[h.which] = nowhere
	h.put(i, e)
}

// put places e at i, whose entry is gone, or wherever it belongs from there.
func (h *heap) put(i int, e entry) {
	if i > 0 && e.before(&h.entries[(i-1)/4]) {
		h.up(i, e)
	} else {
		h.down(i, e)
	}
}

func (h *heap) up(i int, e entry) {
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h.entries[parent]) {
			break
		}
		h.set(i, h.entries[parent])
		i = parent
	}
	h.set(i, e)
}

func (h *heap) down(i int, e entry) {
	for {
		least := 4*i + 1
		if least >= len(h.entries) {
			break
		}
		for c := least + 1; c < min(4*i+5, len(h.entries)); c++ {
			if h.entries[c].before(&h.entries[least]) {
				least = c
			}
		}
		if !h.entries[least].before(&e) {
			break
		}
		h.set(i, h.entries[least])
		i = least
	}
	h.set(i, e)
}

func (h *heap) set(i int, e entry) {
	h.entries[i] = e
	e.task.places[h.which] = i
}
