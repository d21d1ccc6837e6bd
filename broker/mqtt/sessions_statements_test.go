package mqtt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/engine"
)

// statement is a scene that shows what statements of MQTT 5 demand, by their numbers.
type statement struct {
	numbers string
	play    func(t *testing.T, addr string)
}

func playAll(t *testing.T, all []statement) {
	for _, s := range all {
		t.Run(s.numbers, func(t *testing.T) {
			_, addr := start(t, Limits{}, engine.Limit{Filter: "policed", Rate: 1e-6, Burst: 1, Police: true})
			s.play(t, addr)
		})
	}
}

// enter connects with a packet of its own and returns the CONNACK.
func enter(t *testing.T, addr string, connect []byte) (*peer, *packets.Packet) {
	t.Helper()
	p := dial(t, addr, v5)
	p.raw(connect)
	got := p.read()
	if got.FixedHeader.Type != packets.Connack {
		t.Fatalf("CONNECT was answered %s", packets.PacketNames[got.FixedHeader.Type])
	}
	return p, got
}

// leave disconnects, and waits until the server has closed the connection.
func (p *peer) leave() {
	p.t.Helper()
	p.raw(packet(0xe0))
	p.closed(packets.Code{})
}

// lasting is the properties of CONNECT that ask for a session of 1,000 s.
var lasting = []byte{packets.PropSessionExpiryInterval, 0, 0, 3, 0xe8}

// TestSessionStatements is about CONNECT, sessions, wills and DISCONNECT.
func TestSessionStatements(t *testing.T) { playAll(t, sessionStatements) }

