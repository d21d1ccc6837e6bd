package mqtt

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// TestDeliveryStatements is about messages and subscriptions.
func TestDeliveryStatements(t *testing.T) { playAll(t, deliveryStatements) }

// exactly checks the bytes that come next.
func (p *peer) exactly(want []byte) {
	p.t.Helper()
	got := bytes.Clone(p.got)
	p.got = nil
	for len(got) < len(want) {
		buf := make([]byte, len(want)-len(got))
		n, err := p.nc.Read(buf)
		if got = append(got, buf[:n]...); err != nil {
			p.t.Fatalf("got % x, %v, want % x", got, err, want)
		}
	}
	if !bytes.Equal(got, want) {
		p.t.Fatalf("got % x, want % x", got, want)
	}
}

// retain publishes a retained message of QoS 1.
func (p *peer) retain(topic, payload string) {
	p.t.Helper()
	p.publish(topic, payload, 1, 1, func(pk *packets.Packet) { pk.FixedHeader.Retain = true })
	p.want(packets.Puback, 1)
}

// resumed connects a client to its session.
func resumed(t *testing.T, addr, id string) *peer {
	t.Helper()
	p, got := enter(t, addr, connection(0, lasting, id))
	if !got.SessionPresent {
		t.Fatal("no Session Present")
	}
	return p
}

