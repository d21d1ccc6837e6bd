package mqtt

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/mono"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// patience only ends a test that hangs.
const patience = time.Minute

// start serves MQTT on loopback until the test ends.
func start(t testing.TB, limits Limits, topics ...engine.Limit) (*Server, string) {
	t.Helper()
	limits.Check(func(field, value, want string) { t.Fatalf("limits: %s: %s, expected %s", field, value, want) })
	hub := engine.New(engine.Config{Limits: topics})
	srv := NewServer(hub, limits, slog.New(slog.DiscardHandler))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = srv.Serve(l); close(done) }()
	t.Cleanup(func() {
		l.Close()
		<-done
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		hub.Close()
	})
	return srv, l.Addr().String()
}

// peer is a client that says and hears single packets.
type peer struct {
	t       testing.TB
	nc      net.Conn
	version byte
	got     []byte
}

func dial(t testing.TB, addr string, version byte) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return &peer{t: t, nc: nc, version: version}
}

// join dials and connects.
func join(t testing.TB, addr string, version byte, id string, change ...func(*packets.Packet)) *peer {
	t.Helper()
	p := dial(t, addr, version)
	p.connect(id, change...)
	if got := p.read(); got.FixedHeader.Type != packets.Connack || got.ReasonCode != 0 {
		t.Fatalf("CONNECT was answered %+v", got)
	}
	return p
}

func (p *peer) connect(id string, change ...func(*packets.Packet)) {
	pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: p.version,
		Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: id, Clean: true, Keepalive: 60}}
	for _, f := range change {
		f(pk)
	}
	p.say(pk, pk.ConnectEncode)
}

func (p *peer) say(pk *packets.Packet, encode func(*bytes.Buffer) error) {
	p.t.Helper()
	var buf bytes.Buffer
	if err := encode(&buf); err != nil {
		p.t.Fatal(err)
	}
	p.raw(buf.Bytes())
}

func (p *peer) raw(b []byte) {
	p.t.Helper()
	if _, err := p.nc.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) publish(topic, payload string, qos byte, id uint16, change ...func(*packets.Packet)) {
	pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: qos}, ProtocolVersion: p.version, TopicName: topic,
		Payload: []byte(payload), PacketID: id}
	for _, f := range change {
		f(pk)
	}
	p.say(pk, pk.PublishEncode)
}

func (p *peer) subscribe(filter string, qos byte, change ...func(*packets.Subscription)) byte {
	p.t.Helper()
	s := packets.Subscription{Filter: filter, Qos: qos}
	for _, f := range change {
		f(&s)
	}
	pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, ProtocolVersion: p.version, PacketID: 99, Filters: packets.Subscriptions{s}}
	if s.Identifier > 0 {
		pk.Properties.SubscriptionIdentifier = []int{s.Identifier}
	}
	p.say(pk, pk.SubscribeEncode)
	got := p.read()
	if got.FixedHeader.Type != packets.Suback || len(got.ReasonCodes) != 1 {
		p.t.Fatalf("SUBSCRIBE was answered %+v", got)
	}
	return got.ReasonCodes[0]
}

func (p *peer) ack(kind byte, id uint16) {
	p.t.Helper()
	p.raw(appendAck(nil, kind, p.version, id, 0))
}

// read returns the next packet, and fails the test if there is none.
func (p *peer) read() *packets.Packet {
	p.t.Helper()
	pk, err := p.next()
	if err != nil {
		p.t.Fatalf("no packet: %v", err)
	}
	return pk
}

func (p *peer) next() (*packets.Packet, error) {
	_ = p.nc.SetReadDeadline(time.Now().Add(patience))
	for {
		head, body, need, err := frame(p.got, 1<<28)
		if err != nil {
			return nil, err
		}
		if need == 0 {
			pk := &packets.Packet{FixedHeader: head, ProtocolVersion: p.version}
			body := bytes.Clone(body)
			switch head.Type {
			case packets.Connack:
				err = pk.ConnackDecode(body)
			case packets.Publish:
				err = pk.PublishDecode(body)
			case packets.Suback:
				err = pk.SubackDecode(body)
			case packets.Unsuback:
				err = pk.UnsubackDecode(body)
			case packets.Disconnect:
				*pk, err = decode(head, p.version, body)
			case packets.Pingresp:
			default:
				err = pk.PubackDecode(body)
			}
			p.got = p.got[1+lengthOf(len(body))+len(body):]
			return pk, err
		}
		buf := make([]byte, 64<<10)
		n, err := p.nc.Read(buf)
		p.got = append(p.got, buf[:n]...)
		if n == 0 && err != nil {
			return nil, err
		}
	}
}

