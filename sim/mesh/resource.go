package mesh

import (
	"time"

	"github.com/spillgate/spillgate/mono"
)

// resource is what calls at one process contend for.
type resource struct {
	process  *process
	number   int32
	capacity int32
	inUse    int32
	queue    queue
	// use is the time for which units were taken, by work and by holds.
	use time.Duration
}

// queue orders the calls that wait for a resource.
type queue interface {
	push(now mono.Time, c *call)
	// pop takes out the next; drop says that it is not worth running.
	pop(now mono.Time) (c *call, drop bool)
	remove(c *call)
	len() int
}

// line is the queue that serves in order of arrival.
type line struct {
	head, tail *call
	n          int
}

func (l *line) len() int { return l.n }

func (l *line) push(_ mono.Time, c *call) {
	c.qPrev, c.qNext = l.tail, nil
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.qNext = c
	}
	l.tail = c
	l.n++
}

func (l *line) pop(mono.Time) (*call, bool) {
	c := l.head
	if c != nil {
		l.remove(c)
	}
	return c, false
}

func (l *line) remove(c *call) {
	if c.qPrev == nil {
		l.head = c.qNext
	} else {
		c.qPrev.qNext = c.qNext
	}
	if c.qNext == nil {
		l.tail = c.qPrev
	} else {
		c.qNext.qPrev = c.qPrev
	}
	c.qPrev, c.qNext = nil, nil
	l.n--
}

// acquire takes a unit for c, or lets it wait.
func (w *World) acquire(c *call, r *resource) bool {
	if r.inUse < r.capacity && r.queue.len() == 0 {
		r.inUse++
		return true
	}
	c.state, c.waits = inQueue, r
	r.queue.push(w.Now(), c)
	return false
}

// free gives a unit back that was taken at since, and serves who waits.
func (w *World) free(r *resource, since mono.Time) {
	r.inUse--
	r.use += w.Now().Sub(since)
	w.serve(r)
}

// serve gives free units to those who wait.
func (w *World) serve(r *resource) {
	for r.inUse < r.capacity {
		c, drop := r.queue.pop(w.Now())
		if c == nil {
			return
		}
		c.waits = nil
		if drop {
			c.state = resuming
			w.hopeless(c)
			continue
		}
		r.inUse++
		w.granted(c, r)
	}
}

// granted lets c go on with a unit of r, which it waited for.
func (w *World) granted(c *call, r *resource) {
	if s := &w.program.steps[c.pc]; s.kind == stepWork {
		w.beginWork(c, s)
		return
	}
	w.keep(c, r)
	c.pc++
	c.state = resuming
	w.engine.At(w.Now(), event{resume, c.id, c.gen})
}

// keep notes a hold.
func (w *World) keep(c *call, r *resource) {
	h := w.freeHolds
	if h == nil {
		h = &hold{}
	} else {
		w.freeHolds = h.next
	}
	*h = hold{r, w.Now(), c.holds}
	c.holds = h
}

// letGo ends c's newest hold of r.
func (w *World) letGo(c *call, r *resource) {
	for at := &c.holds; *at != nil; at = &(*at).next {
		if h := *at; h.resource == r {
			*at = h.next
			since := h.since
			h.next, w.freeHolds = w.freeHolds, h
			w.free(r, since)
			return
		}
	}
}
