package nsq

import (
	"container/heap"
	"strings"
	"sync"
	"time"

	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// channelKey names a channel.
type channelKey struct{ topic, name string }

// channel is a queue of one topic's messages, each of which goes to one consumer.
// The engine calls Deliver under a lane's lock, so a channel that holds its own lock
// does not call the engine.
type channel struct {
	srv       *Server
	key       channelKey
	ephemeral bool
	on        *engine.Subscription
	from      *source     // nil: the hub delivers all of it
	by        string      // the user that has made it
	expires   *time.Timer // while there are no consumers; guarded by the server's lock
	users     int         // connections that joined; guarded by the server's lock

	mu        sync.Mutex
	closed    bool
	slots     []*message // by the upper half of their identifiers
	free      []uint32
	serial    uint32
	ready     []*message // those from first on wait for a consumer
	first     int
	due       dueHeap // those deferred or in flight
	held      int     // messages
	bytes     int
	consumers []*conn
	turn      int
	timer     *time.Timer
	armed     mono.Time
}

// message is a message in a channel.
type message struct {
	kept     *engine.Kept
	drawn    *backplane.Drawn // nil: the hub has delivered it
	id       uint64
	stamp    int64 // ns since 1970
	attempts uint16
	to       *conn     // in flight there; nil: it waits or is deferred
	due      mono.Time // when a deferred one is ready, or one in flight late
	sent     mono.Time
	at       int // in the heap
}

// dueHeap has the message that is due first in front.
type dueHeap []*message

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) { m := x.(*message); m.at = len(*h); *h = append(*h, m) }

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return m
}

func newChannel(srv *Server, key channelKey) *channel {
	ch := &channel{srv: srv, key: key, ephemeral: strings.HasSuffix(key.name, ephemeral), armed: mono.Never}
	ch.on = &engine.Subscription{Who: ch, QoS: 1}
	ch.timer = time.AfterFunc(time.Hour, ch.ring)
	ch.timer.Stop()
	return ch
}

// Online implements engine.Subscriber.
func (ch *channel) Online() bool { return true }

// Released implements engine.Source; a channel publishes nothing.
func (ch *channel) Released(*engine.Batch, *engine.Message, uint16) {}

// Deliver takes a message, or drops it where the channel holds as many as it may.
func (ch *channel) Deliver(b *engine.Batch, m *engine.Message, _ *engine.Target) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch l := &ch.srv.limits; {
	case ch.closed, !ch.fits(m):
		return
	case ch.held >= l.Queue, ch.held > 0 && ch.bytes+len(m.Payload) > l.QueueBytes:
		ch.srv.dropped.Add(dropQueue)
		return
	}
	ch.enter(m)
	ch.pump(b)
}

// fits reports whether a message is one of NSQ. The lock is held, as in all that follows without one.
func (ch *channel) fits(m *engine.Message) bool {
	ok := len(m.Payload) > 0 && len(m.Payload) <= ch.srv.limits.Message
	if !ok {
		ch.srv.dropped.Add(dropSize) // NSQ has no empty messages, and larger ones come by other protocols
	}
	return ok
}

// enter makes a message ready.
func (ch *channel) enter(m *engine.Message) *message {
	at := uint32(len(ch.slots))
	if n := len(ch.free); n > 0 {
		at = ch.free[n-1]
		ch.free = ch.free[:n-1]
	} else {
		ch.slots = append(ch.slots, &message{})
	}
	ch.serial++
	one := ch.slots[at]
	*one = message{kept: m.Keep(), id: uint64(at)<<32 | uint64(ch.serial), stamp: time.Now().UnixNano()}
	ch.held++
	ch.bytes += len(m.Payload)
	ch.ready = append(ch.ready, one)
	return one
}

// leave forgets a message that is neither ready nor due.
func (ch *channel) leave(m *message) {
	ch.held--
	ch.bytes -= len(m.kept.Payload)
	m.kept.Release()
	ch.free = append(ch.free, uint32(m.id>>32))
	*m = message{}
}

// pump sends what waits, as far as consumers are ready.
func (ch *channel) pump(b *engine.Batch) {
	for ch.first < len(ch.ready) && ch.send(b, ch.ready[ch.first]) {
		ch.ready[ch.first] = nil
		ch.first++
	}
	switch {
	case ch.first == len(ch.ready):
		ch.ready, ch.first = ch.ready[:0], 0
	case ch.first > len(ch.ready)/2 && ch.first > 64:
		ch.ready = append(ch.ready[:0], ch.ready[ch.first:]...)
		ch.first = 0
	}
	ch.arm(b.Now())
	ch.hungry()
}