// want reads a packet of a kind and identifier.
func (p *peer) want(kind byte, id uint16) *packets.Packet {
	p.t.Helper()
	got := p.read()
	if got.FixedHeader.Type != kind || got.PacketID != id {
		p.t.Fatalf("got %s %d with code %#x, want %s %d", packets.PacketNames[got.FixedHeader.Type], got.PacketID, got.ReasonCode, packets.PacketNames[kind], id)
	}
	return got
}

// message reads a PUBLISH and compares topic and payload.
func (p *peer) message(want string) *packets.Packet {
	p.t.Helper()
	got := p.read()
	if got.FixedHeader.Type != packets.Publish || got.TopicName+"="+string(got.Payload) != want {
		p.t.Fatalf("got %s %s=%s, want a message %s", packets.PacketNames[got.FixedHeader.Type], got.TopicName, got.Payload, want)
	}
	return got
}

// silent checks that nothing comes before the answer to a ping.
func (p *peer) silent() {
	p.t.Helper()
	p.raw([]byte{packets.Pingreq << 4, 0})
	if got := p.read(); got.FixedHeader.Type != packets.Pingresp {
		p.t.Fatalf("got %s %s=%s, want nothing", packets.PacketNames[got.FixedHeader.Type], got.TopicName, got.Payload)
	}
}

// closed checks that the connection ends, with a reason if the client knows any.
func (p *peer) closed(code packets.Code) {
	p.t.Helper()
	got, err := p.next()
	if p.version == v5 && err == nil {
		if got.FixedHeader.Type != packets.Disconnect || got.ReasonCode != code.Code {
			p.t.Fatalf("got %s with code %#x, want DISCONNECT with %#x", packets.PacketNames[got.FixedHeader.Type], got.ReasonCode, code.Code)
		}
		got, err = p.next()
	}
	if err == nil {
		p.t.Fatalf("got %s, want the connection to end", packets.PacketNames[got.FixedHeader.Type])
	}
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		p.t.Fatal("the connection is still open")
	}
}

func versions(t *testing.T, f func(t *testing.T, version byte)) {
	for _, v := range []byte{v311, v5} {
		t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) { f(t, v) })
	}
}

// Every pair of a publisher's QoS and a subscriber's delivers with the lower one.
func TestQoS(t *testing.T) {
	versions(t, func(t *testing.T, version byte) {
		_, addr := start(t, Limits{})
		for sub := range byte(3) {
			s := join(t, addr, version, fmt.Sprintf("sub%d", sub))
			if code := s.subscribe("q/+", sub); code != sub {
				t.Fatalf("granted %d, want %d", code, sub)
			}
			for qos := range byte(3) {
				p := join(t, addr, version, "pub")
				p.publish(fmt.Sprintf("q/%d", qos), "x", qos, 7)
				switch qos {
				case 1:
					p.want(packets.Puback, 7)
				case 2:
					p.want(packets.Pubrec, 7)
					p.publish("q/2", "x", qos, 7) // again: not delivered twice
					p.want(packets.Pubrec, 7)
					p.ack(packets.Pubrel, 7)
					p.want(packets.Pubcomp, 7)
				}
				m := s.message(fmt.Sprintf("q/%d=x", qos))
				if want := min(sub, qos); m.FixedHeader.Qos != want {
					t.Errorf("published with %d, subscribed with %d: came with %d", qos, sub, m.FixedHeader.Qos)
				}
				switch m.FixedHeader.Qos {
				case 1:
					s.ack(packets.Puback, m.PacketID)
				case 2:
					s.ack(packets.Pubrec, m.PacketID)
					s.want(packets.Pubrel, m.PacketID)
					s.ack(packets.Pubcomp, m.PacketID)
				}
				s.silent()
			}
		}
	})
}

// What waits for its rate is acknowledged when it has gone.
func TestShapedAcknowledgement(t *testing.T) {
	versions(t, func(t *testing.T, version byte) {
		_, addr := start(t, Limits{}, engine.Limit{Filter: "slow", Rate: 5, Burst: 1})
		s := join(t, addr, version, "sub")
		s.subscribe("slow", 0)
		p := join(t, addr, version, "pub")
		began := time.Now()
		var all bytes.Buffer
		for _, m := range []struct {
			payload string
			qos     byte
			id      uint16
		}{{"1", 1, 1}, {"2", 1, 2}, {"3", 2, 3}, {"2", 1, 2}} { // the last again while it waits
			pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: m.qos}, ProtocolVersion: version, TopicName: "slow", Payload: []byte(m.payload), PacketID: m.id}
			if err := pk.PublishEncode(&all); err != nil {
				t.Fatal(err)
			}
		}
		all.Write([]byte{packets.Pingreq << 4, 0})
		p.raw(all.Bytes())
		// The reader does not wait: the ping is answered before what has the last token, 400 ms away.
		pinged := false
		for _, want := range []struct {
			kind byte
			id   uint16
		}{{packets.Puback, 1}, {packets.Puback, 2}, {packets.Pubrec, 3}} {
			got := p.read()
			if got.FixedHeader.Type == packets.Pingresp {
				pinged = true
				got = p.read()
			}
			if got.FixedHeader.Type != want.kind || got.PacketID != want.id {
				t.Fatalf("got %s %d, want %s %d", packets.PacketNames[got.FixedHeader.Type], got.PacketID, packets.PacketNames[want.kind], want.id)
			}
			if d := time.Since(began); want.id == 2 && d < 199*time.Millisecond {
				t.Errorf("the second was acknowledged after %v, before its token", d)
			}
		}
		if !pinged {
			t.Error("the ping was not answered while messages waited")
		}
		for i := range 3 {
			s.message(fmt.Sprintf("slow=%d", i+1))
		}
		s.silent()
	})
}

