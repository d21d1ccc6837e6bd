package mqtt

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/engine"
)

// session is what the server knows of a client. It is the engine's Source and
// Subscriber; both are called under a lane's lock, so a session that holds its own
// lock must not call the engine.
type session struct {
	srv   *Server
	id    string
	owner string // the user, empty if anonymous

	// Guarded by the server's lock.
	expires *time.Timer // while nobody is connected
	will    *will       // that is delayed
	delayed *time.Timer

	mu      sync.Mutex
	conn    *conn // nil while nobody is connected
	expiry  time.Duration
	subs    map[string]*engine.Subscription // used by the connection's goroutine alone
	inbound map[uint16]inbound              // messages of the client that are not completed
	heir    *session                        // that has these now: see adopt
	left    atomic.Bool                     // the client is at another node, and sends them again there

	// Messages to the client. The packet identifier is the slot's number plus one.
	slots  []slot
	free   []uint16 // slots below len(slots) that are not used
	inUse  int
	window int // slots that may be used
	sent   uint64
	queue  backlog
	// resend is what connections before left under way and this one has not been sent, in order.
	resend []uint16

	pools   []*pool // that it is a member of
	joining bool    // SUBACK is yet to go, and nothing of a pool before it
	loading bool    // CONNACK is yet to go
	durable bool    // it is stored at the backplane, see durable.go
	sender  uint64  // the client, as messages name it
	kept
}

// inbound is a message of QoS 1 or 2 from the client.
type inbound struct {
	state state
	sum   uint64 // of QoS 1, by which it is told from another one of the same identifier; 0 of QoS 2
}

type state uint8

const (
	withheld state = iota + 1 // it waits for its token, and the acknowledgement with it
	received                  // QoS 2: PUBREC went, PUBREL is to come
	unheard                   // QoS 1: it went while the client was away, which is to send it again and get PUBACK then
)

// slot is a message of QoS 1 or 2 that went to the client.
type slot struct {
	queued
	order    uint64 // in which they went
	released bool   // QoS 2: PUBREL went, PUBCOMP is to come
	unsaved  bool   // QoS 2 of a durable session: what is to go waits until that is stored
}

// queued is a message of QoS 1 or 2 for the client.
type queued struct {
	kept   *engine.Kept
	qos    byte
	retain bool
	ids    []uint32
	owed   *owed            // nil unless it is from a pool
	of     *engine.Interest // the shared subscription that it is of, where nothing is stored; nil unless it is of one
}

// Online implements engine.Subscriber: the client is connected, and not as many messages wait for it as may.
func (s *session) Online() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.online() && s.queue.n < s.srv.limits.Queue
}

// entered reports whether the client was sent CONNACK, and is connected.
func (s *session) entered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.online()
}

// online reports whether the client may be sent something: CONNACK is the first packet that it gets. The lock is held.
func (s *session) online() bool { return s.conn != nil && !s.loading }

// Left implements engine.Leaver.
func (s *session) Left() bool { return s.left.Load() }

// Released acknowledges a message that has waited.
func (s *session) Released(b *engine.Batch, m *engine.Message, id uint16) {
	if s = s.last(); s.waits(m, id) {
		s.acknowledge(b, m.QoS, id, packets.CodeSuccess)
	}
	s.mu.Unlock()
}

// last returns the session that has this one's messages now, with its lock held.
func (s *session) last() *session {
	for {
		s.mu.Lock()
		heir := s.heir
		if heir == nil {
			return s
		}
		s.mu.Unlock()
		s = heir
	}
}

// waits reports whether a message that waited is the one of its identifier still. The lock is held.
func (s *session) waits(m *engine.Message, id uint16) bool {
	in, sum := s.inbound[id], uint64(0)
	if m.QoS == 1 {
		sum = s.srv.sum(maphash.String(s.srv.seed, m.Topic.Name()), m.Payload)
	}
	return in.state == withheld && in.sum == sum
}

// sum returns that of a message, by the one of its topic's name.
func (srv *Server) sum(topic uint64, payload []byte) uint64 {
	return 31*topic + maphash.Bytes(srv.seed, payload)
}

