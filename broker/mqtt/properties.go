package mqtt

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"github.com/mochi-mqtt/server/v2/packets"
)

// The codec takes properties that MQTT 5 forbids: twice, with values out of range, lengths that are longer than they need be.
// So they are looked at before it decodes them.

// form is how a property is encoded.
type form uint8

const (
	flag      form = iota + 1 // a byte, 0 or 1
	two                       // bytes
	twoAbove0                 // and the number is not 0
	four
	fourAbove0
	varying // a number of 1 to 4 bytes that is not 0
	text
	binaryData
	pair // of texts; may be there more than once
)

// ofWill is the properties of a will, beside those of packets, whose types are bits.
const ofWill = 0

const (
	inPublish = 1<<packets.Publish | 1<<ofWill
	inAcks    = 1<<packets.Puback | 1<<packets.Pubrec | 1<<packets.Pubrel | 1<<packets.Pubcomp
	inAll     = inPublish | inAcks | 1<<packets.Connect | 1<<packets.Subscribe | 1<<packets.Unsubscribe | 1<<packets.Disconnect
)

// properties are those that a client may send, by their identifiers, and where.
var properties = map[byte]struct {
	form
	in uint16
}{
	packets.PropPayloadFormat:          {flag, inPublish},
	packets.PropMessageExpiryInterval:  {four, inPublish},
	packets.PropContentType:            {text, inPublish},
	packets.PropResponseTopic:          {text, inPublish},
	packets.PropCorrelationData:        {binaryData, inPublish},
	packets.PropSubscriptionIdentifier: {varying, 1<<packets.Subscribe | 1<<packets.Publish}, // the codec knows who may not
	packets.PropSessionExpiryInterval:  {four, 1<<packets.Connect | 1<<packets.Disconnect},
	packets.PropAuthenticationMethod:   {text, 1 << packets.Connect},
	packets.PropAuthenticationData:     {binaryData, 1 << packets.Connect},
	packets.PropRequestProblemInfo:     {flag, 1 << packets.Connect},
	packets.PropWillDelayInterval:      {four, 1 << ofWill},
	packets.PropRequestResponseInfo:    {flag, 1 << packets.Connect},
	packets.PropReasonString:           {text, inAcks | 1<<packets.Disconnect},
	packets.PropReceiveMaximum:         {twoAbove0, 1 << packets.Connect},
	packets.PropTopicAliasMaximum:      {two, 1 << packets.Connect},
	packets.PropTopicAlias:             {two, 1 << packets.Publish},
	packets.PropUser:                   {pair, inAll},
	packets.PropMaximumPacketSize:      {fourAbove0, 1 << packets.Connect},
}

// checkProperties looks at the properties at the beginning of b, those of a packet of that type, and returns what follows
// them.
func checkProperties(b []byte, of byte) (rest []byte, err error) {
	n, b, ok := number(b)
	if !ok || n > len(b) {
		return nil, packets.ErrMalformedProperties
	}
	list, rest := b[:n], b[n:]
	var seen [256]bool
	method, data := false, false
	for len(list) > 0 {
		id := list[0]
		p, known := properties[id]
		switch {
		case !known:
			return nil, packets.ErrMalformedPacket
		case p.in&(1<<of) == 0, seen[id] && p.form != pair:
			return nil, packets.ErrProtocolViolation
		case id == packets.PropTopicAlias: // none is offered, so that any is beyond the maximum
			return nil, packets.ErrTopicAliasInvalid
		}
		seen[id] = true
		method, data = method || id == packets.PropAuthenticationMethod, data || id == packets.PropAuthenticationData
		if list, err = p.skip(list[1:]); err != nil {
			return nil, err
		}
	}
	if data && !method {
		return nil, packets.ErrProtocolViolation
	}
	return rest, nil
}