func TestPolice(t *testing.T) {
	_, addr := start(t, Limits{}, engine.Limit{Filter: "hard", Rate: 0.001, Burst: 1, Police: true})
	p := join(t, addr, v5, "pub")
	p.publish("hard", "1", 1, 1)
	p.want(packets.Puback, 1)
	p.publish("hard", "2", 1, 2)
	if got := p.want(packets.Puback, 2); got.ReasonCode != packets.ErrQuotaExceeded.Code {
		t.Errorf("the second was answered %#x", got.ReasonCode)
	}
	p.publish("hard", "3", 2, 3)
	if got := p.want(packets.Pubrec, 3); got.ReasonCode != packets.ErrQuotaExceeded.Code {
		t.Errorf("the third was answered %#x", got.ReasonCode)
	}
	p.publish("hard", "4", 0, 0)
	p.silent()
	old := join(t, addr, v311, "old")
	old.publish("hard", "5", 1, 1)
	old.closed(packets.ErrQuotaExceeded)
}

func TestReceiveMaximum(t *testing.T) {
	_, addr := start(t, Limits{Inflight: 3}, engine.Limit{Filter: "slow", Rate: 0.001, Burst: 1}, engine.Limit{Filter: "old", Rate: 0.01, Burst: 1})
	p := join(t, addr, v5, "pub")
	for id := range uint16(5) {
		p.publish("slow", "x", 1, id+1)
	}
	p.want(packets.Puback, 1)
	p.closed(packets.ErrReceiveMaximum)

	// MQTT 3.1.1 has none.
	old := join(t, addr, v311, "old")
	for id := range uint16(5) {
		old.publish("old", "x", 1, id+1)
	}
	old.want(packets.Puback, 1)
	old.silent()

	// The client's own: two at a time, in order.
	s := join(t, addr, v5, "sub", func(pk *packets.Packet) { pk.Properties.ReceiveMaximum = 2 })
	s.subscribe("fast", 1)
	q := join(t, addr, v5, "pub")
	for id := range uint16(5) {
		q.publish("fast", fmt.Sprint(id), 1, id+1)
		q.want(packets.Puback, id+1)
	}
	first, second := s.message("fast=0"), s.message("fast=1")
	s.silent()
	s.ack(packets.Puback, second.PacketID)
	third := s.message("fast=2")
	s.silent()
	s.ack(packets.Puback, first.PacketID)
	s.ack(packets.Puback, third.PacketID)
	s.message("fast=3")
	s.message("fast=4")
}

// A session that is kept gets what came meanwhile, and what was not acknowledged
// again.
func TestSession(t *testing.T) {
	versions(t, func(t *testing.T, version byte) {
		srv, addr := start(t, Limits{})
		keep := func(pk *packets.Packet) {
			pk.Connect.Clean = false
			pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = 1000, true
		}
		s := join(t, addr, version, "kept", keep)
		s.subscribe("a", 2)
		p := join(t, addr, version, "pub")
		p.publish("a", "1", 1, 1)
		p.want(packets.Puback, 1)
		p.publish("a", "2", 2, 2)
		p.want(packets.Pubrec, 2)
		p.ack(packets.Pubrel, 2)
		p.want(packets.Pubcomp, 2)
		one, two := s.message("a=1"), s.message("a=2")
		s.ack(packets.Pubrec, two.PacketID)
		s.want(packets.Pubrel, two.PacketID)
		s.nc.Close()
		await(t, func() bool { return srv.Stats().Connections == 1 })
		p.publish("a", "3", 1, 3)
		p.want(packets.Puback, 3)
		p.publish("a", "0", 0, 0)
		p.silent()

		s = dial(t, addr, version)
		s.connect("kept", keep)
		if got := s.read(); !got.SessionPresent {
			t.Fatal("the session is not there")
		}
		if again := s.message("a=1"); !again.FixedHeader.Dup || again.PacketID != one.PacketID {
			t.Errorf("again: %+v", again.FixedHeader)
		}
		s.want(packets.Pubrel, two.PacketID)
		s.message("a=3")
		s.silent()

		s.nc.Close()
		await(t, func() bool { return srv.Stats().Connections == 1 })
		s = join(t, addr, version, "kept") // clean
		p.publish("a", "4", 1, 4)
		p.want(packets.Puback, 4)
		s.silent()
	})
}

