package mqtt

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// one takes a single message at a time.
func one(pk *packets.Packet) { pk.Properties.ReceiveMaximum = 1 }

// A message that is acknowledged while no member of a shared subscription is there waits for one, also for a member that comes for the first
// time, and each message goes to one.
func TestPoolWaits(t *testing.T) {
	srv, addr := startStored(t)
	pub := join(t, addr, v5, "pub")
	publish := func(payload string, qos byte) {
		t.Helper()
		pub.publish("a/b", payload, qos, 1)
		pub.want(map[byte]byte{1: packets.Puback, 2: packets.Pubrec}[qos], 1)
		if qos == 2 {
			pub.ack(packets.Pubrel, 1)
			pub.want(packets.Pubcomp, 1)
		}
	}
	first := join(t, addr, v5, "first", keeps)
	first.subscribe("$share/g/a/#", 2, func(s *packets.Subscription) { s.Identifier = 7 })
	publish("1", 1)
	m := first.message("a/b=1")
	if len(m.Properties.SubscriptionIdentifier) != 1 || m.Properties.SubscriptionIdentifier[0] != 7 {
		t.Errorf("its identifiers are %v", m.Properties.SubscriptionIdentifier)
	}
	first.ack(packets.Puback, m.PacketID)
	first.nc.Close()
	srv.away(t, "first")
	publish("2", 1)
	publish("3", 2)
	second := join(t, addr, v5, "second", one)
	second.subscribe("$share/g/a/#", 2)
	m = second.message("a/b=2")
	second.silent() // it takes one at a time
	first = again(t, srv, addr, "first")
	first.ack(packets.Pubrec, first.message("a/b=3").PacketID)
	second.ack(packets.Puback, m.PacketID)
	second.silent()
}

// What a member has not acknowledged when it goes comes to another one, but for what it has of QoS 2, which it gets itself when it is back.
func TestPoolGoesOn(t *testing.T) {
	srv, addr := startStored(t)
	pub := join(t, addr, v5, "pub")
	first := join(t, addr, v5, "first", keeps)
	first.subscribe("$share/g/a", 2)
	pub.publish("a", "1", 1, 1)
	pub.want(packets.Puback, 1)
	pub.publish("a", "2", 2, 2)
	pub.want(packets.Pubrec, 2)
	first.message("a=1")
	id := first.message("a=2").PacketID
	first.nc.Close()
	srv.away(t, "first")
	second := join(t, addr, v5, "second", keeps)
	second.subscribe("$share/g/a", 1)
	second.ack(packets.Puback, second.message("a=1").PacketID)
	second.silent()
	first = again(t, srv, addr, "first")
	if m := first.message("a=2"); m.PacketID != id || !m.FixedHeader.Dup {
		t.Errorf("it comes again as %+v", m.FixedHeader)
	}
	first.ack(packets.Pubrec, id)
	first.want(packets.Pubrel, id)
	first.ack(packets.Pubcomp, id)

	// A client that takes no part any more gets nothing, and one whose subscription has QoS 0 needs to acknowledge nothing.
	pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe, Qos: 1}, ProtocolVersion: v5, PacketID: 9, Filters: packets.Subscriptions{{Filter: "$share/g/a"}}}
	first.say(pk, pk.UnsubscribeEncode)
	first.want(packets.Unsuback, 9)
	if got := second.subscribe("$share/g/a", 0); got != 0 {
		t.Fatalf("SUBSCRIBE was answered %#x", got)
	}
	for _, payload := range []string{"3", "4", "5"} {
		pub.publish("a", payload, 1, 1)
		pub.want(packets.Puback, 1)
		if m := second.message("a=" + payload); m.FixedHeader.Qos != 0 {
			t.Errorf("%s comes with QoS %d", payload, m.FixedHeader.Qos)
		}
	}
	first.silent()
}

// What of a pool is stored with a session is the session's, also what finds no room in the outbox: another member would get it, too, if the
// node died before there is room.
func TestPoolSavedWithoutRoom(t *testing.T) {
	hub := engine.New(engine.Config{})
	defer hub.Close()
	srv := NewServer(hub, Limits{}, slog.New(slog.DiscardHandler))
	near, far := net.Pipe()
	defer far.Close()
	c := &conn{srv: srv, version: v5, maxPacket: 1 << 20, out: engine.NewOutbox(near, 150, time.Minute)}
	s, p := &session{srv: srv, conn: c}, &pool{drawn: map[*backplane.Drawn]bool{}}
	topic, err := hub.Topic([]byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	var saved snapshot
	for i := range 3 {
		m := &engine.Message{Topic: topic, Payload: make([]byte, 100), Expires: mono.Never, QoS: 2}
		o := &owed{p, &backplane.Drawn{}}
		p.drawn[o.Drawn] = true
		at := s.occupy(i, queued{kept: m.Keep(), qos: 2, owed: o})
		at.unsaved = true
		saved.unsaved = append(saved.unsaved, waiting{id: uint16(i + 1), order: at.order})
	}
	b := hub.NewBatch()
	b.Begin(live.Now())
	s.sendSaved(b, saved)
	if !s.held {
		t.Error("all messages have found room")
	}
	if len(p.drawn) > 0 {
		t.Errorf("%d messages go to another member, too", len(p.drawn))
	}
	near.Close()
	b.End()
	c.out.Close(0)
}

// The clients of one user make as many shared subscriptions as they may, also at once; those that are there, and those of others, are for them
// as well.
func TestSharedAreLimited(t *testing.T) {
	srv, _ := startStored(t)
	one, other := &session{srv: srv, id: "c", owner: "u"}, &session{srv: srv, id: "c", owner: "v"}
	t.Cleanup(one.part)
	t.Cleanup(other.part)
	share := func(s *session, group string) error {
		return srv.share(s, &engine.Subscription{Who: s, Group: group}, poolKey{group, "a"}, 2)
	}
	if err := share(other, "there"); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 10)
	for i := range cap(made) {
		go func() { made <- share(one, string(rune('a'+i))) }()
	}
	n := 0
	for range cap(made) {
		switch err := <-made; {
		case err == nil:
			n++
		case !errors.Is(err, packets.ErrQuotaExceeded):
			t.Error(err)
		}
	}
	if n != 2 {
		t.Errorf("%d are made", n)
	}
	if err := share(one, "there"); err != nil {
		t.Errorf("one that is there: %v", err)
	}
}
