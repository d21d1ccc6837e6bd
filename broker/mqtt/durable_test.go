package mqtt

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
)

// startStored serves MQTT at a node that stores, until the test ends.
func startStored(t *testing.T) (*Server, string) {
	t.Helper()
	p := backplane.New(backplane.Config{Node: "n1", Data: t.TempDir(), Listen: "127.0.0.1:0"}, slog.New(slog.DiscardHandler))
	hub := engine.New(engine.Config{Forward: p, Log: p, Watch: p})
	srv := NewServer(hub, Limits{}, slog.New(slog.DiscardHandler))
	srv.Join(p)
	t.Cleanup(hub.Close)
	t.Cleanup(p.Close)
	if err := p.Open(t.Context(), hub); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = srv.Serve(l); close(done) }()
	t.Cleanup(func() {
		l.Close()
		<-done
		if err := srv.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return srv, l.Addr().String()
}

// away waits until a client's session is at no connection.
func (srv *Server) away(t *testing.T, id string) {
	t.Helper()
	await(t, func() bool {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		return srv.sessions[id] == nil
	})
}

// again connects a client whose session is stored.
func again(t *testing.T, srv *Server, addr, id string, change ...func(*packets.Packet)) *peer {
	t.Helper()
	srv.away(t, id)
	p := dial(t, addr, v5)
	p.connect(id, append([]func(*packets.Packet){keeps}, change...)...)
	if got := p.read(); got.FixedHeader.Type != packets.Connack || !got.SessionPresent {
		t.Fatalf("CONNECT was answered %+v", got)
	}
	return p
}

// unreceived returns the state of a session as it was before it was stored that message 7 is received, with a change.
func unreceived(t *testing.T, of *backplane.Session, change func(*stored)) []byte {
	t.Helper()
	var in stored
	if err := json.Unmarshal(of.State, &in); err != nil {
		t.Fatal(err)
	}
	n, ok := in.Numbers[7]
	if !ok {
		t.Fatalf("after PUBREC the session is stored as %s", of.State)
	}
	n.Stored = false
	in.Numbers[7] = n
	change(&in)
	state, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// A node that dies after PUBREC, and before it has stored that, leaves no number behind under which the next message of the
// same identifier would be taken for the one before.
func TestReceivedIsNotStored(t *testing.T) {
	srv, addr := startStored(t)
	s := join(t, addr, v5, "sub")
	s.subscribe("a", 0)
	p := join(t, addr, v5, "pub", keeps)
	p.publish("a", "1", 2, 7)
	p.want(packets.Pubrec, 7)
	s.message("a=1")
	before, err := srv.plane.LoadSession(t.Context(), "pub")
	if err != nil {
		t.Fatal(err)
	}
	p.nc.Close()
	srv.away(t, "pub")
	now, err := srv.plane.LoadSession(t.Context(), "pub")
	if err != nil {
		t.Fatal(err)
	}
	now.State = unreceived(t, before, func(*stored) {}) // as if the node had died
	if err := srv.plane.SaveSession(t.Context(), "pub", now); err != nil {
		t.Fatal(err)
	}
	p = again(t, srv, addr, "pub")
	p.ack(packets.Pubrel, 7)
	if got := p.want(packets.Pubcomp, 7); got.ReasonCode != 0 {
		t.Errorf("PUBREL was answered %#x", got.ReasonCode)
	}
	p.publish("a", "2", 2, 7)
	p.want(packets.Pubrec, 7)
	s.message("a=2")
}

// A message of QoS 2 that is sent again long after its node died is looked for in the log, which has forgotten its number by then.
func TestSentAgainMuchLater(t *testing.T) {
	srv, addr := startStored(t)
	p := join(t, addr, v5, "pub", keeps)
	p.publish("a", "1", 2, 7)
	p.want(packets.Pubrec, 7)
	state := func() *backplane.Session {
		t.Helper()
		s, err := srv.plane.LoadSession(t.Context(), "pub")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := state()
	p.nc.Close()
	srv.away(t, "pub")
	now := state()
	now.State = unreceived(t, before, func(in *stored) {
		n := in.Numbers[7]
		n.Since = n.Since.Add(-time.Hour)
		in.Numbers[7] = n
		in.Numbers[8] = numbered{Origin: n.Origin, Count: n.Count + 1000, At: n.At, Since: n.Since} // the log has none of this number
	})
	if err := srv.plane.SaveSession(t.Context(), "pub", now); err != nil {
		t.Fatal(err)
	}
	published := func() uint64 { all := srv.hub.Stats(); return all[len(all)-1].Released }
	had := published()
	p = again(t, srv, addr, "pub")
	p.publish("a", "1", 2, 7)
	p.want(packets.Pubrec, 7)
	if n := published(); n != had {
		t.Errorf("%d messages were published after what the log has was sent again", n-had)
	}
	p.publish("a", "2", 2, 8)
	p.want(packets.Pubrec, 8)
	for end := time.Now().Add(patience); published() == had && time.Now().Before(end); { // it is counted after it was acknowledged
		time.Sleep(time.Millisecond)
	}
	if n := published(); n != had+1 {
		t.Errorf("%d messages were published after one came that the log does not have", n-had)
	}
}

// A retained message of QoS 2 is not sent again by another connection, since the log may not have it. Its identifier is free after
// PUBREL alone.
func TestRetainedUnderWay(t *testing.T) {
	srv, addr := startStored(t)
	p := join(t, addr, v5, "pub")
	publish := func(payload string, id uint16, retain bool) {
		p.publish("a", payload, 2, id, func(pk *packets.Packet) { pk.FixedHeader.Retain = retain })
		p.want(packets.Pubrec, id)
	}
	publish("kept", 1, true)
	await(t, func() bool { return srv.plane.Position() == 1 }) // or it comes by the log too
	s := join(t, addr, v5, "sub", keeps)
	s.subscribe("a", 2)
	id := s.message("a=kept").PacketID
	s.nc.Close()
	s = again(t, srv, addr, "sub")
	s.want(packets.Pubrel, id)
	publish("next", 2, false)
	if next := s.message("a=next"); next.PacketID == id {
		t.Error("the identifier is used again before the client has freed it")
	}
}

// Retained messages that a client has not acknowledged, or not been sent, when it goes come when it is back, and once.
func TestRetainedIsOwed(t *testing.T) {
	srv, addr := startStored(t)
	p := join(t, addr, v5, "pub")
	const n = 5
	for i := range n {
		p.retain(fmt.Sprint("r/", i), "kept")
	}
	await(t, func() bool { return srv.plane.Position() == n }) // or they come by the log too
	s := join(t, addr, v5, "sub", keeps, func(pk *packets.Packet) { pk.Properties.ReceiveMaximum = 3 })
	s.subscribe("r/+", 1, func(f *packets.Subscription) { f.Identifier = 7 })
	ids := map[string]uint16{}
	for i := range 3 {
		m := s.read()
		if ids[m.TopicName] = m.PacketID; i == 0 {
			s.ack(packets.Puback, m.PacketID)
			delete(ids, m.TopicName)
		}
	}
	m := s.read() // in place of what was acknowledged
	ids[m.TopicName] = m.PacketID
	s.nc.Close()
	for range 2 { // nothing is acknowledged, so all come twice
		s = again(t, srv, addr, "sub")
		got := map[string]bool{}
		for range n - 1 {
			m := s.read()
			if id, sent := ids[m.TopicName]; sent && (!m.FixedHeader.Dup || m.PacketID != id) || !m.FixedHeader.Retain || got[m.TopicName] ||
				fmt.Sprint(m.Properties.SubscriptionIdentifier) != "[7]" {
				t.Errorf("%s comes again as %+v, %d, identifiers %v", m.TopicName, m.FixedHeader, m.PacketID, m.Properties.SubscriptionIdentifier)
			}
			got[m.TopicName], ids[m.TopicName] = true, m.PacketID
		}
		s.silent()
		s.nc.Close()
	}
}

// A session is stored although what its client is owed has topics that take six times as much as they have.
func TestRetainedOfLongTopics(t *testing.T) {
	srv, addr := startStored(t)
	p := join(t, addr, v5, "pub")
	const n = 120
	for i := range n {
		p.retain(fmt.Sprint(i, strings.Repeat("<", 1000)), "kept")
	}
	await(t, func() bool { return srv.plane.Position() == n })
	s := join(t, addr, v5, "sub", keeps, one)
	s.subscribe("#", 1)
	s.read()
	s.nc.Close()
	srv.away(t, "sub")
	if left, err := srv.plane.LoadSession(t.Context(), "sub"); err != nil || left.Until.IsZero() {
		t.Errorf("it is stored as %+v, %v", left, err)
	}
}

// A delayed will is not published once the client has been back, although it is away again.
func TestDelayedWillOfStored(t *testing.T) {
	srv, addr := startStored(t)
	s := join(t, addr, v5, "sub")
	s.subscribe("gone", 0)
	join(t, addr, v5, "c", keeps).nc.Close()
	srv.away(t, "c")
	left, err := srv.plane.LoadSession(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	w := &will{Topic: []byte("gone"), Payload: []byte("c")}
	srv.due("c", left.Revision, w)
	s.message("gone=c")
	again(t, srv, addr, "c").raw([]byte{packets.Disconnect << 4, 0})
	srv.away(t, "c")
	srv.due("c", left.Revision, w)
	s.silent()
}

// A client whose session can be neither claimed nor loaded is refused by CONNACK.
func TestRefusedByConnack(t *testing.T) {
	versions(t, func(t *testing.T, version byte) {
		srv, addr := startStored(t)
		srv.plane.Close()
		p := dial(t, addr, version)
		p.connect("c")
		if got := p.read(); got.FixedHeader.Type != packets.Connack || got.ReasonCode == 0 {
			t.Errorf("CONNECT was answered %+v", got)
		}
	})
}

// That a message is given up is stored before PUBREL goes, as that it was received is.
func TestSkippedIsStored(t *testing.T) {
	srv, addr := startStored(t)
	s := join(t, addr, v5, "sub", keeps)
	s.subscribe("a", 2)
	p := join(t, addr, v5, "pub")
	p.publish("a", strings.Repeat(".", 200), 2, 1)
	p.want(packets.Pubrec, 1)
	id := s.read().PacketID
	s.nc.Close()
	s = again(t, srv, addr, "sub", func(pk *packets.Packet) { pk.Properties.MaximumPacketSize = 100 })
	s.want(packets.Pubrel, id)
	left, err := srv.plane.LoadSession(t.Context(), "sub")
	if err != nil {
		t.Fatal(err)
	}
	var in stored
	if err := json.Unmarshal(left.State, &in); err != nil || len(in.Under) != 1 || !in.Under[0].Released {
		t.Errorf("when PUBREL goes, %+v is stored (%v)", in.Under, err)
	}
}

// fits lets sessions of so many bytes be stored, -1 any, as a full disk or a cluster without a majority stores none.
func (srv *Server) fits(t *testing.T, size int32) {
	t.Helper()
	js, err := jetstream.New(srv.plane.Conn())
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "KV_spillgate-sessions")
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.MaxMsgSize = size
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// A message of QoS 2 whose number cannot be stored is taken when the client is back and sends it again, for it waits nowhere.
func TestNumberIsNotStored(t *testing.T) {
	srv, addr := startStored(t)
	s := join(t, addr, v5, "sub")
	s.subscribe("a", 0)
	p := join(t, addr, v5, "pub", keeps)
	srv.fits(t, 10)
	p.publish("a", "1", 2, 7)
	p.closed(packets.ErrServerUnavailable)
	srv.fits(t, -1)
	p = again(t, srv, addr, "pub")
	p.publish("a", "1", 2, 7, isAgain)
	p.want(packets.Pubrec, 7)
	s.message("a=1")
	p.ack(packets.Pubrel, 7)
	p.want(packets.Pubcomp, 7)
	s.silent()
}

// A client that is not let in because its session cannot be stored sends a message that waits for its rate again when it is: that goes once.
func TestWaitsBeyondARefusal(t *testing.T) {
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
	srv.fits(t, 10)
	p = dial(t, addr, v5)
	p.connect("pub", keeps)
	if got := p.read(); got.FixedHeader.Type != packets.Connack || got.ReasonCode != packets.ErrServerUnavailable.Code {
		t.Fatalf("CONNECT was answered %+v", got)
	}
	srv.fits(t, -1)
	p = again(t, srv, addr, "pub")
	p.publish("slow", "2", 1, 2, isAgain)
	p.silent()
	srv.hub.SetLimits(nil) // what waits goes
	p.want(packets.Puback, 2)
	s.message("slow=2")
	p.publish("slow", "last", 1, 3)
	p.want(packets.Puback, 3)
	s.message("slow=last")
}

// Of a client that comes and goes one delayed will waits at most, and none once it is back. It is published at once where its
// session ends, and where as many wait as may.
func TestDelayedWillsAreBounded(t *testing.T) {
	srv, addr := startStored(t)
	s := join(t, addr, v5, "sub")
	s.subscribe("gone/#", 0)
	wait := func() int {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		return len(srv.wills)
	}
	dies := func(id string, change ...func(*packets.Packet)) {
		t.Helper()
		p := join(t, addr, v5, id, append([]func(*packets.Packet){keeps, func(pk *packets.Packet) {
			pk.Connect.WillFlag, pk.Connect.WillTopic, pk.Connect.WillPayload = true, "gone/"+id, []byte(id)
			pk.Connect.WillProperties.WillDelayInterval = 1000
		}}, change...)...)
		if n := wait(); n != 0 {
			t.Errorf("%d wills wait while their client is connected", n)
		}
		p.nc.Close()
		srv.away(t, id)
	}
	for range 3 {
		dies("c")
		await(t, func() bool { return wait() == 1 })
	}
	s.silent()
	dies("c", func(pk *packets.Packet) { pk.Connect.Clean = true })
	s.message("gone/c=c")
	srv.mu.Lock()
	srv.limits.Sessions = 1
	srv.postpone("d", 0, &will{Topic: []byte("gone/d"), Payload: []byte("d")}, time.Hour)
	srv.mu.Unlock()
	s.message("gone/d=d")
	s.silent()
}
