package mqtt

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/access"
)

// keeps asks for a session that outlives its connection.
func keeps(pk *packets.Packet) {
	pk.Connect.Clean = false
	pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = 1000, true
}

// back connects a client that was here before.
func back(t *testing.T, srv *Server, addr string, version byte, id string, change ...func(*packets.Packet)) *peer {
	t.Helper()
	await(t, func() bool {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		s := srv.sessions[id]
		return s != nil && s.conn == nil
	})
	p := dial(t, addr, version)
	p.connect(id, append([]func(*packets.Packet){keeps}, change...)...)
	if got := p.read(); got.FixedHeader.Type != packets.Connack || !got.SessionPresent {
		t.Fatalf("CONNECT was answered %+v", got)
	}
	return p
}

// What was under way is sent again in order, also where it is more than an outbox holds.
func TestResumeBeyondOutbox(t *testing.T) {
	versions(t, func(t *testing.T, version byte) {
		srv, addr := start(t, Limits{Packet: 8 << 10, Outbound: 16 << 10})
		s := join(t, addr, version, "sub", keeps)
		s.subscribe("a", 1)
		p := join(t, addr, version, "pub")
		const n = 40
		text := func(i int) string { return fmt.Sprint(i, strings.Repeat(".", 4<<10)) }
		for i := range n {
			p.publish("a", text(i), 1, 1)
			p.want(packets.Puback, 1)
			s.message("a=" + text(i))
		}
		s.nc.Close()
		s = back(t, srv, addr, version, "sub")
		for i := range n {
			if m := s.message("a=" + text(i)); !m.FixedHeader.Dup {
				t.Errorf("message %d comes again without the flag that says so", i)
			}
		}
		s.silent()
	})
}

// A client that comes back gets no more at once than its new Receive Maximum says, and new messages after the old ones.
func TestResumeReceiveMaximum(t *testing.T) {
	srv, addr := start(t, Limits{})
	s := join(t, addr, v5, "sub", keeps)
	s.subscribe("a", 1)
	p := join(t, addr, v5, "pub")
	publish := func(i int) {
		p.publish("a", fmt.Sprint(i), 1, 1)
		p.want(packets.Puback, 1)
	}
	for i := range 5 {
		publish(i)
		s.message(fmt.Sprint("a=", i))
	}
	s.nc.Close()
	s = back(t, srv, addr, v5, "sub", func(pk *packets.Packet) { pk.Properties.ReceiveMaximum = 2 })
	publish(5)
	var under []uint16
	for i := range 6 {
		under = append(under, s.message(fmt.Sprint("a=", i)).PacketID)
		if len(under) == 2 {
			s.silent()
			s.ack(packets.Puback, under[0])
			under = under[1:]
		}
	}
	s.silent()
}

// A message of QoS 1 that found a full outbox goes when the client has read that, although the client says nothing.
func TestWaitsForSocket(t *testing.T) {
	srv, addr := start(t, Limits{Packet: 8 << 10, Outbound: 16 << 10})
	s := join(t, addr, v5, "sub")
	s.subscribe("a/#", 1)
	p := join(t, addr, v5, "pub")
	for srv.dropped[dropOutbound].Load() == 0 {
		p.publish("a/0", strings.Repeat(".", 4<<10), 0, 0)
	}
	p.publish("a/1", strings.Repeat(".", 4<<10), 1, 1)
	p.want(packets.Puback, 1)
	for s.read().TopicName != "a/1" {
	}
}

// A message that is larger than an outbox, with what the broker adds to it, does not keep those behind it waiting for good.
func TestLargerThanOutbox(t *testing.T) {
	_, addr := start(t, Limits{Packet: 4 << 10, Outbound: 4 << 10})
	s := join(t, addr, v5, "sub")
	s.subscribe("a", 1, func(f *packets.Subscription) { f.Identifier = 1000 })
	p := join(t, addr, v5, "pub")
	large := strings.Repeat(".", 4<<10-9)
	for id, payload := range []string{large, "next"} {
		p.publish("a", payload, 1, uint16(id+1))
		p.want(packets.Puback, uint16(id+1))
	}
	s.message("a=" + large)
	s.message("a=next")
}

// The identifier of a message of QoS 2 that cannot be sent again is free after PUBREL alone: the client may have the message, and
// would take another one of that identifier for the same.
func TestResumeExpired(t *testing.T) {
	srv, addr := start(t, Limits{})
	s := join(t, addr, v5, "sub", keeps)
	s.subscribe("a", 2)
	p := join(t, addr, v5, "pub")
	p.publish("a", strings.Repeat(".", 200), 2, 1)
	p.want(packets.Pubrec, 1)
	id := s.read().PacketID
	s.nc.Close()
	s = back(t, srv, addr, v5, "sub", func(pk *packets.Packet) { pk.Properties.MaximumPacketSize = 100 })
	s.want(packets.Pubrel, id)
	p.publish("a", "next", 2, 2)
	p.want(packets.Pubrec, 2)
	if next := s.message("a=next"); next.PacketID == id {
		t.Error("the identifier is used again before the client has freed it")
	}
	s.ack(packets.Pubcomp, id)
	s.silent()
}

// CONNACK is the first packet that a client gets, also if messages of its session come before it is sent.
func TestNothingBeforeConnack(t *testing.T) {
	srv, addr := start(t, Limits{})
	s := join(t, addr, v5, "sub", keeps)
	s.subscribe("a", 1)
	p := join(t, addr, v5, "pub")
	p.publish("a", "0", 1, 1)
	p.want(packets.Puback, 1)
	s.message("a=0")
	s.nc.Close()
	await(t, func() bool {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		return srv.sessions["sub"].conn == nil
	})
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := srv.newConn(ours).(*conn)
	c.version, c.who, c.maxPacket = v5, &access.Identity{}, 1<<20
	if present, err := srv.enter(c, "sub", false, time.Hour, 10); !present || err != nil {
		t.Fatalf("entered %v, %v", present, err)
	}
	defer srv.leave(c)
	defer c.out.Close(0)
	for i := range 2 { // of QoS 0 and 1
		p.publish("a", "1", byte(i), 2)
	}
	p.want(packets.Puback, 2)
	c.Room()
	c.control(pong[:]) // in place of CONNACK
	c.session.resume(c.batch)
	c.batch.End()
	s = &peer{t: t, nc: theirs, version: v5}
	if got := s.read(); got.FixedHeader.Type != packets.Pingresp {
		t.Fatalf("got %s %s=%s", packets.PacketNames[got.FixedHeader.Type], got.TopicName, got.Payload)
	}
	s.message("a=0")
	s.message("a=1")
}
