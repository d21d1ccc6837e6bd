package mqtt

import (
	"bytes"
	"errors"
	"hash/maphash"
	"maps"
	"net"
	"os"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/link"
	"github.com/spillgate/spillgate/internal/live"
)

// goodbye is how long a connection that the server closes may take to be sent its
// last packet.
const goodbye = 100 * time.Millisecond

// errDisconnect ends a connection whose client said goodbye.
var errDisconnect = errors.New("the client disconnected")

// conn is one connection. Its goroutine reads; others append to out.
type conn struct {
	srv    *Server
	nc     net.Conn
	reader *link.Reader
	out    *engine.Outbox
	batch  *engine.Batch
	done   chan struct{} // closed when the goroutine has ended

	// Set by CONNECT.
	who       *access.Identity
	session   *session
	version   byte
	maxPacket int // that the client takes
	keepAlive time.Duration
	watched   time.Time // when the deadline was last moved

	maker  *engine.Maker // counts its topics
	place                // where it belongs
	stored durable       // what it does for a session that is stored

	topic   *engine.Topic  // the last one published to, which it may
	message engine.Message // the one that is published
	will    *will
}

// Serve reads until the connection ends.
func (c *conn) Serve() {
	defer close(c.done)
	_ = c.nc.SetReadDeadline(time.Now().Add(c.srv.limits.Connect))
	c.finish(c.reader.Run(c.handle))
}

// handle handles all packets that have been read.
func (c *conn) handle(unread []byte) (used, need int, err error) {
	now := time.Now()
	c.batch.Begin(c.reader.Stamp(now))
	defer c.batch.EndRead(c.reader)
	if c.session != nil {
		c.alive(now)
	}
	for used < len(unread) {
		head, body, need, err := frame(unread[used:], c.srv.limits.Packet)
		if err != nil {
			return used, 0, err
		}
		if need > 0 {
			c.session.catchUp(c.batch)
			return used, need, nil
		}
		if err := c.packet(head, body); err != nil {
			return used, 0, err
		}
		used += len(body) + 1 + lengthOf(len(body))
	}
	c.session.catchUp(c.batch)
	return used, 0, nil
}

// saved stores the session before the client is answered. The client is alive however long that takes.
func (c *conn) saved() error {
	err := c.session.save(time.Time{})
	if c.session.durable {
		c.alive(time.Now())
	}
	return err
}

// Room implements engine.Roomy: messages that waited for the socket go on.
func (c *conn) Room() {
	b := c.srv.hub.NewBatch()
	b.Begin(live.Now())
	c.session.catchUp(b)
	b.End()
}

// alive moves the deadline of the keep-alive, though not for every packet.
func (c *conn) alive(now time.Time) {
	if c.keepAlive > 0 && now.Sub(c.watched) >= c.keepAlive/16 {
		c.watched = now
		_ = c.nc.SetReadDeadline(now.Add(c.keepAlive*3/2 + c.keepAlive/16))
	}
}

// packet handles one packet.
func (c *conn) packet(head packets.FixedHeader, body []byte) error {
	if head.Type == packets.Publish && c.session != nil {
		return c.incoming(head, body)
	}
	if (head.Type == packets.Connect) != (c.session == nil) {
		return packets.ErrProtocolViolation
	}
	switch head.Type {
	case packets.Connect, packets.Subscribe, packets.Unsubscribe:
		return link.Apart(func() error { return c.command(head, body) })
	case packets.Pingreq:
		if len(body) == 0 {
			c.reader.Idle()
			c.control(pong[:])
			return nil
		}
	}
	return c.command(head, body)
}

// pong answers PINGREQ.
var pong = [...]byte{packets.Pingresp << 4, 0}

// command handles a packet that is no message.
func (c *conn) command(head packets.FixedHeader, body []byte) error {
	pk, err := decode(head, c.version, body)
	if err != nil {
		return err
	}
	switch s := c.session; head.Type {
	case packets.Connect:
		return c.connect(&pk)
	case packets.Puback, packets.Pubrec, packets.Pubcomp:
		return s.answered(c.batch, head.Type, pk.PacketID, pk.ReasonCode)
	case packets.Pubrel:
		return c.released(pk.PacketID)
	case packets.Subscribe:
		return c.subscribe(&pk)
	case packets.Unsubscribe:
		return c.unsubscribe(&pk)
	case packets.Disconnect:
		return c.disconnect(&pk)
	}
	return nil
}