// acknowledge ends the wait of a message from the client with a code. The lock is
// held.
func (s *session) acknowledge(b *engine.Batch, qos byte, id uint16, code packets.Code) {
	kind, taken := packets.Puback, code.Code < packets.ErrUnspecifiedError.Code
	if qos == 2 {
		kind = packets.Pubrec
	}
	switch {
	case qos == 2 && taken:
		s.inbound[id] = inbound{state: received}
	case taken && !s.online():
		s.inbound[id] = inbound{unheard, s.inbound[id].sum}
	default:
		delete(s.inbound, id)
		delete(s.numbers, id)
	}
	if s.online() { // or it sends the message again
		s.conn.ack(b, kind, id, code)
	}
}

// Deliver takes a message for the client.
func (s *session) Deliver(b *engine.Batch, m *engine.Message, t *engine.Target) {
	s.deliver(b, m, queued{qos: min(m.QoS, t.QoS), retain: m.Retain && (m.Stored || t.AsPublished), ids: t.IDs, of: t.Of})
}

// deliver takes a message as q says, without its copy.
func (s *session) deliver(b *engine.Batch, m *engine.Message, q queued) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has(m.Position) {
		return
	}
	if q.qos == 0 {
		if !s.online() {
			return
		}
		s.conn.publish(b, &outgoing{m: m, qos: 0, retain: q.retain, ids: q.ids})
		return
	}
	q.kept = m.Keep()
	if s.online() && len(s.resend) == 0 && s.queue.n == 0 && s.inUse < s.window && s.send(b, q) {
		return
	}
	if !s.queue.push(q, s.srv.limits.Queue, s.srv.limits.QueueBytes) {
		q.kept.Release()
		if !s.behind(m.Position) {
			s.srv.dropped[dropQueue].Add(1)
		}
	}
	s.pump(b)
}

// catchUp sends what waits although nothing is under way, because the connection
// was behind.
func (s *session) catchUp(b *engine.Batch) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pump(b)
	if s.held {
		s.held = false
		s.touch()
	}
}

// send gives a message a packet identifier and sends it. It reports false if the
// connection is too far behind. The lock is held, as in all below.
func (s *session) send(b *engine.Batch, q queued) bool {
	i := len(s.slots)
	if n := len(s.free); n > 0 {
		i = int(s.free[n-1])
	}
	m := &q.kept.Message
	if wait := s.durable && q.qos == 2; wait {
		s.occupy(i, q).unsaved = true
		s.touch()
		return true
	}
	switch s.conn.publish(b, &outgoing{m: m, qos: q.qos, retain: q.retain, id: uint16(i + 1), ids: q.ids}) {
	case full:
		return false
	case never:
		q.kept.Release()
		q.done()
		return true
	}
	if q.qos == 2 { // it goes to nobody else, whatever becomes of it
		q.done()
	}
	s.occupy(i, q)
	return true
}

// occupy puts q into slot i, which is the one that is free next.
func (s *session) occupy(i int, q queued) *slot {
	if i == len(s.slots) {
		s.slots = append(s.slots, slot{})
	} else {
		s.free = s.free[:len(s.free)-1]
	}
	s.sent++
	s.inUse++
	s.slots[i] = slot{queued: q, order: s.sent}
	return &s.slots[i]
}

// pump sends what waits, as far as the client takes it, what was under way before first.
func (s *session) pump(b *engine.Batch) {
	for s.online() && len(s.resend) > 0 {
		if !s.sendAgain(b, s.resend[0]) {
			return
		}
		s.resend = s.resend[1:]
	}
	for s.online() && s.queue.n > 0 && s.inUse < s.window {
		if !s.send(b, *s.queue.head()) {
			return
		}
		s.queue.pop()
		s.roomy()
	}
	s.roomier()
}

// done says that the client has a message, or is never to have it, where a pool is owed that.
func (q *queued) done() {
	if q.owed != nil {
		q.owed.end(true)
		q.owed = nil
	}
}

// slotOf returns the slot of a packet identifier, nil if nothing is under way.
func (s *session) slotOf(id uint16) *slot {
	if id == 0 || int(id) > len(s.slots) || s.slots[id-1].qos == 0 {
		return nil
	}
	return &s.slots[id-1]
}

// complete ends the delivery of what a slot holds.
func (s *session) complete(id uint16) {
	at := &s.slots[id-1]
	if at.kept != nil {
		at.kept.Release()
	}
	at.done()
	*at = slot{}
	s.free = append(s.free, id-1)
	s.inUse--
}