func await(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v", patience)
		}
	}
}

func TestTakeOver(t *testing.T) {
	versions(t, func(t *testing.T, version byte) {
		_, addr := start(t, Limits{})
		first := join(t, addr, version, "same")
		join(t, addr, version, "same").silent()
		first.closed(packets.ErrSessionTakenOver)
	})
}

func TestSessionExpires(t *testing.T) {
	srv, addr := start(t, Limits{SessionExpiry: time.Second})
	s := dial(t, addr, v5)
	s.connect("brief", func(pk *packets.Packet) {
		pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = 1000, true
	})
	if got := s.read(); got.Properties.SessionExpiryInterval != 1 {
		t.Errorf("the client is told %d s, want 1", got.Properties.SessionExpiryInterval)
	}
	s.subscribe("a", 1)
	closed := time.Now()
	s.nc.Close()
	await(t, func() bool { return srv.Stats().Sessions == 0 })
	if lived := time.Since(closed); lived < time.Second {
		t.Errorf("the session went after %v", lived)
	}
	if n := srv.hub.Counts().Subscriptions; n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

func TestWill(t *testing.T) {
	versions(t, func(t *testing.T, version byte) {
		srv, addr := start(t, Limits{})
		s := join(t, addr, version, "sub")
		s.subscribe("will/#", 0)
		last := func(topic string, delay uint32) func(*packets.Packet) {
			return func(pk *packets.Packet) {
				pk.Connect.WillFlag, pk.Connect.WillTopic, pk.Connect.WillPayload = true, topic, []byte("gone")
				pk.Connect.WillProperties.WillDelayInterval = delay
				if delay > 0 {
					pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = 1000, true
					pk.Connect.Clean = false
				}
			}
		}
		polite := join(t, addr, version, "polite", last("will/polite", 0))
		polite.raw([]byte{packets.Disconnect << 4, 0})
		polite.closed(packets.Code{})
		s.silent()
		join(t, addr, version, "rude", last("will/rude", 0)).nc.Close()
		s.message("will/rude=gone")
		join(t, addr, version, "bad", last("will/bad", 0)).raw([]byte{0xff, 0})
		s.message("will/bad=gone")
		join(t, addr, version, "same", last("will/same", 0))
		join(t, addr, version, "same")
		s.message("will/same=gone")
		if version == v5 {
			for _, code := range []byte{packets.CodeDisconnectWillMessage.Code, packets.ErrUnspecifiedError.Code, packets.ErrMalformedPacket.Code} {
				join(t, addr, version, "code", last("will/code", 0)).raw([]byte{packets.Disconnect << 4, 1, code})
				s.message("will/code=gone")
			}
			join(t, addr, version, "longer", last("will/longer", 0)).raw([]byte{packets.Disconnect << 4, 7, 0, 5, packets.PropSessionExpiryInterval, 0, 0, 0, 1})
			s.message("will/longer=gone") // it had no session to keep, so this is no goodbye
			join(t, addr, version, "late", last("will/late", 1)).nc.Close()
			s.message("will/late=gone")
			join(t, addr, version, "back", last("will/back", 1000)).nc.Close()
			session := func() (s *session, waits bool) {
				srv.mu.Lock()
				defer srv.mu.Unlock()
				s = srv.sessions["back"]
				return s, s.will != nil
			}
			await(t, func() bool { _, waits := session(); return waits })
			join(t, addr, version, "back", last("will/back", 1000))
			back, _ := session()
			srv.late(back) // as if its time had come
			s.silent()
		}
	})
}

func TestRetained(t *testing.T) {
	versions(t, func(t *testing.T, version byte) {
		_, addr := start(t, Limits{})
		p := join(t, addr, version, "pub")
		retain := func(pk *packets.Packet) { pk.FixedHeader.Retain = true }
		early := join(t, addr, version, "early")
		early.subscribe("r/+", 0)
		for _, topic := range []string{"r/a", "r/b"} {
			p.publish(topic, "x", 1, 1, retain)
			p.want(packets.Puback, 1)
			if m := early.message(topic + "=x"); m.FixedHeader.Retain {
				t.Error("a live message came with the retain flag")
			}
		}
		p.publish("r/b", "", 1, 1, retain)
		p.want(packets.Puback, 1)
		s := join(t, addr, version, "late")
		s.subscribe("r/+", 1)
		if m := s.message("r/a=x"); !m.FixedHeader.Retain || m.FixedHeader.Qos != 1 {
			t.Errorf("the retained message came with %+v", m.FixedHeader)
		}
		s.silent()
		if version == v5 {
			s.subscribe("r/+", 0, func(f *packets.Subscription) { f.RetainHandling = 1 }) // not new
			s.silent()
			s.subscribe("r/a", 0, func(f *packets.Subscription) { f.RetainHandling = 2 })
			s.silent()
			s.subscribe("r/#", 0, func(f *packets.Subscription) { f.RetainAsPublished, f.RetainHandling = true, 2 })
			p.publish("r/c", "y", 0, 0, retain)
			if m := s.message("r/c=y"); !m.FixedHeader.Retain {
				t.Error("retain as published was not kept")
			}
		}
	})
}

// All retained messages come, also where they are more than may wait for the client's socket.
func TestManyRetained(t *testing.T) {
	_, addr := start(t, Limits{Packet: 1024, Outbound: 8 << 10})
	p := join(t, addr, v5, "pub")
	const n = 500
	text := strings.Repeat(".", 200)
	for i := range n {
		p.publish(fmt.Sprint("r/", i), text, 1, 1, func(pk *packets.Packet) { pk.FixedHeader.Retain = true })
		p.want(packets.Puback, 1)
	}
	s := join(t, addr, v5, "late")
	s.subscribe("r/#", 0)
	had := map[string]bool{}
	for range n {
		m := s.read()
		if had[m.TopicName] || m.FixedHeader.Type != packets.Publish || string(m.Payload) != text {
			t.Fatalf("got %+v", m)
		}
		had[m.TopicName] = true
	}
	s.silent()
}

func TestSubscriptions(t *testing.T) {
	_, addr := start(t, Limits{Subscriptions: 4})
	s := join(t, addr, v5, "sub")
	for filter, want := range map[string]byte{"a+": packets.ErrTopicFilterInvalid.Code, "$share/g": packets.ErrTopicFilterInvalid.Code, "$share//a": packets.ErrTopicFilterInvalid.Code} {
		if got := s.subscribe(filter, 0); got != want {
			t.Errorf("%q was answered %#x, want %#x", filter, got, want)
		}
	}
	s.subscribe("a/#", 0, func(f *packets.Subscription) { f.Identifier = 5 })
	s.subscribe("a/+", 1, func(f *packets.Subscription) { f.Identifier = 300 })
	s.subscribe("own", 0, func(f *packets.Subscription) { f.NoLocal = true })
	s.publish("own", "mine", 0, 0)
	s.publish("a/1", "x", 1, 1)
	m := s.message("a/1=x")
	s.want(packets.Puback, 1)
	ids := fmt.Sprint(m.Properties.SubscriptionIdentifier)
	if m.FixedHeader.Qos != 1 || ids != "[5 300]" && ids != "[300 5]" {
		t.Errorf("overlapping subscriptions: QoS %d, identifiers %s", m.FixedHeader.Qos, ids)
	}
	if got := s.subscribe("four", 2); got != 2 {
		t.Errorf("the fourth was answered %#x", got)
	}
	if got := s.subscribe("five", 0); got != packets.ErrQuotaExceeded.Code {
		t.Errorf("the fifth was answered %#x", got)
	}
	pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe, Qos: 1}, ProtocolVersion: v5, PacketID: 8,
		Filters: packets.Subscriptions{{Filter: "a/#"}, {Filter: "none"}}}
	s.say(pk, pk.UnsubscribeEncode)
	if got := s.want(packets.Unsuback, 8); !bytes.Equal(got.ReasonCodes, []byte{0, packets.CodeNoSubscriptionExisted.Code}) {
		t.Errorf("UNSUBSCRIBE was answered %v", got.ReasonCodes)
	}
}

