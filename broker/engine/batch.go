package engine

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Batch is what one read of one connection brings: everything in it has one
// arrival time, and each subscriber is written to once for all of it. A
// connection has one Batch and uses it again and again, from one goroutine.
type Batch struct {
	hub        *Hub
	stamp, now mono.Time
	dirty      []*Outbox
	tallies    []tally
	direct     uint32 // messages to topics without a limit
	handed     int    // messages, and deliveries of them, since it began
	taken      int    // messages that were taken since it began
	turned     int    // messages that found as many waiting as may
	full       *lane  // the first whose queue was; nil: it was the log, or another node

	// waiting is how many messages of this connection wait, in all lanes: what comes
	// after must not overtake them.
	waiting atomic.Int32
}

// tally is what a batch delivered under one limit.
type tally struct {
	rule    *rule
	direct  uint32 // without a wait
	refused [numVerdicts]uint32
	waits   []wait
}

// wait is how long a message waited for its token, and for the timer afterwards.
type wait struct{ access, late time.Duration }

// NewBatch returns a batch for a connection.
func (h *Hub) NewBatch() *Batch { return &Batch{hub: h} }

// Begin starts a batch whose messages arrived at stamp, which is taken to be
// between now less maxStampAge and now.
func (b *Batch) Begin(stamp mono.Time) {
	now := b.hub.now()
	b.begin(min(max(stamp, now.Add(-maxStampAge)), now), now)
}

// maxStampAge is the oldest arrival that is believed: a clock that was set may
// otherwise claim any.
const maxStampAge = 100 * time.Millisecond

func (b *Batch) begin(stamp, now mono.Time) {
	b.stamp, b.now, b.handed, b.taken, b.turned, b.full = stamp, now, 0, 0, 0, nil
}

const (
	// longestRest is how long at most a connection is left unread whose last batch was futile. Its bytes are read then as well, several
	// messages at a time, and as old as may be told apart (maxStampAge).
	longestRest = maxStampAge * 4 / 5
	// blindRest is that where it is not known when there is room again.
	blindRest = longestRest / 10
	// spread is by what part a rest is longer or shorter, by chance: or connections that begin to rest together are read together each time.
	spread = 0.2
)

// rest returns for how long from now a connection is left unread after a futile batch.
func (b *Batch) rest(now mono.Time) time.Duration {
	d := blindRest
	if b.full != nil {
		d = b.full.rest(now)
	}
	return time.Duration((1 - spread + 2*spread*rand.Float64()) * float64(d))
}

// futile reports whether the batch had messages and all of them found as many waiting as may (QueueFull): then the next ones will, too, and
// reading each takes processor time from others.
func (b *Batch) futile() bool { return b.turned > 0 && b.taken == 0 }

// foundFull notes that a message found the queue of l full.
func (b *Batch) foundFull(l *lane) {
	if b.full == nil {
		b.full = l
	}
}

// long notes a message with some subscribers, and reports, once a batch, that this batch becomes a long one.
func (b *Batch) long(subscribers int) bool {
	before := b.handed
	b.handed += 1 + subscribers
	return before <= crowd && b.handed > crowd
}

// Now returns the instant at which the batch began.
func (b *Batch) Now() mono.Time { return b.now }

// Publish sends m on its way and says what became of it. Its Source knows the
// message as id.
func (b *Batch) Publish(m *Message, id uint16) Verdict {
	v := Went
	m.Topic.used.Store(int64(b.now))
	switch l := m.Topic.lane.Load(); {
	case m.Topic.away.Load():
		v = b.divert(m, id)
	case l != nil:
		v = l.publish(b, m, id)
	default:
		if v = b.hub.release(b, m, id); v != QueueFull {
			b.direct++
		}
	}
	m.drop()
	if v == QueueFull {
		b.turned++
	} else {
		b.taken++
	}
	return v
}

// divert sends m to a node that has a part of its topic's bucket.
func (b *Batch) divert(m *Message, id uint16) Verdict {
	switch {
	case !b.hub.cfg.Divert.Divert(b, m, id):
		return QueueFull
	case m.QoS > 0:
		return Waits
	}
	return Went
}

// Deliver hands a message that another node has released, or that the log has
// stored, to those who subscribe here. It takes no token and goes no further.
func (b *Batch) Deliver(m *Message) {
	if m.Expires > b.now {
		b.hub.deliver(b, m)
	}
	m.drop()
}

// End writes to every subscriber with messages to send, and enters what was
// measured.
func (b *Batch) End() {
	b.flush()
	if b.direct == 0 && len(b.tallies) == 0 {
		return
	}
	now := b.hub.now()
	took, late := now.Sub(b.stamp), now.Sub(b.now)
	if b.direct > 0 {
		b.hub.rest.enter(&tally{direct: b.direct}, took, late)
		b.direct = 0
	}
	for i := range b.tallies {
		t := &b.tallies[i]
		t.rule.stats.enter(t, took, late)
		*t = tally{waits: t.waits[:0]}
	}
	b.tallies = b.tallies[:0]
}

// EndRead is End for a batch that r read. A client whose messages are all refused is read less often: TCP tells it so.
func (b *Batch) EndRead(r interface{ Rest(d time.Duration) }) {
	b.End()
	if b.futile() {
		r.Rest(b.rest(b.hub.now()))
	}
}

// flush writes to every subscriber with messages to send. The readers of other connections that are ready may have more for
// one that was written to a moment ago: they go first, and one write takes what all of them have.
func (b *Batch) flush() {
	busy := b.dirty[:0]
	for _, o := range b.dirty {
		if o.busy(b.now) {
			busy = append(busy, o)
			continue
		}
		o.Flush()
	}
	if len(busy) > 0 {
		runtime.Gosched()
	}
	for _, o := range busy {
		o.Flush()
	}
	clear(b.dirty)
	b.dirty = b.dirty[:0]
}

// tally returns the tally of r.
func (b *Batch) tally(r *rule) *tally {
	for i := range b.tallies {
		if b.tallies[i].rule == r {
			return &b.tallies[i]
		}
	}
	n := len(b.tallies)
	if n < cap(b.tallies) {
		b.tallies = b.tallies[:n+1] // with the memory of an earlier one
	} else {
		b.tallies = append(b.tallies, tally{})
	}
	b.tallies[n].rule = r
	return &b.tallies[n]
}

func (b *Batch) refused(r *rule, v Verdict) { b.tally(r).refused[v]++ }

func (t *tally) wait(access, late time.Duration) { t.waits = append(t.waits, wait{access, late}) }