// skip returns what follows a property of that form.
func (f form) skip(b []byte) ([]byte, error) {
	size, least := 0, uint32(0)
	switch f {
	case flag:
		if len(b) > 0 && b[0] > 1 {
			return nil, packets.ErrProtocolViolation
		}
		size = 1
	case two, twoAbove0:
		size = 2
	case four, fourAbove0:
		size = 4
	case varying:
		n, rest, ok := number(b)
		switch {
		case !ok:
			return nil, packets.ErrMalformedPacket
		case n == 0:
			return nil, packets.ErrProtocolViolation
		}
		return rest, nil
	case pair:
		rest, ok := skipText(b, true)
		if ok {
			rest, ok = skipText(rest, true)
		}
		return rest, malformedUnless(ok)
	default:
		rest, ok := skipText(b, f == text)
		return rest, malformedUnless(ok)
	}
	if len(b) < size {
		return nil, packets.ErrMalformedPacket
	}
	if f == twoAbove0 || f == fourAbove0 {
		least = 1
	}
	var value [4]byte
	copy(value[4-size:], b)
	if binary.BigEndian.Uint32(value[:]) < least {
		return nil, packets.ErrProtocolViolation
	}
	return b[size:], nil
}

func malformedUnless(ok bool) error {
	if ok {
		return nil
	}
	return packets.ErrMalformedPacket
}

// number reads a number of 1 to 4 bytes, as few as it needs.
func number(b []byte) (n int, rest []byte, ok bool) {
	for i, c := range b[:min(len(b), 4)] {
		n |= int(c&127) << (7 * i)
		if c < 128 {
			return n, b[i+1:], i == 0 || c > 0
		}
	}
	return 0, nil, false
}

// skipText returns what follows a text, or bytes, with their length in front.
func skipText(b []byte, isText bool) (rest []byte, ok bool) {
	if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
		return nil, false
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	return b[n:], !isText || goodText(b[2:n])
}

// goodText reports whether bytes are a text of MQTT.
func goodText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// checkBody looks at what the codec leaves out, in the body of a packet other than PUBLISH.
func checkBody(kind, version byte, body []byte) (err error) {
	switch kind {
	case packets.Connect:
		return checkConnectBody(body)
	case packets.Subscribe, packets.Unsubscribe:
		if len(body) < 2 {
			return packets.ErrMalformedPacket
		}
		body = body[2:]
		if version == v5 {
			if body, err = checkProperties(body, kind); err != nil {
				return err
			}
		}
		return checkFilters(body, kind == packets.Subscribe, version)
	case packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp:
		return checkEnd(body, 3, kind, version)
	case packets.Disconnect:
		return checkEnd(body, 1, kind, version)
	}
	return nil
}

// checkEnd looks at a body whose last part is properties, from a position on, which may be left out.
func checkEnd(body []byte, at int, kind, version byte) error {
	if version != v5 || len(body) <= at {
		return nil
	}
	rest, err := checkProperties(body[at:], kind)
	if err == nil && len(rest) > 0 {
		err = packets.ErrMalformedPacket
	}
	return err
}

// checkFilters looks at the filters of SUBSCRIBE, with their options, or of UNSUBSCRIBE.
func checkFilters(b []byte, options bool, version byte) error {
	reserved := byte(0xc0)
	if version != v5 {
		reserved = 0xfc
	}
	for len(b) > 0 {
		rest, ok := skipText(b, true)
		if !ok {
			return packets.ErrMalformedPacket
		}
		if b = rest; !options {
			continue
		}
		if len(b) == 0 || b[0]&reserved != 0 {
			return packets.ErrMalformedPacket
		}
		b = b[1:]
	}
	return nil
}

// checkConnectBody looks at the properties and texts of CONNECT, and that nothing follows them. What concerns the
// protocol's name and version is left to others.
func checkConnectBody(b []byte) (err error) {
	b, ok := skipText(b, false)
	if !ok || len(b) < 4 {
		return packets.ErrMalformedPacket
	}
	version, flags := b[0], b[1]
	if version != v311 && version != v5 {
		return nil
	}
	if b = b[4:]; version == v5 {
		if b, err = checkProperties(b, packets.Connect); err != nil {
			return err
		}
	}
	texts := []bool{true} // or bytes: first the client's identifier
	if flags&0x04 != 0 {
		if b, ok = skipText(b, true); !ok {
			return packets.ErrMalformedPacket
		}
		if version == v5 {
			if b, err = checkProperties(b, ofWill); err != nil {
				return err
			}
		}
		texts = []bool{true, false}
	}
	if flags&0x80 != 0 {
		texts = append(texts, true)
	}
	if flags&0x40 != 0 {
		texts = append(texts, false)
	}
	for _, isText := range texts {
		if b, ok = skipText(b, isText); !ok {
			return packets.ErrMalformedPacket
		}
	}
	return malformedUnless(len(b) == 0)
}