// Properties that belong to a message reach the subscriber, those of a hop do not.
func TestProperties(t *testing.T) {
	_, addr := start(t, Limits{})
	s, old, p := join(t, addr, v5, "sub"), join(t, addr, v311, "old"), join(t, addr, v5, "pub")
	s.subscribe("a", 0)
	old.subscribe("a", 0)
	p.publish("a", "x", 0, 0, func(pk *packets.Packet) {
		pk.Mods.AllowResponseInfo = true
		pk.Properties = packets.Properties{PayloadFormat: 1, PayloadFormatFlag: true, MessageExpiryInterval: 60, ContentType: "t", ResponseTopic: "r",
			CorrelationData: []byte("c"), User: []packets.UserProperty{{Key: "k", Val: "v"}, {Key: "k", Val: "w"}}}
	})
	m := s.message("a=x")
	got := m.Properties
	if got.PayloadFormat != 1 || got.MessageExpiryInterval == 0 || got.MessageExpiryInterval > 60 || got.ContentType != "t" || got.ResponseTopic != "r" ||
		string(got.CorrelationData) != "c" || fmt.Sprint(got.User) != "[{k v} {k w}]" {
		t.Errorf("the properties came as %+v", got)
	}
	old.message("a=x")
}

// What has expired while it waited is not delivered, and the publisher is free
// again.
func TestExpiry(t *testing.T) {
	_, addr := start(t, Limits{}, engine.Limit{Filter: "slow", Rate: 0.5, Burst: 1})
	s, p := join(t, addr, v5, "sub"), join(t, addr, v5, "pub")
	s.subscribe("slow", 1)
	var both bytes.Buffer // at once, because the second expires as long after it came
	for id, expiry := range []uint32{0, 1} {
		pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1}, ProtocolVersion: v5, TopicName: "slow", Payload: fmt.Append(nil, id+1), PacketID: uint16(id + 1)}
		pk.Properties.MessageExpiryInterval = expiry
		if err := pk.PublishEncode(&both); err != nil {
			t.Fatal(err)
		}
	}
	p.raw(both.Bytes())
	p.want(packets.Puback, 1)
	p.want(packets.Puback, 2)
	s.message("slow=1")
	s.silent()
}

