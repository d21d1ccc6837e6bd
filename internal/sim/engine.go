package sim

import "github.com/spillgate/spillgate/internal/mono"

// Engine orders the events of one world. Events are values of type E; without
// pointers in them the garbage collector never looks at the heap. The zero
// Engine is empty and its present is the origin. It is not safe for concurrent
// use; At and Next take O(log n) and allocate only while the heap grows.
type Engine[E any] struct {
	now  mono.Time
	seq  uint64
	heap []entry[E]
	done uint64
}

type entry[E any] struct {
	at    mono.Time
	seq   uint64
	event E
}

func (a *entry[E]) before(b *entry[E]) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// Now returns the present: the instant of the last event that Next returned.
func (e *Engine[E]) Now() mono.Time { return e.now }

// Len returns the number of events to come.
func (e *Engine[E]) Len() int { return len(e.heap) }

// Done returns how many events Next has returned.
func (e *Engine[E]) Done() uint64 { return e.done }

// At schedules event for instant t, or for the present if t is past. An event
// at mono.Never is dropped.
func (e *Engine[E]) At(t mono.Time, event E) {
	if t == mono.Never {
		return
	}
	e.seq++
	item := entry[E]{max(t, e.now), e.seq, event}
	e.heap = append(e.heap, item)
	// Up: parents move down until the place of item is found.
	h := e.heap
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if h[parent].before(&item) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = item
}

// Next advances the present to the earliest event and returns it. It returns
// false, and changes nothing, if there is none before end.
func (e *Engine[E]) Next(end mono.Time) (event E, ok bool) {
	if len(e.heap) == 0 || e.heap[0].at >= end {
		return event, false
	}
	first := e.heap[0]
	last := len(e.heap) - 1
	item := e.heap[last]
	e.heap = e.heap[:last]
	if last > 0 {
		e.down(item)
	}
	e.now = first.at
	e.done++
	return first.event, true
}

// Advance moves the present to t if that is later and no event lies between.
func (e *Engine[E]) Advance(t mono.Time) {
	if len(e.heap) > 0 {
		t = min(t, e.heap[0].at)
	}
	e.now = max(e.now, t)
}

// down puts item in place of the root.
func (e *Engine[E]) down(item entry[E]) {
	h := e.heap
	i := 0
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(h)); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if item.before(&h[least]) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = item
}