// incoming takes a message of the client.
func (c *conn) incoming(head packets.FixedHeader, body []byte) error {
	p, err := decodePublish(head, c.version, body, c.batch.Now())
	if err != nil {
		return err
	}
	s := c.session
	if head.Qos > 0 {
		if again, err := s.begin(c, head, &p); again || err != nil {
			return err
		}
		if head.Qos == 2 {
			if stored, err := s.number(c, p.id, p.topic); stored || err != nil {
				if err != nil { // it goes nowhere: sent again, it is not one that waits
					s.mu.Lock()
					delete(s.inbound, p.id)
					s.mu.Unlock()
				}
				return err
			}
		}
	}
	refused, err := c.route(head, &p)
	if refused == packets.CodeSuccess && err == nil {
		return nil
	}
	if head.Qos > 0 && (err != nil || c.version == v311) {
		// Nothing can be answered, or nothing that the client would understand. It may
		// send the message again when it is back.
		s.mu.Lock()
		delete(s.inbound, p.id)
		delete(s.numbers, p.id)
		s.mu.Unlock()
	}
	if err != nil {
		return err
	}
	c.srv.refused.Add(1)
	switch {
	case head.Qos == 0:
		return nil
	case c.version == v311:
		return refused
	}
	c.acknowledge(head.Qos, p.id, refused)
	return nil
}

// route publishes a message and acknowledges it if it has gone. It returns the code
// of a message that is refused.
func (c *conn) route(head packets.FixedHeader, p *incoming) (refused packets.Code, err error) {
	t, err := c.topicOf(p.topic)
	if err != nil {
		switch {
		case errors.Is(err, engine.ErrTopics):
			return packets.ErrQuotaExceeded, nil
		case errors.Is(err, packets.ErrNotAuthorized):
			return packets.ErrNotAuthorized, nil
		}
		return refused, packets.ErrTopicNameInvalid
	}
	c.message = engine.Message{Topic: t, Payload: p.payload, Properties: p.properties, Expires: p.expires,
		QoS: head.Qos, Retain: head.Retain, From: c.session}
	c.session.sign(&c.message, p.id)
	switch c.batch.Publish(&c.message, p.id) {
	case engine.Waits:
	case engine.Went:
		if head.Qos > 0 {
			c.acknowledge(head.Qos, p.id, packets.CodeSuccess)
		}
	default:
		return packets.ErrQuotaExceeded, nil
	}
	return packets.CodeSuccess, nil
}

// acknowledge answers a message of QoS 1 or 2.
func (c *conn) acknowledge(qos byte, id uint16, code packets.Code) {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	c.session.acknowledge(c.batch, qos, id, code)
}