func TestKeepAlive(t *testing.T) {
	srv, addr := start(t, Limits{Connect: 50 * time.Millisecond})
	dial(t, addr, v5).closed(packets.ErrKeepAliveTimeout)
	counted := func() uint64 { return srv.Stats().Closed[packets.ErrKeepAliveTimeout.Code] }
	await(t, func() bool { return counted() == 1 })
	srv, addr = start(t, Limits{})
	began := time.Now()
	s := join(t, addr, v5, "quiet", func(pk *packets.Packet) { pk.Connect.Keepalive = 1 })
	s.closed(packets.ErrKeepAliveTimeout)
	if d := time.Since(began); d < 1500*time.Millisecond {
		t.Errorf("closed after %v, before one and a half times the keep-alive", d)
	}
	await(t, func() bool { return counted() == 1 })
}

// A subscriber that does not read loses what does not fit, and delays nobody.
func TestSlowSubscriber(t *testing.T) {
	srv, addr := start(t, Limits{Packet: 64 << 10, Outbound: 64 << 10, Stall: 2 * time.Second})
	slow, good, p := join(t, addr, v5, "slow"), join(t, addr, v5, "good"), join(t, addr, v5, "pub")
	slow.subscribe("a", 0)
	good.subscribe("a", 0)
	payload := strings.Repeat("x", 32<<10)
	for range 1000 {
		p.publish("a", payload, 0, 0)
		good.message("a=" + payload)
	}
	if n := srv.Stats().Dropped["outbound"]; n == 0 || n > 1000 {
		t.Errorf("%d messages were dropped", n)
	}
	await(t, func() bool { return srv.Stats().Connections == 2 })
}

// Packets that are wrong close the connection with a reason, and are counted.
func TestBadPackets(t *testing.T) {
	tests := []struct {
		name, hex string
		code      packets.Code
	}{
		{"reserved type", "0000", packets.ErrProtocolViolation},
		{"flags", "c100", packets.ErrMalformedFlags},
		{"length", "30ffffffff7f", packets.ErrMalformedVariableByteInteger},
		{"too large", "30ffffff7f", packets.ErrPacketTooLarge},
		{"QoS 3", "36040001613031", packets.ErrProtocolViolationQosOutOfRange},
		{"no topic", "3000", packets.ErrMalformedTopic},
		{"short topic", "3003000561", packets.ErrMalformedTopic},
		{"empty topic", "3003000000", packets.ErrProtocolViolationNoTopic},
		{"wildcard", "300400012b00", packets.ErrTopicNameInvalid},
		{"alias", "30070001610323ffff", packets.ErrTopicAliasInvalid},
		{"packet 0", "32060001610000" + "00", packets.ErrProtocolViolationNoPacketID},
		{"subscription identifier", "30060001" + "61020b01", packets.ErrProtocolViolationSurplusSubID},
		{"subscribe without options", "8206000100000161", packets.ErrMalformedPacket},
		{"subscribe to nothing", "8203000100", packets.ErrProtocolViolationNoFilters},
		{"retain handling 3", "820700010000016130", packets.ErrProtocolViolation},
		{"second connect", "100d00044d5154540502003c000000", packets.ErrProtocolViolation},
		{"auth", "f000", packets.ErrBadAuthenticationMethod},
		{"from a server", "d000", packets.ErrProtocolViolation},
		{"unknown property", "3006000161027f" + "61", packets.ErrMalformedPacket},
	}
	srv, addr := start(t, Limits{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := hex.DecodeString(tt.hex)
			if err != nil {
				t.Fatal(err)
			}
			before := srv.Stats().Closed
			p := join(t, addr, v5, "bad")
			p.raw(b)
			got, err := p.next()
			if err != nil {
				t.Fatal(err)
			}
			if got.FixedHeader.Type != packets.Disconnect || got.ReasonCode != tt.code.Code {
				t.Fatalf("answered %s with %#x, want DISCONNECT with %#x", packets.PacketNames[got.FixedHeader.Type], got.ReasonCode, tt.code.Code)
			}
			await(t, func() bool { return srv.Stats().Closed[tt.code.Code] > before[tt.code.Code] })
		})
	}
}

