package mqtt

import (
	"bytes"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
)

// startKept serves MQTT in memory, or at a node that stores, with limits of topics.
func startKept(t *testing.T, stored bool, topics ...engine.Limit) (*Server, string) {
	if !stored {
		return start(t, Limits{}, topics...)
	}
	srv, addr := startStored(t)
	srv.hub.SetLimits(topics)
	return srv, addr
}

// gone waits until nobody is connected as a client.
func (srv *Server) gone(t *testing.T, id string) {
	t.Helper()
	await(t, func() bool {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		s := srv.sessions[id]
		return s == nil || s.conn == nil
	})
}

func isAgain(pk *packets.Packet) { pk.FixedHeader.Dup = true }

// A message that waits for its rate while its client comes back goes once, and is acknowledged once, whenever it goes; another message of its
// identifier, of a client that has lost what it knew, is another one.
func TestWaitsWhileAway(t *testing.T) {
	for _, stored := range []bool{false, true} {
		for _, tt := range []struct {
			about   string
			qos     byte
			while   bool // it goes while the client is away
			payload string
			flags   func(*packets.Packet)
			want    []string
		}{
			{"QoS 1, goes while the client is away", 1, true, "2", isAgain, []string{"slow=2"}},
			{"QoS 1, goes when it is back", 1, false, "2", isAgain, []string{"slow=2"}},
			{"QoS 2, goes while the client is away", 2, true, "2", isAgain, []string{"slow=2"}},
			{"QoS 2, goes when it is back", 2, false, "2", isAgain, []string{"slow=2"}},
			{"another message, after the first has gone", 1, true, "3", isAgain, []string{"slow=2", "slow=3"}},
			{"another message, before", 1, false, "3", isAgain, []string{"slow=2", "slow=3"}},
			{"another message that is the same, after the first has gone", 1, true, "2", func(*packets.Packet) {}, []string{"slow=2", "slow=2"}},
		} {
			name := tt.about + ", in memory"
			if stored {
				name = tt.about + ", stored"
			}
			t.Run(name, func(t *testing.T) {
				srv, addr := startKept(t, stored, engine.Limit{Filter: "slow", Rate: 0.001, Burst: 1})
				s := join(t, addr, v5, "sub")
				s.subscribe("slow", 0)
				p := join(t, addr, v5, "pub", keeps)
				p.publish("slow", "1", 1, 1)
				p.want(packets.Puback, 1)
				s.message("slow=1")
				p.publish("slow", "2", tt.qos, 2)
				p.silent()
				p.nc.Close()
				srv.gone(t, "pub")
				free := func() { srv.hub.SetLimits(nil) } // what waits goes
				if tt.while {
					free()
					s.message(tt.want[0])
				}
				p = dial(t, addr, v5)
				p.connect("pub", keeps)
				if got := p.read(); got.FixedHeader.Type != packets.Connack || !got.SessionPresent {
					t.Fatalf("CONNECT was answered %+v", got)
				}
				p.publish("slow", tt.payload, tt.qos, 2, tt.flags)
				if !tt.while {
					p.silent()
					free()
					s.message(tt.want[0])
				}
				for _, m := range tt.want[1:] {
					s.message(m)
				}
				kind := byte(packets.Puback)
				if tt.qos == 2 {
					kind = packets.Pubrec
				}
				p.want(kind, 2)
				p.publish("slow", "last", 1, 9)
				p.want(packets.Puback, 9)
				s.message("slow=last")
			})
		}
	}
}

// What waits from one connection is not that of another one that the client had at another node meanwhile.
func TestWaitsOfAnotherConnection(t *testing.T) {
	srv, addr := startKept(t, true, engine.Limit{Filter: "slow", Rate: 0.001, Burst: 1})
	s := join(t, addr, v5, "sub")
	s.subscribe("slow", 0)
	p := join(t, addr, v5, "pub", keeps)
	p.publish("slow", "1", 1, 1)
	p.want(packets.Puback, 1)
	s.message("slow=1")
	p.publish("slow", "2", 1, 2)
	p.silent()
	p.nc.Close()
	srv.away(t, "pub")
	session, err := srv.plane.LoadSession(t.Context(), "pub")
	if err != nil {
		t.Fatal(err)
	}
	session.Writer = "elsewhere"
	if err := srv.plane.SaveSession(t.Context(), "pub", session); err != nil {
		t.Fatal(err)
	}
	p = again(t, srv, addr, "pub")
	p.publish("slow", "2", 1, 2, isAgain)
	p.silent()
	srv.hub.SetLimits(nil)
	s.message("slow=2")
	s.message("slow=2")
	p.want(packets.Puback, 2)
	p.silent()
}

