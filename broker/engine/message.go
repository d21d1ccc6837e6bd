package engine

import (
	"sync"
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/mono"
)

// Message is one message on its way. Payload and Properties are borrowed: they
// are valid during the call that passes the message, and Keep makes a copy that
// lives longer.
type Message struct {
	// Topic is where it was published.
	Topic *Topic
	// Payload is the message itself.
	Payload []byte
	// Properties are those of MQTT 5 that travel with a message, encoded one after
	// the other, without their length and without the expiry interval.
	Properties []byte
	// Expires is the instant after which the message is not delivered any more; mono.Never
	// without one.
	Expires mono.Time
	// QoS is 0, 1 or 2: at most once, at least once, exactly once.
	QoS byte
	// Retain keeps it as the topic's last message for later subscribers.
	Retain bool
	// Stored says that it is delivered because it was retained.
	Stored bool
	// From is the session that published it, nil if that is gone or at another node.
	From Source
	// Position is that in the Log, 0 if it was not stored.
	Position uint64
	// Sender names the client that published it, as a number; 0 names none. A
	// Subscription.NoLocal goes by it where From is gone.
	Sender uint64
	// Origin and Number tell a message from all others once it leaves its node; 0 until
	// then.
	Origin, Number uint64

	kept *Kept
}

const (
	// smallMessage is the largest payload and properties, in bytes, whose copy goes
	// back to a pool. Copies of larger ones are left to the garbage collector, so
	// that the pool does not hold many of them.
	smallMessage = 16 << 10
	// firstCopy is the capacity of a new copy in the pool.
	firstCopy = 256
)

// Kept is a copy of a message that several may hold. Release gives it back.
type Kept struct {
	Message
	refs atomic.Int32
	buf  []byte
}

var copies = sync.Pool{New: func() any { return &Kept{buf: make([]byte, 0, firstCopy)} }}

// Keep returns a copy of m with one more reference, which the caller releases.
// All calls for one message share one copy.
func (m *Message) Keep() *Kept {
	if m.kept == nil {
		k := copies.Get().(*Kept)
		k.buf = append(append(k.buf[:0], m.Payload...), m.Properties...)
		k.Message = *m
		k.Payload, k.Properties = k.buf[:len(m.Payload):len(m.Payload)], k.buf[len(m.Payload):]
		k.refs.Store(1) // that of m
		k.Message.kept = k
		m.kept = k
	}
	m.kept.refs.Add(1)
	return m.kept
}

// drop gives up the reference of a message that was not itself a copy.
func (m *Message) drop() {
	if m.kept != nil {
		k := m.kept
		m.kept = nil
		k.Release()
	}
}

// Release gives one reference back. The message must not be used afterwards.
func (k *Kept) Release() {
	if k.refs.Add(-1) > 0 {
		return
	}
	k.Message = Message{}
	if cap(k.buf) <= smallMessage {
		copies.Put(k)
	}
}

// size is what a copy counts against limits in bytes.
func (m *Message) size() int { return len(m.Payload) + len(m.Properties) }
