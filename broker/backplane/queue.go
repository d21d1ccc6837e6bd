package backplane

import (
	"sync"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/mono"
)

// entry is a message that waits to be sent.
type entry struct {
	kept *engine.Kept
	id   uint16 // by which its Source knows it
	number
}

// number tells a message from all others: the process that took it from its publisher,
// and what that counted.
type number struct{ origin, count uint64 }

// packet returns what to send of the message.
func (e *entry) packet(now mono.Time) []byte {
	p := packetOf(&e.kept.Message, now, e.number)
	return p.append(make([]byte, 0, e.size()+len(p.topic)+packetOverhead))
}

func (e *entry) size() int { return len(e.kept.Payload) + len(e.kept.Properties) }

// queue holds messages for one goroutine that sends them. push may be called from any
// goroutine and never blocks.
type queue struct {
	most, mostBytes int

	mu      sync.Mutex
	entries []entry
	bytes   int
	more    chan struct{} // has one element while there may be entries
}

func newQueue(c Config) *queue {
	return &queue{most: c.Pending, mostBytes: c.PendingBytes, more: make(chan struct{}, 1)}
}

// push keeps m, unless there is no room.
func (q *queue) push(m *engine.Message, id uint16, n number) bool {
	q.mu.Lock()
	size := len(m.Payload) + len(m.Properties)
	if len(q.entries) >= q.most || len(q.entries) > 0 && q.bytes+size > q.mostBytes {
		q.mu.Unlock()
		return false
	}
	q.entries = append(q.entries, entry{m.Keep(), id, n})
	q.bytes += size
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
	return true
}

// take returns all entries in place of those before, which are not used any more.
func (q *queue) take(before []entry) []entry {
	clear(before)
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.entries
	q.entries, q.bytes = before[:0], 0
	return all
}