// answered takes a PUBACK, PUBREC or PUBCOMP of the client.
func (s *session) answered(b *engine.Batch, kind byte, id uint16, code byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.slotOf(id)
	refused := code >= packets.ErrUnspecifiedError.Code
	switch {
	case at == nil && kind == packets.Pubrec:
		s.conn.ack(b, packets.Pubrel, id, packets.ErrPacketIdentifierNotFound)
		return nil
	case at == nil:
		return nil // after a session was lost, say
	case kind == packets.Puback && at.qos != 1, kind != packets.Puback && at.qos != 2:
		return packets.ErrProtocolViolation
	case kind == packets.Pubrec && !refused:
		s.release(b, id)
		return nil
	case kind == packets.Pubcomp && !at.released:
		return packets.ErrProtocolViolation
	}
	s.complete(id)
	s.changed = true
	s.pump(b)
	return nil
}

// resume sends again what a connection before left under way, and then what
// waited.
func (s *session) resume(b *engine.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loading = false
	s.resend = nil
	for i := range s.slots {
		if s.slots[i].qos > 0 {
			s.resend = append(s.resend, uint16(i+1))
		}
	}
	slices.SortFunc(s.resend, func(a, b uint16) int { return int(int64(s.slots[a-1].order) - int64(s.slots[b-1].order)) })
	s.pump(b)
}

// sendAgain sends what a connection before left under way in a slot. It reports false if the client has as much
// under way as it takes now, or is too far behind.
func (s *session) sendAgain(b *engine.Batch, id uint16) bool {
	at := s.slotOf(id)
	switch {
	case at == nil, at.unsaved: // the client has acknowledged it meanwhile, or PUBREC came and PUBREL is to come
		return true
	case at.released:
		s.conn.ack(b, packets.Pubrel, id, packets.CodeSuccess)
		return true
	case s.inUse-len(s.resend) >= s.window:
		return false
	}
	switch s.conn.publish(b, &outgoing{m: &at.kept.Message, qos: at.qos, dup: true, retain: at.retain, id: id, ids: at.ids}) {
	case full:
		return false
	case never:
		s.skip(b, id)
	}
	return true
}

// skip gives up a message in a slot that is not to be sent again. If it has QoS 2 the client may have it already, and would
// take the next message of this identifier for the same one until it gets PUBREL.
func (s *session) skip(b *engine.Batch, id uint16) {
	at := &s.slots[id-1]
	if at.qos < 2 {
		s.complete(id)
		return
	}
	s.release(b, id)
}

// release has PUBREL go for what a slot holds, once that is stored if it is to be.
func (s *session) release(b *engine.Batch, id uint16) {
	at := &s.slots[id-1]
	if at.kept != nil {
		at.kept.Release()
	}
	at.kept, at.released = nil, true
	if s.durable {
		at.unsaved = true
		s.touch()
		return
	}
	s.conn.ack(b, packets.Pubrel, id, packets.CodeSuccess)
}

// forget gives up all messages to the client. It returns those that other members of a shared subscription are to have, in order: of QoS 1
// what the client has not acknowledged, of QoS 2 what it was not sent.
func (s *session) forget() (left []queued) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.slots, func(a, b slot) int { return cmp.Compare(a.order, b.order) })
	for _, at := range s.slots {
		switch {
		case at.kept == nil:
		case at.of != nil && at.qos == 1:
			left = append(left, at.queued)
		default:
			at.kept.Release()
		}
	}
	s.slots, s.free, s.inUse, s.resend = nil, nil, 0, nil
	for s.queue.n > 0 {
		if q := s.queue.pop(); q.of != nil {
			left = append(left, q)
		} else {
			q.kept.Release()
		}
	}
	return left
}

// backlog is a ring of messages that wait for the client.
type backlog struct {
	ring     []queued // its length is a power of two
	first, n int
	bytes    int
}

func (q *backlog) head() *queued { return &q.ring[q.first] }

// push reports false if as much waits as may.
func (q *backlog) push(m queued, most, mostBytes int) bool {
	size := len(m.kept.Payload) + len(m.kept.Properties)
	if q.n >= most || q.n > 0 && q.bytes+size > mostBytes {
		return false
	}
	if q.n == len(q.ring) {
		ring := make([]queued, max(16, 2*len(q.ring)))
		for i := range q.n {
			ring[i] = q.ring[(q.first+i)%len(q.ring)]
		}
		q.ring, q.first = ring, 0
	}
	q.ring[(q.first+q.n)&(len(q.ring)-1)] = m
	q.n++
	q.bytes += size
	return true
}

func (q *backlog) pop() queued {
	m := *q.head()
	*q.head() = queued{}
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.n--
	q.bytes -= len(m.kept.Payload) + len(m.kept.Properties)
	return m
}