var sessionStatements = []statement{
	{"3.1.2-2 another version of the protocol", func(t *testing.T, addr string) {
		p := dial(t, addr, v5)
		p.raw(packet(0x10, "MQTT", 6, clean, 0, 60, 0, "a"))
		p.exactly(packet(0x20, 0, 1)) // as of 3.1.1: the answer of version 6 is not known
		_, err := p.next()
		ended(t, err)
	}},
	{"3.1.2-4, 3.2.2-2 Clean Start discards the session", func(t *testing.T, addr string) {
		p, _ := enter(t, addr, connection(clean, lasting, "a"))
		p.subscribe("x", 1)
		p.leave()
		p, got := enter(t, addr, connection(clean, lasting, "a"))
		if got.SessionPresent {
			t.Error("Session Present with Clean Start")
		}
		p.publish("x", "1", 0, 0)
		p.silent()
	}},
	{"3.1.2-5, 3.1.2-6, 3.1.2-23, 3.2.2-3, 4.1.0-1 a session goes on", func(t *testing.T, addr string) {
		p, got := enter(t, addr, connection(0, lasting, "a"))
		if got.SessionPresent {
			t.Error("Session Present where there was none")
		}
		p.subscribe("x", 1)
		p.leave()
		other := join(t, addr, v5, "b")
		other.publish("x", "1", 1, 1)
		other.want(packets.Puback, 1)
		p, got = enter(t, addr, connection(0, lasting, "a"))
		if !got.SessionPresent {
			t.Error("no Session Present")
		}
		p.message("x=1")
	}},
	{"4.1.0-2 a session of 0 s ends with its connection", func(t *testing.T, addr string) {
		p, _ := enter(t, addr, connection(0, nil, "a"))
		p.subscribe("x", 1)
		p.leave()
		if _, got := enter(t, addr, connection(0, nil, "a")); got.SessionPresent {
			t.Error("Session Present")
		}
	}},
	{"3.1.2-8, 3.1.2-10, 3.14.4-3 a will after any end but DISCONNECT 0x00", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("w", 0)
		for i, end := range [][]byte{packet(0xe0), packet(0xe0, 0), packet(0xe0, 0, 0), packet(0xe0, 4), packet(0xe0, 0x81), packet(0xf1)} {
			p, _ := enter(t, addr, connection(clean|willFlag, nil, "p", 0, "w", fmt.Sprint(i)))
			p.raw(end)
			if i >= 3 {
				s.message(fmt.Sprintf("w=%d", i))
				continue
			}
			p.closed(packets.Code{})
			s.silent()
		}
	}},
	{"3.1.2-7, 3.1.2-14, 3.1.2-15, 3.1.3-10 a will as it was given", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("w/#", 0, func(f *packets.Subscription) { f.RetainAsPublished = true })
		given := []byte{0x26, 0, 1, 'k', 0, 1, '2', 0x26, 0, 1, 'k', 0, 1, '1', 3, 0, 1, 't'}
		for _, flags := range []int{0, retainFlag} {
			p, _ := enter(t, addr, connection(clean|willFlag|flags, nil, "p", len(given), given, "w/x", "last"))
			p.nc.Close()
			m := s.message("w/x=last")
			if got := fmt.Sprint(m.Properties.User, m.Properties.ContentType, m.FixedHeader.Retain); got != fmt.Sprint("[{k 2} {k 1}]", "t", flags != 0) {
				t.Errorf("the will came with %s", got)
			}
		}
		late := join(t, addr, v5, "late")
		late.subscribe("w/x", 0)
		late.message("w/x=last")
	}},
	{"3.1.3-9 a delayed will whose client is back is not sent", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("w", 0)
		delay := []byte{packets.PropWillDelayInterval, 0, 0, 3, 0xe8}
		p, _ := enter(t, addr, connection(willFlag, lasting, "p", len(delay), delay, "w", "x"))
		p.nc.Close()
		_, got := enter(t, addr, connection(0, lasting, "p"))
		if !got.SessionPresent {
			t.Error("no Session Present")
		}
		s.silent()
	}},
	{"3.1.3-5 identifiers of 1 to 23 letters and digits", func(t *testing.T, addr string) {
		for _, id := range []string{"0", "0123456789abcdefghijklm", "nopqrstuvwxyzABCDEFGHIJ", "KLMNOPQRSTUVWXYZ"} {
			join(t, addr, v5, id).silent()
		}
	}},
	{"3.1.3-6, 3.1.3-7, 3.2.2-16 an identifier from the server is new", func(t *testing.T, addr string) {
		_, one := enter(t, addr, connection(clean, nil, ""))
		_, two := enter(t, addr, connection(0, nil, ""))
		if a, b := one.Properties.AssignedClientID, two.Properties.AssignedClientID; a == "" || b == "" || a == b {
			t.Errorf("assigned %q and %q", a, b)
		}
	}},
	{"3.1.3-8, 3.2.2-7 an identifier that is refused", func(t *testing.T, addr string) {
		p, got := enter(t, addr, connection(clean, nil, strings.Repeat("a", maxClientID+1)))
		if got.ReasonCode != packets.ErrClientIdentifierNotValid.Code {
			t.Errorf("answered %#x", got.ReasonCode)
		}
		_, err := p.next()
		ended(t, err)
	}},
	{"3.1.4-3 the older connection learns of the newer one", func(t *testing.T, addr string) {
		old := join(t, addr, v5, "a")
		join(t, addr, v5, "a").silent()
		old.closed(packets.ErrSessionTakenOver)
	}},
	{"3.1.4-5, 3.2.0-1, 3.2.0-2, 3.2.2-1 CONNACK comes first, once", func(t *testing.T, addr string) {
		p, _ := enter(t, addr, connection(0, lasting, "a"))
		p.subscribe("x", 1)
		p.publish("x", "1", 1, 1)
		p.message("x=1")
		p.nc.Close() // and is owed the message
		p = dial(t, addr, v5)
		p.raw(append(connection(0, lasting, "a"), packet(0xc0)...))
		var kinds []byte
		for len(kinds) < 3 {
			kinds = append(kinds, p.read().FixedHeader.Type)
		}
		if kinds[0] != packets.Connack || kinds[1] == packets.Connack || kinds[2] == packets.Connack {
			t.Errorf("the packets came as %v", kinds)
		}
		p.silent()
	}},
	{"3.1.4-6 what follows a CONNECT that is refused does nothing", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("x", 0)
		p, got := enter(t, addr, append(connection(clean, []byte{0x15, 0, 1, 'x'}, "a"), packet(0x30, "x", 0, []byte("1"))...))
		if got.ReasonCode < 0x80 {
			t.Errorf("answered %#x", got.ReasonCode)
		}
		_, err := p.next()
		ended(t, err)
		s.silent()
	}},
	{"3.2.2-6 no Session Present where it is refused", func(t *testing.T, addr string) {
		p, _ := enter(t, addr, connection(0, lasting, "a"))
		p.leave()
		if _, got := enter(t, addr, connection(0, []byte{0x15, 0, 1, 'x'}, "a")); got.SessionPresent || got.ReasonCode == 0 {
			t.Errorf("answered %#x, Session Present %v", got.ReasonCode, got.SessionPresent)
		}
	}},
	{"3.14.0-1 no DISCONNECT before CONNACK", func(t *testing.T, addr string) {
		p := dial(t, addr, v5)
		p.raw(packet(0x30, "x", 0))
		_, err := p.next()
		ended(t, err)
	}},
	{"3.14.2.2.2 DISCONNECT changes how long the session lasts", func(t *testing.T, addr string) {
		p, _ := enter(t, addr, connection(0, lasting, "a"))
		p.raw(packet(0xe0, 0, 5, []byte{0x11, 0, 0, 0, 0}))
		p.closed(packets.Code{})
		if _, got := enter(t, addr, connection(0, lasting, "a")); got.SessionPresent {
			t.Error("Session Present")
		}
	}},
	{"3.1.2-24, 3.1.2-25 a packet that is too large for the client counts as sent", func(t *testing.T, addr string) {
		p, _ := enter(t, addr, connection(clean, []byte{packets.PropMaximumPacketSize, 0, 0, 0, 40, packets.PropReceiveMaximum, 0, 1}, "a"))
		p.subscribe("x", 1)
		q := join(t, addr, v5, "q")
		for i, m := range []string{strings.Repeat("x", 40), "1"} {
			q.publish("x", m, 1, uint16(i+1))
			q.want(packets.Puback, uint16(i+1))
		}
		p.message("x=1")
		p.silent()
	}},
}