// What waits of a client that has gone to another node goes there, and not here as well; messages of QoS 0 go.
func TestWaitsOfOneThatLeft(t *testing.T) {
	srv, addr := startKept(t, true, engine.Limit{Filter: "slow", Rate: 0.001, Burst: 1})
	s := join(t, addr, v5, "sub")
	s.subscribe("slow", 0)
	p := join(t, addr, v5, "pub", keeps)
	p.publish("slow", "1", 1, 1)
	p.want(packets.Puback, 1)
	s.message("slow=1")
	for qos := range byte(3) {
		p.publish("slow", string(rune('a'+qos)), qos, uint16(2*qos))
	}
	p.silent()
	if !srv.kick("pub", "") {
		t.Fatal("it stays")
	}
	srv.away(t, "pub")
	srv.hub.SetLimits(nil)
	s.message("slow=a")
	other := join(t, addr, v5, "other")
	other.publish("slow", "later", 1, 1)
	s.message("slow=later")
	p = again(t, srv, addr, "pub")
	for qos := byte(1); qos < 3; qos++ {
		p.publish("slow", string(rune('a'+qos)), qos, uint16(2*qos), isAgain)
		s.message("slow=" + string(rune('a'+qos)))
	}
	s.silent()
}

// Messages that a member of a shared subscription has not acknowledged, or waits for, go to another one when its session ends; those of QoS 2 that it
// was sent do not.
func TestSharedMemberEnds(t *testing.T) {
	for _, qos := range []byte{1, 2} {
		_, addr := start(t, Limits{})
		narrow := func(pk *packets.Packet) { pk.Properties.ReceiveMaximum = 1 }
		one := join(t, addr, v5, "one", narrow)
		one.subscribe("$share/g/a", qos)
		p := join(t, addr, v5, "pub")
		for i := range 3 {
			p.publish("a", string(rune('1'+i)), qos, 1)
			if qos == 1 {
				p.want(packets.Puback, 1)
				continue
			}
			p.want(packets.Pubrec, 1)
			p.ack(packets.Pubrel, 1)
			p.want(packets.Pubcomp, 1)
		}
		one.message("a=1")
		two := join(t, addr, v5, "two")
		two.subscribe("$share/g/a", 1)
		two.silent()
		one.nc.Close()
		for _, want := range []string{"a=1", "a=2", "a=3"}[qos-1:] {
			if m := two.message(want); m.FixedHeader.Dup {
				t.Errorf("%s has the flag of a message that was sent before", want)
			}
		}
		two.silent()
	}
}

// As many sessions are stored as may be; those that are there, and sessions that end with their connection, are let in.
func TestStoredSessionsAreLimited(t *testing.T) {
	srv, addr := startStored(t)
	srv.limits.Sessions = 2
	for _, id := range []string{"a", "b"} {
		join(t, addr, v5, id, keeps).nc.Close()
		srv.away(t, id)
		await(t, func() bool { return srv.plane.Known(id) })
	}
	p := dial(t, addr, v5)
	p.connect("c", keeps)
	if got := p.read(); got.FixedHeader.Type != packets.Connack || got.ReasonCode != packets.ErrQuotaExceeded.Code {
		t.Errorf("a third one is answered %+v", got)
	}
	join(t, addr, v5, "c")
	again(t, srv, addr, "a").silent()
}

// A will of QoS 1 that no majority stores now is published later, and is kept until then.
func TestWillIsPublishedLater(t *testing.T) {
	srv, addr := startStored(t)
	s := join(t, addr, v5, "sub")
	s.subscribe("w", 1)
	w := &will{Topic: []byte("w"), Payload: []byte("x"), QoS: 1, Origin: 7, connection: "1"}
	if _, err := srv.plane.KeepWill(t.Context(), "c", w.connection, 0, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return srv.plane.HasWill("c") })
	srv.executor("c", w).Refused(nil, nil, 0, backplane.ErrNotStored)
	if !srv.plane.HasWill("c") {
		t.Error("it is dropped")
	}
	s.message("w=x")
	await(t, func() bool { return !srv.plane.HasWill("c") })
}

// The will of a client whose user is gone is not published, nor does a session keep what its user may not have any more, however fast the client
// comes back.
func TestRightsAreLost(t *testing.T) {
	ann, all := user(t, "ann"), user(t, "all")
	srv, addr, book := guarded(t, ann, all)
	set := func(users ...access.User) {
		t.Helper()
		if err := book.Set(access.Config{Users: users}); err != nil {
			t.Fatal(err)
		}
	}
	sub := join(t, addr, v5, "sub", as("all", "all"))
	sub.subscribe("#", 0)
	p := join(t, addr, v5, "c", as("ann", "ann"), keeps)
	p.subscribe("news/1", 1)
	p.subscribe("secret", 1)
	p.nc.Close()
	srv.gone(t, "c")
	ann.Subscribe = []string{"news/#"}
	set(ann, all) // and Review has yet to look
	p = dial(t, addr, v5)
	p.connect("c", as("ann", "ann"), keeps, func(pk *packets.Packet) {
		pk.Connect.WillFlag, pk.Connect.WillTopic, pk.Connect.WillPayload = true, "will", []byte("x")
	})
	if got := p.read(); got.ReasonCode != 0 || !got.SessionPresent {
		t.Fatalf("CONNECT was answered %+v", got)
	}
	if n := srv.hub.Counts().Subscriptions; n != 2 {
		t.Errorf("%d subscriptions are left, want 2", n)
	}
	set(all)
	srv.Review()
	await(t, func() bool { return srv.Stats().Refused == 1 })
	sub.silent()
}