// begin notes that the client sent a message of QoS 1 or 2. It reports true if it
// sent it before. Of those that wait, one of QoS 1 is that if it is the same: a client that has lost what it knew uses the
// identifier for another one.
func (s *session) begin(c *conn, head packets.FixedHeader, p *incoming) (again bool, err error) {
	sum := uint64(0)
	if head.Qos == 1 {
		sum = s.srv.sum(maphash.Bytes(s.srv.seed, p.topic), p.payload)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in, known := s.inbound[p.id]
	same := in.sum == sum
	switch {
	case in.state == received && head.Qos == 2:
		c.ack(c.batch, packets.Pubrec, p.id, packets.CodeSuccess)
		return true, nil
	case in.state == withheld && same:
		return true, nil
	case in.state == unheard && same && head.Dup:
		delete(s.inbound, p.id)
		c.ack(c.batch, packets.Puback, p.id, packets.CodeSuccess)
		return true, nil
	case !known && !s.mayBegin(c.version, head.Qos):
		return false, packets.ErrReceiveMaximum
	}
	if head.Qos == 1 { // whatever had QoS 2 under the identifier is given up
		delete(s.numbers, p.id)
	}
	s.inbound[p.id] = inbound{withheld, sum}
	return false, nil
}

// mayBegin reports whether the client may have one more message under way. What it should have sent again counts until then. MQTT 3.1.1 has
// no word for as many as may be, so there what the queue of a topic takes is the limit; but a session is stored with each number of QoS 2.
// The lock is held.
func (s *session) mayBegin(version, qos byte) bool {
	if len(s.inbound) < s.srv.limits.Inflight || version == v311 && !(qos == 2 && s.durable) {
		return true
	}
	maps.DeleteFunc(s.inbound, func(_ uint16, in inbound) bool { return in.state == unheard })
	return len(s.inbound) < s.srv.limits.Inflight
}

// released takes a PUBREL.
func (c *conn) released(id uint16) error {
	s := c.session
	s.mu.Lock()
	code := packets.CodeSuccess
	_, numbered := s.numbers[id]
	switch state := s.inbound[id].state; {
	case state == received, state == 0 && numbered: // or PUBREC went, and its node died before that was stored
		delete(s.inbound, id)
		delete(s.numbers, id)
	default:
		code = packets.ErrPacketIdentifierNotFound
	}
	s.mu.Unlock()
	if s.durable {
		c.batch.End()
	}
	// The client uses the number again from PUBCOMP on.
	if err := c.saved(); err != nil {
		return err
	}
	c.ack(c.batch, packets.Pubcomp, id, code)
	return nil
}

// result is what became of a packet for the client.
type result uint8

const (
	sent  result = iota
	full         // the client is too far behind
	never        // it is expired, or larger than the client takes
)

// publish sends a message. It may be called from any goroutine that holds the
// session's lock.
func (c *conn) publish(b *engine.Batch, p *outgoing) result {
	p.version = c.version
	if p.m.Expires <= b.Now() {
		return never
	}
	p.expiry = expiryLeft(p.m, b.Now())
	size := p.size()
	if size > c.maxPacket {
		c.srv.dropped[dropSize].Add(1)
		return never
	}
	buf, ok := c.out.Lock(size, false)
	if !ok {
		if p.qos == 0 {
			c.srv.dropped[dropOutbound].Add(1)
		}
		return full
	}
	c.out.Unlock(b, p.append(buf))
	return sent
}

// ack sends an acknowledgement. The same holds as of publish.
func (c *conn) ack(b *engine.Batch, kind byte, id uint16, code packets.Code) {
	if buf, ok := c.out.Lock(ackSize, true); ok {
		c.out.Unlock(b, appendAck(buf, kind, c.version, id, code.Code))
	}
}

// control sends a packet with the batch of the connection's own goroutine.
func (c *conn) control(packet []byte) {
	if buf, ok := c.out.Lock(len(packet), true); ok {
		c.out.Unlock(c.batch, append(buf, packet...))
	}
}

// encoded sends a packet that the codec encodes.
func (c *conn) encoded(encode func(*bytes.Buffer) error) error {
	var buf bytes.Buffer
	if err := encode(&buf); err != nil {
		return codeOf(err)
	}
	if buf.Len() > c.maxPacket {
		return packets.ErrPacketTooLarge
	}
	c.control(buf.Bytes())
	return nil
}

// disconnect takes the client's goodbye.
func (c *conn) disconnect(pk *packets.Packet) error {
	if s := c.session; pk.Properties.SessionExpiryIntervalFlag {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.expiry == 0 && pk.Properties.SessionExpiryInterval > 0 {
			return packets.ErrProtocolViolationZeroNonZeroExpiry
		}
		s.expiry = c.srv.expiryOf(pk.Properties.SessionExpiryInterval)
	}
	if pk.ReasonCode == packets.CodeSuccess.Code { // with any other code the client has not gone as it should
		c.srv.forgo(c.session.id, c.will)
		c.will = nil
	}
	return errDisconnect
}

// Kick closes the connection from outside, with a reason for those who understand
// one, and waits until its goroutine has ended.
func (c *conn) Kick(why packets.Code) {
	c.srv.mu.Lock()
	s := c.session // with it the version is known
	c.srv.mu.Unlock()
	if s != nil && s.entered() && c.version == v5 {
		c.out.Send(farewell(why, c.maxPacket))
	}
	c.out.Close(goodbye)
	<-c.done
}

// finish closes the connection, which ended with err.
func (c *conn) finish(err error) {
	var code packets.Code
	switch {
	case errors.Is(c.out.Err(), engine.ErrStalled):
		code = packets.ErrPendingClientWritesExceeded
	case errors.Is(err, os.ErrDeadlineExceeded):
		code = packets.ErrKeepAliveTimeout
	default:
		errors.As(err, &code) // if not, the client went, or the network
	}
	if code.Code != 0 {
		c.srv.closed(code)
		told := true
		switch {
		case c.session == nil || !c.session.entered(): // CONNACK is yet to go
			c.refuse(code)
		case c.version == v5:
			c.out.Send(farewell(code, c.maxPacket))
		default:
			told = false
		}
		if c.out.Drain(goodbye) && told && code != packets.ErrKeepAliveTimeout { // or it sends nothing anyway
			c.reader.Leave()
		}
	}
	c.out.Close(goodbye)
	c.suspend()
	if c.srv.places != nil && c.session != nil {
		c.srv.places.Gone(c.session.id)
	}
	c.srv.leave(c)
}
