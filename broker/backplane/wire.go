package backplane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/mono"
)

// format is the version of what nodes send each other. A node refuses another one.
//
//	byte     0        1                    2…
//	         format   QoS, 4: retain       time left, ms, 0 without │ sender │ origin │ number │
//	                                       topic │ properties │ payload, to the end
//
// Numbers are unsigned varints; topic and properties have their length in front. The
// origin is a random number of the process that took the message from its publisher, and
// the number counts what that took: together they are the message's own.
const format = 1

// packetOverhead is the most that a packet takes beside topic, properties and payload.
const packetOverhead = 2 + 6*binary.MaxVarintLen64

// MaxOverhead is the most bytes that a message has between nodes beside what its
// publisher sent.
const MaxOverhead = 4 << 10

// packet is a message between nodes; its slices are views.
type packet struct {
	qos                        byte
	retain                     bool
	left                       time.Duration // until it expires; 0 without
	sender                     uint64        // the client that published it, by a hash
	number                     number
	topic, properties, payload []byte
}

// packetOf returns what to send of a message.
func packetOf(m *engine.Message, now mono.Time, n number) packet {
	p := packet{qos: m.QoS, retain: m.Retain, sender: m.Sender, number: n, topic: []byte(m.Topic.Name()), properties: m.Properties, payload: m.Payload}
	if m.Expires != mono.Never {
		p.left = max(m.Expires.Sub(now), time.Millisecond)
	}
	return p
}

func (p *packet) append(to []byte) []byte {
	flags := p.qos
	if p.retain {
		flags |= 4
	}
	to = append(to, format, flags)
	to = binary.AppendUvarint(to, uint64((p.left+time.Millisecond-1)/time.Millisecond))
	to = binary.AppendUvarint(to, p.sender)
	to = binary.AppendUvarint(to, p.number.origin)
	to = binary.AppendUvarint(to, p.number.count)
	for _, s := range [...][]byte{p.topic, p.properties} {
		to = append(binary.AppendUvarint(to, uint64(len(s))), s...)
	}
	return append(to, p.payload...)
}

var errShort = errors.New("backplane: a message ends too early")

// decode reads a packet, whose slices are views of data.
func decode(data []byte) (p packet, err error) {
	if len(data) < 2 {
		return p, errShort
	}
	if data[0] != format {
		return p, fmt.Errorf("backplane: a message of format %d, expected %d: run one version on all nodes", data[0], format)
	}
	if data[1]&^7 != 0 || data[1]&3 == 3 {
		return p, fmt.Errorf("backplane: a message with flags %#x, expected QoS 0 to 2 and retain", data[1])
	}
	p.qos, p.retain = data[1]&3, data[1]&4 != 0
	rest := data[2:]
	varint := func() (n uint64) {
		n, size := binary.Uvarint(rest)
		if size <= 0 {
			err, rest = errShort, nil
			return 0
		}
		rest = rest[size:]
		return n
	}
	if left := varint(); left > 0 {
		p.left = time.Duration(min(left, 1<<42)) * time.Millisecond
	}
	p.sender = varint()
	p.number.origin = varint()
	p.number.count = varint()
	for _, to := range [...]*[]byte{&p.topic, &p.properties} {
		n := varint()
		if n > uint64(len(rest)) {
			return p, errShort
		}
		*to, rest = rest[:n:n], rest[n:]
	}
	p.payload = rest
	return p, err
}

// message returns a packet as one to be delivered by the hub.
func (p *packet) message(hub *engine.Hub, now mono.Time) (m engine.Message, err error) {
	t, err := hub.Delivered(p.topic)
	if err != nil {
		return m, err
	}
	m = engine.Message{Topic: t, Payload: p.payload, Properties: p.properties, Expires: mono.Never, QoS: p.qos, Retain: p.retain, Sender: p.sender, Origin: p.number.origin, Number: p.number.count}
	if p.left > 0 {
		m.Expires = now.Add(p.left)
	}
	return m, nil
}