var deliveryStatements = []statement{
	{"2.2.1-4 packet identifiers are above 0 and not in use", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("x", 2)
		seen := map[uint16]bool{}
		for i := range 20 {
			s.publish("x", fmt.Sprint(i), byte(1+i%2), uint16(i+1))
			for kinds := 0; kinds < 2; kinds++ {
				if m := s.read(); m.FixedHeader.Type == packets.Publish {
					if m.PacketID == 0 || seen[m.PacketID] {
						t.Fatalf("message %d has the identifier %d", i, m.PacketID)
					}
					seen[m.PacketID] = true
				}
			}
		}
	}},
	{"3.3.1-1, 4.4.0-1, 4.6.0-5 what was not acknowledged comes again, with DUP, identifiers and order", func(t *testing.T, addr string) {
		s, _ := enter(t, addr, connection(0, lasting, "s"))
		s.subscribe("x", 2)
		q := join(t, addr, v5, "q")
		var ids []uint16
		for i := range 4 {
			q.publish("x", fmt.Sprint(i), byte(1+i%2), uint16(i+1))
			q.read()
			m := s.message(fmt.Sprintf("x=%d", i))
			if m.FixedHeader.Dup {
				t.Error("DUP the first time")
			}
			ids = append(ids, m.PacketID)
		}
		s.ack(packets.Pubrec, ids[1])
		s.want(packets.Pubrel, ids[1])
		s.nc.Close()
		s = resumed(t, addr, "s")
		for i, id := range ids {
			if i == 1 {
				s.want(packets.Pubrel, id)
				continue
			}
			if m := s.message(fmt.Sprintf("x=%d", i)); m.PacketID != id || !m.FixedHeader.Dup {
				t.Errorf("message %d came again with the identifier %d, DUP %v, want %d with DUP", i, m.PacketID, m.FixedHeader.Dup, id)
			}
		}
		s.silent()
	}},
	{"4.4.0-2 an acknowledgement with an error is one", func(t *testing.T, addr string) {
		s, _ := enter(t, addr, connection(0, append(lasting, packets.PropReceiveMaximum, 0, 1), "s"))
		s.subscribe("x", 2)
		q := join(t, addr, v5, "q")
		for i := range 3 {
			q.publish("x", fmt.Sprint(i), byte(1+i%2), uint16(i+1))
			q.read()
			m := s.message(fmt.Sprintf("x=%d", i))
			kind := packets.Puback
			if i%2 == 1 {
				kind = packets.Pubrec // 4.3.3-4: and no PUBREL
			}
			s.raw(packet(kind<<4, int(m.PacketID>>8), int(m.PacketID&255), 0x80))
			s.silent()
		}
		s.nc.Close()
		resumed(t, addr, "s").silent()
	}},
	{"3.3.1-3 DUP is not passed on", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("x", 1)
		q := join(t, addr, v5, "q")
		q.raw(packet(0x3a, "x", 0, 1, 0))
		q.want(packets.Puback, 1)
		if m := s.message("x="); m.FixedHeader.Dup {
			t.Error("DUP")
		}
	}},
	{"3.3.1-5, 3.3.1-6, 3.3.1-7, 3.3.1-8 what is retained", func(t *testing.T, addr string) {
		q := join(t, addr, v5, "q")
		q.retain("x", "1")
		q.retain("x", "2")
		q.publish("x", "3", 1, 1)
		q.want(packets.Puback, 1)
		q.retain("y", "1")
		q.retain("y", "")
		q.retain("z", "")
		s := join(t, addr, v5, "s")
		s.subscribe("#", 0)
		if m := s.message("x=2"); !m.FixedHeader.Retain {
			t.Error("no RETAIN")
		}
		s.silent()
	}},
	{"3.3.1-9, 3.3.1-10, 3.3.1-11, 3.8.4-4 retain handling", func(t *testing.T, addr string) {
		join(t, addr, v5, "q").retain("x", "1")
		for handling, want := range [][]bool{{true, true}, {true, false}, {false, false}} {
			s := join(t, addr, v5, "s")
			for _, come := range want {
				s.subscribe("x", 0, func(f *packets.Subscription) { f.RetainHandling = byte(handling) })
				if come {
					s.message("x=1")
				}
				s.silent()
			}
		}
	}},
	{"3.3.1-12, 3.3.1-13 retain as published", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		for _, as := range []bool{false, true} {
			s.subscribe("x", 0, func(f *packets.Subscription) { f.RetainAsPublished, f.RetainHandling = as, 2 })
			q := join(t, addr, v5, "q")
			q.retain("x", "1")
			if m := s.message("x=1"); m.FixedHeader.Retain != as {
				t.Errorf("as published %v: RETAIN %v", as, m.FixedHeader.Retain)
			}
		}
	}},
	{"3.3.2-4, -15, -16, -17, -18, -20 properties are passed on as they are", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("x", 0)
		given := []byte{1, 1, 3, 0, 1, 't', 8, 0, 1, 'r', 9, 0, 2, 0, 0xff, 0x26, 0, 1, 'b', 0, 0, 0x26, 0, 1, 'a', 0, 1, '2', 0x26, 0, 1, 'a', 0, 1, '1'}
		q := join(t, addr, v5, "q")
		q.raw(packet(0x30, "x", len(given), given, []byte("1")))
		s.exactly(packet(0x30, "x", len(given), given, []byte("1")))
	}},
	{"3.3.2-5, 3.3.2-6, 4.3.3-13 messages that expire while they wait", func(t *testing.T, addr string) {
		s, _ := enter(t, addr, connection(0, lasting, "s"))
		s.subscribe("x", 2)
		s.leave()
		q := join(t, addr, v5, "q")
		began := time.Now()
		for i, lasts := range []uint32{1, 1000} {
			q.publish("x", fmt.Sprint(i), 2, uint16(i+1), func(pk *packets.Packet) { pk.Properties.MessageExpiryInterval = lasts })
			q.want(packets.Pubrec, uint16(i+1))
		}
		time.Sleep(time.Until(began.Add(1100 * time.Millisecond)))
		for id := range uint16(2) {
			q.ack(packets.Pubrel, id+1)
			q.want(packets.Pubcomp, id+1)
		}
		s = resumed(t, addr, "s")
		if left := s.message("x=1").Properties.MessageExpiryInterval; left == 0 || left >= 1000 {
			t.Errorf("%d s are left", left)
		}
		s.silent()
	}},
	{"3.3.4-2, 3.3.4-3, 3.3.4-4 overlapping subscriptions", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("x/#", 0, func(f *packets.Subscription) { f.Identifier = 1 })
		s.subscribe("x/y", 2, func(f *packets.Subscription) { f.Identifier = 268_435_455 })
		s.subscribe("+/y", 1)
		join(t, addr, v5, "q").raw(packet(0x34, "x/y", 0, 1, 0))
		m := s.message("x/y=")
		ids := fmt.Sprint(m.Properties.SubscriptionIdentifier)
		if m.FixedHeader.Qos != 2 || ids != "[1 268435455]" && ids != "[268435455 1]" {
			t.Errorf("QoS %d, identifiers %s", m.FixedHeader.Qos, ids)
		}
		s.silent()
	}},
	{"3.3.4-9, 4.9.0-1, 4.9.0-2, 4.9.0-3 the client's Receive Maximum", func(t *testing.T, addr string) {
		s, _ := enter(t, addr, connection(clean, []byte{packets.PropReceiveMaximum, 0, 1}, "s"))
		s.subscribe("x", 2)
		q := join(t, addr, v5, "q")
		for i, qos := range []byte{2, 1, 0} {
			q.publish("x", fmt.Sprint(i), qos, uint16(i+1))
			if qos > 0 {
				q.read()
			}
		}
		q.silent()
		first := s.message("x=0")
		s.message("x=2") // QoS 0 does not wait
		s.silent()       // and the server goes on to answer
		s.ack(packets.Pubrec, first.PacketID)
		s.want(packets.Pubrel, first.PacketID)
		s.silent()
		s.ack(packets.Pubcomp, first.PacketID)
		s.message("x=1")
	}},
	{"3.8.3-3 no local", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("x", 0, func(f *packets.Subscription) { f.NoLocal = true })
		s.publish("x", "mine", 0, 0)
		s.silent()
		join(t, addr, v5, "q").publish("x", "1", 0, 0)
		s.message("x=1")
	}},
	{"3.8.4-3 a subscription to the same filter replaces the other", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("x", 2, func(f *packets.Subscription) { f.Identifier = 1 })
		s.subscribe("x", 0, func(f *packets.Subscription) { f.Identifier = 2 })
		join(t, addr, v5, "q").publish("x", "1", 1, 1)
		if m := s.message("x=1"); m.FixedHeader.Qos != 0 || fmt.Sprint(m.Properties.SubscriptionIdentifier) != "[2]" {
			t.Errorf("QoS %d, identifiers %v", m.FixedHeader.Qos, m.Properties.SubscriptionIdentifier)
		}
		s.silent()
	}},
	{"3.8.4-5, 3.8.4-6, 3.9.3-1 a code for each filter, in order", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.raw(packet(0x82, 1, 2, 0, "a", 2, "#b", 0, "c", 1, "$share/g/d", 2))
		s.exactly(packet(0x90, 1, 2, 0, 2, 0x8f, 1, 2))
	}},
	{"3.8.4-8 the smaller QoS", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		for granted := range byte(3) {
			s.subscribe("x", granted)
			for sent := range byte(3) {
				q := join(t, addr, v5, "q")
				q.publish("x", "1", sent, 1)
				if m := s.message("x=1"); m.FixedHeader.Qos != min(granted, sent) {
					t.Errorf("%d granted, %d sent: came with %d", granted, sent, m.FixedHeader.Qos)
				}
			}
		}
	}},
	{"3.10.4-1, 3.10.4-2, 3.10.4-5, 3.10.4-6, 3.11.3-1, 3.11.3-2 UNSUBSCRIBE", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.raw(packet(0x82, 0, 1, 0, "x/+", 0, "y", 0))
		s.exactly(packet(0x90, 0, 1, 0, 0, 0))
		s.raw(packet(0xa2, 0, 2, 0, "x/1", "X/+", "y"))
		s.exactly(packet(0xb0, 0, 2, 0, 0x11, 0x11, 0))
		q := join(t, addr, v5, "q")
		q.publish("y", "1", 0, 0)
		q.publish("x/1", "2", 0, 0)
		s.message("x/1=2")
		s.silent()
	}},
	{"3.10.4-3 UNSUBSCRIBE ends no delivery that has begun", func(t *testing.T, addr string) {
		s, _ := enter(t, addr, connection(0, lasting, "s"))
		s.subscribe("x", 2)
		join(t, addr, v5, "q").raw(packet(0x34, "x", 0, 1, 0))
		m := s.message("x=")
		s.raw(packet(0xa2, 0, 2, 0, "x"))
		s.exactly(packet(0xb0, 0, 2, 0, 0))
		s.nc.Close()
		s = resumed(t, addr, "s")
		s.message("x=")
		s.ack(packets.Pubrec, m.PacketID)
		s.want(packets.Pubrel, m.PacketID)
	}},
	{"4.3.2-5, 4.3.3-10, 4.3.3-12 when an identifier is that of a new message", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("x", 0)
		q := join(t, addr, v5, "q")
		for i := range 2 {
			q.publish("x", fmt.Sprint("a", i), 1, 7)
			q.want(packets.Puback, 7)
			s.message(fmt.Sprint("x=a", i))
		}
		for i := range 2 {
			q.publish("x", fmt.Sprint("b", i), 2, 7)
			q.want(packets.Pubrec, 7)
			s.message(fmt.Sprint("x=b", i))
			q.publish("x", "again", 2, 7)
			q.want(packets.Pubrec, 7)
			s.silent()
			q.ack(packets.Pubrel, 7)
			q.want(packets.Pubcomp, 7)
		}
	}},
	{"4.3.2-5, 4.3.3-9 an identifier whose message was refused is that of a new one", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("x", 0)
		q := join(t, addr, v5, "q")
		for qos := byte(1); qos <= 2; qos++ {
			answer := map[byte]byte{1: packets.Puback, 2: packets.Pubrec}[qos]
			q.publish("policed", "1", qos, 9)
			if got := q.want(answer, 9); got.ReasonCode == 0 {
				if qos == 2 {
					q.ack(packets.Pubrel, 9)
					q.want(packets.Pubcomp, 9)
				}
				q.publish("policed", "2", qos, 9)
				if got := q.want(answer, 9); got.ReasonCode != packets.ErrQuotaExceeded.Code {
					t.Errorf("answered %#x", got.ReasonCode)
				}
			}
			q.publish("x", fmt.Sprint("QoS ", qos), qos, 9)
			q.want(answer, 9)
			s.message(fmt.Sprint("x=QoS ", qos))
		}
	}},
	{"4.6.0-6 messages of one publisher keep their order", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("x", 1)
		q := join(t, addr, v5, "q")
		var all []byte
		for i := range 200 {
			all = append(all, packet(0x32, "x", i>>8, i+1, 0, fmt.Append(nil, i))...)
		}
		q.raw(all)
		for i := range 200 {
			s.message(fmt.Sprint("x=", i))
		}
	}},
	{"4.7.3-1, 4.7.3-3 topics of 1 byte and many", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		long := strings.Repeat("ü", 500)
		s.raw(packet(0x82, 0, 1, 0, "/", 0, long, 0))
		s.exactly(packet(0x90, 0, 1, 0, 0, 0))
		s.publish("/", "1", 0, 0)
		s.message("/=1")
		s.publish(long, "2", 0, 0)
		s.message(long + "=2")
	}},
	{"4.7.3-4 nothing is normalised", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("\u00e4", 0)
		s.publish("a\u0308", "1", 0, 0)
		s.publish("\u00c4", "2", 0, 0)
		s.silent()
	}},
	{"4.8.2-3 members of a shared subscription have their own QoS", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("$share/g/x", 1)
		q := join(t, addr, v5, "q")
		q.publish("x", "1", 2, 1)
		if m := s.message("x=1"); m.FixedHeader.Qos != 1 {
			t.Errorf("QoS %d", m.FixedHeader.Qos)
		}
	}},
	{"4.8.2-4, 4.8.2-5 QoS 2 of a shared subscription stays with its member", func(t *testing.T, addr string) {
		s, _ := enter(t, addr, connection(0, lasting, "s"))
		s.subscribe("$share/g/x", 2)
		q := join(t, addr, v5, "q")
		q.publish("x", "1", 2, 1)
		m := s.message("x=1")
		other := join(t, addr, v5, "other")
		other.subscribe("$share/g/x", 2)
		s.nc.Close()
		other.silent()
		s = resumed(t, addr, "s")
		if more := s.message("x=1"); more.PacketID != m.PacketID {
			t.Errorf("it came again as %d, before as %d", more.PacketID, m.PacketID)
		}
		s.leave()
		enter(t, addr, connection(clean, nil, "s")) // its session is over
		other.silent()
	}},
	{"4.8.2-6 a message that a member refuses goes to no other", func(t *testing.T, addr string) {
		s := join(t, addr, v5, "s")
		s.subscribe("$share/g/x", 1)
		q := join(t, addr, v5, "q")
		q.publish("x", "1", 1, 1)
		m := s.message("x=1")
		other := join(t, addr, v5, "other")
		other.subscribe("$share/g/x", 1)
		s.raw(packet(0x40, int(m.PacketID>>8), int(m.PacketID&255), 0x80))
		s.silent()
		other.silent()
	}},
	{"4.13.1-1, 3.14.2-2 a malformed packet ends the connection, with its code and the reason in words, and nothing else", func(t *testing.T, addr string) {
		p, _ := enter(t, addr, connection(clean, lasting, "p"))
		p.raw(packet(0x82, 0, 1, 0))
		why := packets.ErrProtocolViolationNoFilters
		p.exactly(packet(0xe0, int(why.Code), 3+len(why.Reason), []byte{0x1f}, why.Reason))
	}},
	{"3.14.2-3 with its code alone where the client takes no larger packet", func(t *testing.T, addr string) {
		p, _ := enter(t, addr, connection(clean, append([]byte{0x27, 0, 0, 0, 20}, lasting...), "p"))
		p.raw(packet(0x82, 0, 1, 0))
		p.exactly([]byte{0xe0, 1, packets.ErrProtocolViolation.Code})
	}},
}
