package mqtt

import (
	"encoding/binary"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/mono"
)

const (
	v311 = 4
	v5   = 5
)

// farewell returns a DISCONNECT of MQTT 5 with the reason in words, unless it would have more bytes than the client takes.
// With a code alone, paho for Python tells its application that all is well.
func farewell(code packets.Code, most int) []byte {
	reason := code.Reason[:min(len(code.Reason), 100)] // so that all lengths take one byte
	long := append([]byte{packets.Disconnect << 4, byte(5 + len(reason)), code.Code, byte(3 + len(reason)), packets.PropReasonString, 0, byte(len(reason))}, reason...)
	if len(long) > most {
		return []byte{packets.Disconnect << 4, 1, code.Code}
	}
	return long
}

// outgoing is a PUBLISH packet to one client.
type outgoing struct {
	m       *engine.Message
	version byte
	qos     byte
	dup     bool
	retain  bool
	id      uint16
	ids     []uint32 // subscription identifiers
	expiry  uint32   // seconds left; 0 without
}

// expiryLeft returns the seconds, rounded up, that a message has at now; 0 if it does
// not expire.
func expiryLeft(m *engine.Message, now mono.Time) uint32 {
	if m.Expires == mono.Never {
		return 0
	}
	return uint32(max((m.Expires.Sub(now)+1e9-1)/1e9, 1))
}

// sizes returns the length of the properties and of all after the fixed header.
func (p *outgoing) sizes() (properties, remaining int) {
	remaining = 2 + len(p.m.Topic.Name()) + len(p.m.Payload)
	if p.qos > 0 {
		remaining += 2
	}
	if p.version == v5 {
		properties = len(p.m.Properties)
		if p.expiry > 0 {
			properties += 5
		}
		for _, id := range p.ids {
			properties += 1 + lengthOf(int(id))
		}
		remaining += lengthOf(properties) + properties
	}
	return properties, remaining
}

// size returns the length of the whole packet.
func (p *outgoing) size() int {
	_, remaining := p.sizes()
	return 1 + lengthOf(remaining) + remaining
}

func (p *outgoing) append(buf []byte) []byte {
	properties, remaining := p.sizes()
	head := packets.Publish<<4 | p.qos<<1
	if p.dup {
		head |= 8
	}
	if p.retain {
		head |= 1
	}
	buf = appendLength(append(buf, head), remaining)
	buf = binary.BigEndian.AppendUint16(buf, uint16(len(p.m.Topic.Name())))
	buf = append(buf, p.m.Topic.Name()...)
	if p.qos > 0 {
		buf = binary.BigEndian.AppendUint16(buf, p.id)
	}
	if p.version == v5 {
		buf = append(appendLength(buf, properties), p.m.Properties...)
		if p.expiry > 0 {
			buf = binary.BigEndian.AppendUint32(append(buf, packets.PropMessageExpiryInterval), p.expiry)
		}
		for _, id := range p.ids {
			buf = appendLength(append(buf, packets.PropSubscriptionIdentifier), int(id))
		}
	}
	return append(buf, p.m.Payload...)
}

// appendAck appends a PUBACK, PUBREC, PUBREL or PUBCOMP packet. Only MQTT 5 has a
// code.
func appendAck(buf []byte, kind, version byte, id uint16, code byte) []byte {
	head := kind << 4
	if kind == packets.Pubrel {
		head |= 2
	}
	if version == v5 && code != 0 {
		return append(buf, head, 3, byte(id>>8), byte(id), code)
	}
	return append(buf, head, 2, byte(id>>8), byte(id))
}

// ackSize is the largest that appendAck appends.
const ackSize = 5

// lengthOf returns how many bytes appendLength takes.
func lengthOf(n int) int {
	switch {
	case n < 1<<7:
		return 1
	case n < 1<<14:
		return 2
	case n < 1<<21:
		return 3
	}
	return 4
}

// appendLength appends n as a variable byte integer.
func appendLength(buf []byte, n int) []byte {
	for n >= 1<<7 {
		buf = append(buf, byte(n)|1<<7)
		n >>= 7
	}
	return append(buf, byte(n))
}