// send sends a message to the next consumer that takes it.
func (ch *channel) send(b *engine.Batch, m *message) bool {
	for i := range ch.consumers {
		c := ch.consumers[(ch.turn+i)%len(ch.consumers)]
		if c.flying >= c.ready {
			continue
		}
		buf, ok := c.out.Lock(frameSize+messageHead+len(m.kept.Payload), false)
		if !ok {
			continue
		}
		m.attempts = min(m.attempts, 1<<16-2) + 1
		c.out.Unlock(b, appendMessage(buf, m.stamp, m.attempts, m.id, m.kept.Payload))
		ch.turn = (ch.turn + i + 1) % len(ch.consumers)
		c.flying++
		m.to, m.sent, m.due = c, b.Now(), b.Now().Add(c.timeout)
		heap.Push(&ch.due, m)
		return true
	}
	return false
}

// arm sets the timer for what is due first.
func (ch *channel) arm(now mono.Time) {
	if len(ch.due) > 0 && ch.due[0].due < ch.armed && !ch.closed {
		ch.armed = ch.due[0].due
		ch.timer.Reset(max(ch.armed.Sub(now), 0))
	}
}

// ring makes ready what is due, on the timer's goroutine.
func (ch *channel) ring() {
	b := ch.srv.hub.NewBatch()
	now := live.Now()
	b.Begin(now)
	defer b.End()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.armed = mono.Never
	for len(ch.due) > 0 && ch.due[0].due <= now && !ch.closed {
		ch.again(ch.due[0])
	}
	ch.pump(b)
}

// again takes a message out of flight, or of those deferred, and makes it ready.
func (ch *channel) again(m *message) {
	heap.Remove(&ch.due, m.at)
	if m.to != nil {
		m.to.flying--
		m.to = nil
	}
	ch.ready = append(ch.ready, m)
}

// flight returns the message of an identifier that is in flight at c, nil if none
// is.
func (ch *channel) flight(c *conn, text []byte) *message {
	id, ok := parseID(text)
	at := id >> 32
	if !ok || at >= uint64(len(ch.slots)) {
		return nil
	}
	if m := ch.slots[at]; m.id == id && m.to == c {
		return m
	}
	return nil
}

// finish forgets a message that a consumer has done with. It reports false if the
// consumer has no such message.
func (ch *channel) finish(b *engine.Batch, c *conn, id []byte) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	m := ch.flight(c, id)
	if m == nil {
		return false
	}
	heap.Remove(&ch.due, m.at)
	c.flying--
	if m.drawn != nil {
		m.drawn.Done()
	}
	ch.leave(m)
	ch.pump(b)
	return true
}

// requeue makes a message ready again after a delay.
func (ch *channel) requeue(b *engine.Batch, c *conn, id []byte, after time.Duration) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	m := ch.flight(c, id)
	if m == nil {
		return false
	}
	if after == 0 {
		ch.again(m)
	} else {
		c.flying--
		m.to, m.due = nil, b.Now().Add(after)
		heap.Fix(&ch.due, m.at)
	}
	ch.pump(b)
	return true
}

// touch gives a consumer more time, up to MaxTimeout in all.
func (ch *channel) touch(b *engine.Batch, c *conn, id []byte) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	m := ch.flight(c, id)
	if m == nil {
		return false
	}
	m.due = min(b.Now().Add(c.timeout), m.sent.Add(ch.srv.limits.MaxTimeout))
	heap.Fix(&ch.due, m.at)
	ch.arm(b.Now())
	return true
}

// rate sets how many messages a consumer takes at once.
func (ch *channel) rate(b *engine.Batch, c *conn, n int) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	c.ready = n
	ch.pump(b)
}

// add adds a consumer.
func (ch *channel) add(c *conn) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.consumers = append(ch.consumers, c)
}

// remove removes a consumer, whose messages go to others.
func (ch *channel) remove(b *engine.Batch, c *conn) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for i, have := range ch.consumers {
		if have == c {
			ch.consumers = append(ch.consumers[:i:i], ch.consumers[i+1:]...)
			break
		}
	}
	var its []*message
	for _, m := range ch.due {
		if m.to == c {
			its = append(its, m)
		}
	}
	for _, m := range its {
		ch.again(m)
	}
	if ch.from != nil && len(ch.consumers) == 0 {
		ch.back()
	}
	ch.pump(b)
}

// close forgets everything.
func (ch *channel) close() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.closed = true
	ch.timer.Stop()
	if ch.from != nil {
		ch.back()
		ch.from.end()
	}
	for _, m := range ch.slots {
		if m.kept != nil {
			m.kept.Release()
		}
	}
	ch.slots, ch.free, ch.ready, ch.due, ch.held, ch.bytes, ch.first = nil, nil, nil, nil, 0, 0, 0
}