func TestBadConnects(t *testing.T) {
	tests := []struct {
		name   string
		v      byte
		change func(*packets.Packet)
		code   byte
	}{
		{"protocol 3.1", v311, func(pk *packets.Packet) { pk.Connect.ProtocolName = []byte("MQIsdp"); pk.ProtocolVersion = 3 }, 1},
		{"protocol 6", v311, func(pk *packets.Packet) { pk.ProtocolVersion = 6 }, 1},
		{"no identifier and no clean session", v311, func(pk *packets.Packet) { pk.Connect.ClientIdentifier, pk.Connect.Clean = "", false }, 2},
		{"long identifier", v5, func(pk *packets.Packet) { pk.Connect.ClientIdentifier = strings.Repeat("x", maxClientID+1) }, packets.ErrClientIdentifierNotValid.Code},
		{"will with a wildcard", v5, func(pk *packets.Packet) { pk.Connect.WillFlag, pk.Connect.WillTopic = true, "a/+" }, packets.ErrTopicNameInvalid.Code},
		{"authentication", v5, func(pk *packets.Packet) { pk.Properties.AuthenticationMethod = "x" }, packets.ErrBadAuthenticationMethod.Code},
	}
	_, addr := start(t, Limits{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := dial(t, addr, tt.v)
			p.connect("x", tt.change)
			if got := p.read(); got.FixedHeader.Type != packets.Connack || got.ReasonCode != tt.code {
				t.Errorf("answered %s with %#x, want CONNACK with %#x", packets.PacketNames[got.FixedHeader.Type], got.ReasonCode, tt.code)
			}
		})
	}
	// Without a CONNECT nothing is answered.
	p := dial(t, addr, v311)
	p.raw([]byte{packets.Pingreq << 4, 0})
	p.closed(packets.Code{})
}

// Packets may come in any pieces, and may be larger than a read.
func TestPieces(t *testing.T) {
	_, addr := start(t, Limits{Packet: 200 << 10})
	s := join(t, addr, v311, "sub")
	s.subscribe("a", 0)
	p := join(t, addr, v311, "pub")
	var all bytes.Buffer
	for _, size := range []int{1, 100, 3000, 150_000, 10, 70_000, 1} {
		pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish}, ProtocolVersion: v311, TopicName: "a", Payload: bytes.Repeat([]byte{'x'}, size)}
		if err := pk.PublishEncode(&all); err != nil {
			t.Fatal(err)
		}
	}
	for i, b := 0, all.Bytes(); len(b) > 0; i++ {
		n := min(len(b), []int{1, 3, 50, 5000, 100_000}[i%5])
		p.raw(b[:n])
		b = b[n:]
	}
	for _, size := range []int{1, 100, 3000, 150_000, 10, 70_000, 1} {
		s.message("a=" + strings.Repeat("x", size))
	}
}

func TestConnectionLimit(t *testing.T) {
	srv, addr := start(t, Limits{Connections: 1, Sessions: 1})
	s := join(t, addr, v5, "one")
	dial(t, addr, v5).closed(packets.Code{})
	s.silent()
	if n := srv.Stats().Turned; n != 1 {
		t.Errorf("%d connections were turned away", n)
	}
}

// script is a connection that reads given bytes and takes whatever is written.
type script struct {
	net.Conn
	rest []byte
}

func (s *script) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 1+len(s.rest)/3)], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
func (s *script) Write(b []byte) (int, error)      { return len(b), nil }
func (s *script) Close() error                     { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// parting is a script that ends with an error, and counts how often it is told that nothing else comes.
type parting struct {
	script
	end   error
	ended atomic.Int32
}

func (p *parting) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, p.end
	}
	return p.script.Read(b)
}
func (p *parting) CloseWrite() error { p.ended.Add(1); return nil }

