package nats

import (
	"bytes"
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/mochi-mqtt/server/v2/packets"
)

// headerVersion begins every header.
const headerVersion = "NATS/1.0"

// appendProperties appends to buf, as properties of MQTT 5, the topic of a reply and
// the lines of a header. It reports false for a header that is malformed or that
// properties cannot express: text that is not UTF-8, or longer than 65,535 bytes.
func appendProperties(buf, reply, header []byte) ([]byte, bool) {
	if len(reply) > 0 {
		buf = appendText(append(buf, packets.PropResponseTopic), reply)
	}
	if len(header) == 0 {
		return buf, true
	}
	first, rest, found := bytes.Cut(header, []byte("\r\n"))
	if !found || !bytes.HasPrefix(first, []byte(headerVersion)) {
		return buf, false
	}
	for len(rest) > 0 {
		var line []byte
		line, rest, found = bytes.Cut(rest, []byte("\r\n"))
		if !found {
			return buf, false
		}
		if len(line) == 0 {
			return buf, len(rest) == 0
		}
		key, value, found := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		if !found || !goodKey(key) || !goodValue(value) {
			return buf, false
		}
		buf = appendText(appendText(append(buf, packets.PropUser), key), value)
	}
	return buf, false // without an empty line at its end
}

func appendText(buf, text []byte) []byte {
	return append(binary.BigEndian.AppendUint16(buf, uint16(len(text))), text...)
}

func goodKey(key []byte) bool {
	return len(key) > 0 && goodValue(key) && !bytes.ContainsAny(key, ": \t")
}

func goodValue(value []byte) bool {
	return len(value) <= math.MaxUint16 && utf8.Valid(value) && !bytes.ContainsAny(value, "\r\n\x00")
}

// property is one property that a message has.
type property struct {
	id         byte
	key, value []byte // key of PropUser alone
}

// nextProperty takes the first property from a list that the broker encoded, or
// reports false at its end.
func nextProperty(list []byte) (p property, rest []byte, ok bool) {
	if len(list) == 0 {
		return p, nil, false
	}
	p.id, rest = list[0], list[1:]
	texts := 1
	switch p.id {
	case packets.PropPayloadFormat:
		if len(rest) == 0 {
			return p, nil, false
		}
		return p, rest[1:], true
	case packets.PropUser:
		texts = 2
	case packets.PropResponseTopic, packets.PropContentType, packets.PropCorrelationData:
	default:
		return p, nil, false
	}
	for range texts {
		if len(rest) < 2 || len(rest)-2 < int(binary.BigEndian.Uint16(rest)) {
			return p, nil, false
		}
		n := 2 + int(binary.BigEndian.Uint16(rest))
		p.key, p.value, rest = p.value, rest[2:n], rest[n:]
	}
	return p, rest, true
}

// extras are the topic of a reply and the length of the header that properties make,
// 0 without one.
func extras(properties []byte) (reply []byte, header int) {
	for p, rest, ok := nextProperty(properties); ok; p, rest, ok = nextProperty(rest) {
		switch {
		case p.id == packets.PropResponseTopic:
			reply = p.value
		case p.id == packets.PropUser && goodKey(p.key) && goodValue(p.value):
			header += len(p.key) + len(": \r\n") + len(p.value)
		}
	}
	if header > 0 {
		header += len(headerVersion) + len("\r\n\r\n")
	}
	return reply, header
}

// appendHeader appends the header whose length extras has told.
func appendHeader(buf, properties []byte) []byte {
	buf = append(buf, headerVersion+"\r\n"...)
	for p, rest, ok := nextProperty(properties); ok; p, rest, ok = nextProperty(rest) {
		if p.id == packets.PropUser && goodKey(p.key) && goodValue(p.value) {
			buf = append(append(append(append(buf, p.key...), ": "...), p.value...), "\r\n"...)
		}
	}
	return append(buf, "\r\n"...)
}
