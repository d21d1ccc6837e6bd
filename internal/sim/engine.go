package sim

import "github.com/spillgate/spillgate/internal/mono"

// Engine orders the events of one world. Events are values of type E; without
// pointers in them the garbage collector never looks at them. The zero Engine is
// empty and its present is the origin. It is not safe for concurrent use; At and
// Next take O(log n), AlongLane takes constant time where its events come in
// order, and all allocate only while the queues grow.
type Engine[E any] struct {
	now  mono.Time
	seq  uint64
	done uint64
	heap []entry[E]
	// vacant says that the root of the heap was taken and nothing moved up yet: what
	// is scheduled next usually fills it, which saves a way down and a way up.
	vacant bool
	lanes  []lane[E]
	// firsts are when the first events of the lanes are due, beside each other because
	// they are looked at again and again; least is the lane whose is earliest.
	firsts []due
	least  int
}

// due is when an event is due, and its place among those of one instant.
type due struct {
	at  mono.Time
	seq uint64
}

func (a due) before(b due) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// empty is that of an empty lane: no event is at mono.Never.
var empty = due{at: mono.Never}

type entry[E any] struct {
	at    mono.Time
	seq   uint64
	event E
}

func (a *entry[E]) before(b *entry[E]) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// Lanes gives the engine n lanes, numbered from 0, before anything is scheduled.
func (e *Engine[E]) Lanes(n int) {
	e.lanes, e.firsts = make([]lane[E], n), make([]due, n)
	for i := range e.firsts {
		e.firsts[i] = empty
	}
}

// Now returns the present: the instant of the last event that Next returned.
func (e *Engine[E]) Now() mono.Time { return e.now }

// Len returns the number of events to come.
func (e *Engine[E]) Len() int {
	n := len(e.heap)
	if e.vacant {
		n--
	}
	for i := range e.lanes {
		n += e.lanes[i].n
	}
	return n
}

// Done returns how many events Next has returned.
func (e *Engine[E]) Done() uint64 { return e.done }

// At schedules event for instant t, or for the present if t is past. An event
// at mono.Never is dropped.
func (e *Engine[E]) At(t mono.Time, event E) {
	if t == mono.Never {
		return
	}
	e.seq++
	e.push(entry[E]{max(t, e.now), e.seq, event})
}

// AlongLane does what At does, and is faster if the events of a lane are mostly
// scheduled in the order of their instants, as those after a constant delay are.
// An event that is earlier than the last in its lane goes to the heap.
func (e *Engine[E]) AlongLane(number int, t mono.Time, event E) {
	if t == mono.Never {
		return
	}
	e.seq++
	item := entry[E]{max(t, e.now), e.seq, event}
	l := &e.lanes[number]
	switch {
	case l.n == 0:
		l.push(item)
		first := due{item.at, item.seq}
		e.firsts[number] = first
		if first.before(e.firsts[e.least]) {
			e.least = number
		}
	case l.last <= item.at:
		l.push(item)
	default:
		e.push(item)
	}
}

// Next advances the present to the earliest event and returns it. It returns
// false, and changes nothing, if there is none before end.
func (e *Engine[E]) Next(end mono.Time) (event E, ok bool) {
	e.fill()
	if len(e.lanes) > 0 {
		first := e.firsts[e.least]
		if len(e.heap) == 0 || first.before(due{e.heap[0].at, e.heap[0].seq}) {
			if first.at >= end {
				return event, false
			}
			e.now = first.at
			e.done++
			return e.leaveLane(), true
		}
	}
	if len(e.heap) == 0 || e.heap[0].at >= end {
		return event, false
	}
	e.vacant = true
	e.now = e.heap[0].at
	e.done++
	return e.heap[0].event, true
}

// Advance moves the present to t if that is later and no event lies between.
func (e *Engine[E]) Advance(t mono.Time) {
	e.fill()
	if len(e.heap) > 0 {
		t = min(t, e.heap[0].at)
	}
	if len(e.lanes) > 0 {
		t = min(t, e.firsts[e.least].at)
	}
	e.now = max(e.now, t)
}

// leaveLane takes the first event from the least lane and finds the next least.
func (e *Engine[E]) leaveLane() E {
	l, next := &e.lanes[e.least], empty
	event := l.first().event
	if l.pop(); l.n > 0 {
		next = due{l.first().at, l.first().seq}
	}
	e.firsts[e.least] = next
	least, first := 0, e.firsts[0]
	for i, f := range e.firsts[1:] {
		if f.before(first) {
			least, first = i+1, f
		}
	}
	e.least = least
	return event
}

// fill ends a vacancy that nothing filled.
func (e *Engine[E]) fill() {
	if !e.vacant {
		return
	}
	e.vacant = false
	last := len(e.heap) - 1
	item := e.heap[last]
	e.heap = e.heap[:last]
	if last > 0 {
		e.down(item)
	}
}

// push puts item into the heap.
func (e *Engine[E]) push(item entry[E]) {
	if e.vacant {
		e.vacant = false
		e.down(item)
		return
	}
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
