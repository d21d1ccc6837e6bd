package mesh

import "github.com/spillgate/spillgate/internal/mono"

// timer is the end of a caller's patience.
type timer struct {
	at  mono.Time
	id  int32
	gen int32
}

// armTimeout notes when c's caller loses patience. Patience is the same for all,
// so that timers end in the order in which they began.
func (w *World) armTimeout(c *call) {
	if w.cfg.Timeout < 0 {
		return
	}
	at := w.Now().Add(w.cfg.Timeout)
	if ctl := &w.cfg.Control; ctl.GiveUp && ctl.Cancel && c.root.deadline <= at {
		return // the client's deadline ends it before
	}
	w.timers.push(timer{at, c.id, c.gen})
	w.armTimers()
}

// runTimers ends the patience that is over.
func (w *World) runTimers() {
	now := w.Now()
	w.timers.armed = false
	for w.timers.len() > 0 && w.timers.first().at <= now {
		t := w.timers.pop()
		if c := w.calls[t.id]; c.gen == t.gen && c.open && c.phase != refused {
			w.timeoutAt(c)
		}
	}
	w.armTimers()
}

func (w *World) armTimers() {
	if !w.timers.armed && w.timers.len() > 0 {
		w.timers.armed = true
		w.engine.At(w.timers.first().at, event{kind: timeouts})
	}
}

// timers is a queue.
type timers struct {
	buf   []timer
	head  int
	armed bool // an event is scheduled for the first
}

func (q *timers) len() int      { return len(q.buf) - q.head }
func (q *timers) first() *timer { return &q.buf[q.head] }
func (q *timers) push(t timer)  { q.buf = append(q.buf, t) }

func (q *timers) pop() timer {
	t := q.buf[q.head]
	q.head++
	if q.head > 64 && q.head*2 > len(q.buf) {
		n := copy(q.buf, q.buf[q.head:])
		q.buf, q.head = q.buf[:n], 0
	}
	return t
}