// A password may be empty.
func TestEmptyPassword(t *testing.T) {
	_, addr := start(t, Limits{})
	for _, version := range []byte{v311, v5} {
		p := dial(t, addr, version)
		properties := []any{}
		if version == v5 {
			properties = append(properties, 0)
		}
		p.raw(packet(0x10, append(append([]any{"MQTT", int(version), clean | 0xc0, 0, 60}, properties...), "a", "user", "")...))
		if got := p.read(); got.FixedHeader.Type != packets.Connack || got.ReasonCode != 0 {
			t.Errorf("version %d: answered %+v", version, got)
		}
	}
}

// A client is sent no packet that is larger than it takes [MQTT-3.1.2-24].
func TestAnswersAreSmall(t *testing.T) {
	_, addr := start(t, Limits{})
	p := join(t, addr, v5, "c", func(pk *packets.Packet) { pk.Properties.MaximumPacketSize = 20 })
	pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, ProtocolVersion: v5, PacketID: 1}
	for i := range 20 {
		pk.Filters = append(pk.Filters, packets.Subscription{Filter: string(rune('a' + i))})
	}
	p.say(pk, func(buf *bytes.Buffer) error { return pk.SubscribeEncode(buf) })
	p.closed(packets.ErrPacketTooLarge)
}

// A message of QoS 2 is not taken for one of QoS 1 that waits under its identifier, nor the other way round.
func TestWaitsUnderAnotherQoS(t *testing.T) {
	for qos := byte(1); qos <= 2; qos++ {
		srv, addr := startKept(t, false, engine.Limit{Filter: "slow", Rate: 0.001, Burst: 1})
		s := join(t, addr, v5, "sub")
		s.subscribe("slow", 0)
		p := join(t, addr, v5, "pub")
		p.publish("slow", "1", 1, 1)
		p.want(packets.Puback, 1)
		s.message("slow=1")
		p.publish("slow", "2", qos, 2)
		p.publish("slow", "3", 3-qos, 2)
		p.silent()
		srv.hub.SetLimits(nil) // what waits goes
		s.message("slow=2")
		s.message("slow=3")
		p.want([]byte{packets.Puback, packets.Pubrec}[2-qos], 2)
		p.silent()
	}
}

// A message of QoS 1 is taken, and answered, under the identifier of one of QoS 2 that its client has forgotten; and the next one of QoS 2 under
// it is another one than that.
func TestReceivedUnderAnotherQoS(t *testing.T) {
	for _, stored := range []bool{false, true} {
		_, addr := startKept(t, stored)
		s := join(t, addr, v5, "sub")
		s.subscribe("a", 0)
		p := join(t, addr, v5, "pub", keeps)
		p.publish("a", "1", 2, 7)
		p.want(packets.Pubrec, 7)
		s.message("a=1")
		p.publish("a", "2", 1, 7)
		p.want(packets.Puback, 7)
		s.message("a=2")
		p.publish("a", "3", 2, 7)
		p.want(packets.Pubrec, 7)
		s.message("a=3")
	}
}

// A member of a shared subscription for which as many messages wait as may leaves its turn to others that have room.
func TestSharedMemberIsFull(t *testing.T) {
	srv, addr := start(t, Limits{Queue: 2})
	slow := join(t, addr, v5, "slow", func(pk *packets.Packet) { pk.Properties.ReceiveMaximum = 1 })
	slow.subscribe("$share/g/a", 1)
	other := join(t, addr, v5, "other")
	other.subscribe("$share/g/a", 1)
	p := join(t, addr, v5, "pub")
	const n, has = 20, 3 // under way, and waiting
	for i := range n {
		p.publish("a", string(rune('a'+i)), 1, 1)
		p.want(packets.Puback, 1)
	}
	for range n - has {
		m := other.read()
		if m.FixedHeader.Type != packets.Publish {
			t.Fatalf("got %+v", m)
		}
		other.ack(packets.Puback, m.PacketID)
	}
	if dropped := srv.Stats().Dropped["session_queue"]; dropped != 0 {
		t.Errorf("%d messages are dropped", dropped)
	}
}

// Answers to clients of NATS, each under a topic of its own, do not count as topics that the client has made.
func TestAnswersMakeNoTopics(t *testing.T) {
	srv, addr := start(t, Limits{Topics: 2})
	p := join(t, addr, v5, "service")
	for i := range 10 {
		p.publish("_INBOX/x/"+string(rune('a'+i)), "answer", 1, 1)
		if got := p.want(packets.Puback, 1); got.ReasonCode != 0 {
			t.Fatalf("answer %d is refused: %#x", i, got.ReasonCode)
		}
	}
	if _, err := srv.hub.Delivered([]byte("_INBOX/y")); err != nil || srv.hub.Counts().Topics != 0 {
		t.Errorf("the hub keeps %d topics (%v)", srv.hub.Counts().Topics, err)
	}
}