// The server waits until a client has read why it is disconnected, and for no client that was told nothing or is silent.
func TestPartings(t *testing.T) {
	connect := func(version byte, id string) []byte {
		var buf bytes.Buffer
		_ = (&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: version,
			Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: id, Keepalive: 10}}).ConnectEncode(&buf)
		return buf.Bytes()
	}
	for _, c := range []struct {
		what  string
		sent  []byte
		end   error
		waits int32
	}{
		{"v5, malformed", append(connect(v5, "a"), 0xf5, 0), io.EOF, 1},
		{"v3.1.1, malformed", append(connect(v311, "b"), 0xff, 0), io.EOF, 0},
		{"v3.1.1, refused", connect(v311, ""), io.EOF, 1},
		{"v5, silent", connect(v5, "c"), os.ErrDeadlineExceeded, 0},
		{"v5, gone", connect(v5, "d"), io.EOF, 0},
	} {
		srv, _ := start(t, Limits{})
		p := &parting{script: script{rest: c.sent}, end: c.end}
		srv.accept(p)
		await(t, func() bool { n, _ := srv.room.Count(); return n == 0 })
		if n := p.ended.Load(); n != c.waits {
			t.Errorf("%s: it waits %d times, expected %d", c.what, n, c.waits)
		}
	}
}

// Whatever a client sends, the reader ends, and nothing of it stays.
func FuzzReader(f *testing.F) {
	connect := func(version byte) []byte {
		var buf bytes.Buffer
		pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: version,
			Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: "x", Clean: true}}
		_ = pk.ConnectEncode(&buf)
		return buf.Bytes()
	}
	for _, rest := range []string{"", "300400016178", "32060001610001" + "78", "8207000100000161" + "01", "a20600010000" + "0161", "c000", "e000", "62020001", "3407000161000500" + "78",
		"8206000100000161", "300600016102010178"} {
		b, _ := hex.DecodeString(rest)
		f.Add(append(connect(v5), b...))
		f.Add(append(connect(v311), b...))
	}
	hub := engine.New(engine.Config{Topics: 100, Limits: []engine.Limit{{Filter: "a/#", Rate: 10, Burst: 2, Queue: 10}}})
	f.Cleanup(hub.Close)
	f.Fuzz(func(t *testing.T, data []byte) {
		srv := NewServer(hub, Limits{Packet: 4096, Outbound: 4096, Queue: 10}, slog.New(slog.DiscardHandler))
		srv.accept(&script{rest: data})
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for n := 1; n > 0; n, _ = srv.room.Count() { // the script has an end
			runtime.Gosched()
		}
		if err := srv.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		if c := hub.Counts(); c.Subscriptions != 0 {
			t.Fatalf("%d subscriptions are left", c.Subscriptions)
		}
	})
}

// What decodePublish takes is what the codec takes, and what is encoded is what
// the codec encodes.
func FuzzPublish(f *testing.F) {
	f.Add([]byte("\x00\x01a\x00x"), byte(0), true)
	f.Add([]byte("\x00\x01a\x00\x07x"), byte(1), false)
	f.Add([]byte("\x00\x01a\x02\x01\x01x"), byte(0), true)
	hub := engine.New(engine.Config{Topics: 1000})
	f.Cleanup(hub.Close)
	f.Fuzz(func(t *testing.T, body []byte, qos byte, five bool) {
		head := packets.FixedHeader{Type: packets.Publish, Qos: qos % 3, Remaining: len(body)}
		version := byte(v311)
		if five {
			version = v5
		}
		got, err := decodePublish(head, version, body, 0)
		pk, codecErr := decode(head, version, body)
		if codecErr == nil && pk.PublishValidate(0) != packets.CodeSuccess {
			codecErr = packets.ErrProtocolViolation
		}
		if err == nil && codecErr != nil && engine.CheckTopic(string(got.topic)) == nil {
			t.Fatalf("taken, but the codec says %v", codecErr)
		}
		if err != nil || codecErr != nil {
			return
		}
		if string(got.topic) != pk.TopicName || !bytes.Equal(got.payload, pk.Payload) || got.id != pk.PacketID {
			t.Fatalf("decoded %+v, the codec %+v", got, pk)
		}
		topic, err := hub.Topic(got.topic)
		if err != nil {
			return
		}
		m := &engine.Message{Topic: topic, Payload: got.payload, Properties: got.properties, Expires: mono.Never}
		out := &outgoing{m: m, version: version, qos: head.Qos, id: got.id, expiry: uint32(pk.Properties.MessageExpiryInterval)}
		b := out.append(nil)
		if len(b) != out.size() {
			t.Fatalf("encoded %d bytes, announced %d", len(b), out.size())
		}
		head2, body2, need, err := frame(b, 1<<28)
		if err != nil || need != 0 {
			t.Fatalf("the frame of %x: %d, %v", b, need, err)
		}
		again, err := decode(head2, version, body2)
		if err != nil || again.TopicName != pk.TopicName || !bytes.Equal(again.Payload, pk.Payload) ||
			again.Properties.MessageExpiryInterval != pk.Properties.MessageExpiryInterval || fmt.Sprint(again.Properties.User) != fmt.Sprint(pk.Properties.User) {
			t.Fatalf("encoded and decoded: %+v, %v; was %+v", again, err, pk)
		}
	})
}
