package mqtt

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"
)

// packet returns a packet of a first byte and the parts of its body: bytes, and texts with their length.
func packet(first byte, parts ...any) []byte {
	var body []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			body = append(body, byte(p))
		case string:
			body = append(append(body, byte(len(p)>>8), byte(len(p))), p...)
		case []byte:
			body = append(body, p...)
		}
	}
	return append(appendLength([]byte{first}, len(body)), body...)
}

// Flags of CONNECT.
const (
	clean      = 0x02
	willFlag   = 0x04
	retainFlag = 0x20
)

// connection returns a CONNECT with flags, properties and payload.
func connection(flags int, properties []byte, payload ...any) []byte {
	return packet(0x10, append([]any{"MQTT", 5, flags, 0, 60, len(properties), properties}, payload...)...)
}

// What MQTT 5 says a server must do with a CONNECT that is wrong, by the numbers of its statements, or of the section that calls
// it an error. It may close without an answer where a packet is malformed (3.1.4-1): that is a code of 0.
func TestConnectStatements(t *testing.T) {
	malformed, protocol := packets.ErrMalformedPacket.Code, packets.ErrProtocolViolation.Code
	tests := []struct {
		statement string
		packet    []byte
		codes     []byte // any of them
	}{
		{"1.5.4-1 ill-formed UTF-8 in the client identifier", connection(clean, nil, "\xc3\x28"), []byte{0, malformed, packets.ErrClientIdentifierNotValid.Code}},
		{"1.5.4-1 a surrogate in the user name", connection(clean|0x80, nil, "a", "\xed\xa0\x80"), []byte{0, malformed}},
		{"1.5.4-2 U+0000 in the client identifier", connection(clean, nil, "a\x00b"), []byte{0, malformed, packets.ErrClientIdentifierNotValid.Code}},
		{"1.5.4-1 ill-formed UTF-8 in a user property", connection(clean, []byte{0x26, 0, 1, 0xff, 0, 1, 'a'}, "a"), []byte{0, malformed}},
		{"1.5.4-2 U+0000 in the will's topic", connection(clean|willFlag, nil, "a", 0, "a\x00", "x"), []byte{0, malformed, packets.ErrTopicNameInvalid.Code}},
		{"1.5.5-1 a length of more bytes than it needs", append([]byte{0x10, 0x8e, 0x00}, connection(clean, nil, "a")[2:]...), []byte{0, malformed}},
		{"2.1.3-1 reserved flags of the packet", append([]byte{0x11}, connection(clean, nil, "a")[1:]...), []byte{0, malformed}},
		{"3.1.2-3 reserved flag of CONNECT", connection(clean|1, nil, "a"), []byte{0, malformed, protocol}},
		{"3.1.2-11 a will's QoS without a will", connection(clean|0x08, nil, "a"), []byte{0, malformed, protocol}},
		{"3.1.2-12 a will's QoS of 3", connection(clean|willFlag|0x18, nil, "a", 0, "a", "x"), []byte{0, malformed, protocol}},
		{"3.1.2-13 a will that is retained, without a will", connection(clean|retainFlag, nil, "a"), []byte{0, malformed, protocol}},
		{"3.1.2-17 the user name is missing", connection(clean|0x80, nil, "a"), []byte{0, malformed, protocol}},
		{"3.1.2-16 a user name without its flag", connection(clean, nil, "a", "u"), []byte{0, malformed, protocol}},
		{"3.1.2.11.3 Receive Maximum 0", connection(clean, []byte{0x21, 0, 0}, "a"), []byte{0, protocol}},
		{"3.1.2.11.3 Receive Maximum twice", connection(clean, []byte{0x21, 0, 1, 0x21, 0, 1}, "a"), []byte{0, protocol, malformed}},
		{"3.1.2.11.4 Maximum Packet Size 0", connection(clean, []byte{0x27, 0, 0, 0, 0}, "a"), []byte{0, protocol}},
		{"3.1.2.11.2 Session Expiry twice", connection(clean, []byte{0x11, 0, 0, 0, 1, 0x11, 0, 0, 0, 1}, "a"), []byte{0, protocol, malformed}},
		{"3.1.2.11.6 Request Response Information 2", connection(clean, []byte{0x19, 2}, "a"), []byte{0, protocol, malformed}},
		{"3.1.2.11.7 Request Problem Information 2", connection(clean, []byte{0x17, 2}, "a"), []byte{0, protocol, malformed}},
		{"3.1.2.11.10 Authentication Data without a method", connection(clean, []byte{0x16, 0, 1, 'x'}, "a"), []byte{0, protocol, malformed}},
		{"2.2.2.2 a property of another packet", connection(clean, []byte{0x23, 0, 1}, "a"), []byte{0, protocol, malformed}},
		{"3.1.3.2.4 a will's payload format 2", connection(clean|willFlag, nil, "a", 2, []byte{0x01, 2}, "t", "x"), []byte{0, protocol, malformed}},
		{"3.1.0-1 no CONNECT first", packet(0xc0), []byte{0}},
		{"4.12.0-1 another method of authentication", connection(clean, []byte{0x15, 0, 1, 'x'}, "a"), []byte{packets.ErrBadAuthenticationMethod.Code}},
	}
	_, addr := start(t, Limits{})
	for _, tt := range tests {
		t.Run(tt.statement, func(t *testing.T) {
			p := dial(t, addr, v5)
			p.raw(tt.packet)
			var code byte
			if got, err := p.next(); err == nil {
				if code = got.ReasonCode; code == 0 {
					t.Fatalf("answered %s with success", packets.PacketNames[got.FixedHeader.Type])
				}
				_, err = p.next()
				ended(t, err)
			} else {
				ended(t, err)
			}
			for _, want := range tt.codes {
				if code == want {
					return
				}
			}
			t.Errorf("answered with %#x, want one of %#x", code, tt.codes)
		})
	}
}

// ended checks that a connection has, and not only fallen silent.
func ended(t *testing.T, err error) {
	t.Helper()
	var timeout net.Error
	if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection is open (%v)", err)
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.As(err, &timeout) {
		t.Errorf("it says what cannot be read: %v", err)
	}
}

// What MQTT 5 says of packets after CONNECT: those that end the connection, with their codes, and those that do not.
func TestPacketStatements(t *testing.T) {
	malformed, protocol := packets.ErrMalformedPacket.Code, packets.ErrProtocolViolation.Code
	alias := packets.ErrTopicAliasInvalid.Code
	topic := packets.ErrTopicNameInvalid.Code
	tests := []struct {
		statement string
		packet    []byte
		codes     []byte
	}{
		{"1.5.4-1 ill-formed UTF-8 in a topic", packet(0x30, "\xff", 0), []byte{malformed, topic}},
		{"1.5.4-2 U+0000 in a topic", packet(0x30, "a\x00", 0), []byte{malformed, topic}},
		{"1.5.4-1 ill-formed UTF-8 in a filter", packet(0x82, 0, 1, 0, "\xff", 0), []byte{malformed, packets.ErrTopicFilterInvalid.Code}},
		{"1.5.4-1 ill-formed UTF-8 in a user property", packet(0x30, "a", 7, []byte{0x26, 0, 1, 'k', 0, 1, 0xff}), []byte{malformed}},
		{"1.5.5-1 a length of more bytes than it needs", []byte{0xc0, 0x80, 0x00}, []byte{malformed}},
		{"1.5.5-1 a length of properties of more bytes than it needs", packet(0x30, "a", 0x80, 0x00), []byte{malformed}},
		{"2.2.1-3 SUBSCRIBE with the identifier 0", packet(0x82, 0, 0, 0, "a", 0), []byte{protocol}},
		{"2.2.1-3 UNSUBSCRIBE with the identifier 0", packet(0xa2, 0, 0, 0, "a"), []byte{protocol}},
		{"3.1.0-2 a second CONNECT", connection(clean, nil, "a"), []byte{protocol}},
		{"3.3.1-2 DUP with QoS 0", packet(0x38, "a", 0), []byte{protocol, malformed}},
		{"3.3.1-4 QoS 3", packet(0x36, "a", 0, 1, 0), []byte{malformed, protocol}},
		{"3.3.2-2 a wildcard in a topic", packet(0x30, "a/#", 0), []byte{topic}},
		{"3.3.2-8 topic alias 0", packet(0x30, "a", 3, []byte{0x23, 0, 0}), []byte{alias}},
		{"3.3.2-8 topic alias 0 without a topic", packet(0x30, "", 3, []byte{0x23, 0, 0}), []byte{alias}},
		{"3.3.2-9 topic alias beyond the maximum", packet(0x30, "a", 3, []byte{0x23, 0, 1}), []byte{alias}},
		{"3.3.2.1 no topic and no alias", packet(0x30, "", 0), []byte{protocol}},
		{"3.3.2-14 a wildcard in a response topic", packet(0x30, "a", 4, []byte{0x08, 0, 1, '#'}), []byte{protocol, topic, malformed}},
		{"3.3.2.3.2 payload format 2", packet(0x30, "a", 2, []byte{0x01, 2}), []byte{protocol, malformed}},
		{"3.3.2.3.3 expiry twice", packet(0x30, "a", 10, []byte{2, 0, 0, 0, 1, 2, 0, 0, 0, 1}), []byte{protocol, malformed}},
		{"3.3.2.3.5 response topic twice", packet(0x30, "a", 8, []byte{8, 0, 1, 'a', 8, 0, 1, 'b'}), []byte{protocol, malformed}},
		{"3.3.4-6 a subscription identifier from a client", packet(0x30, "a", 2, []byte{0x0b, 1}), []byte{protocol}},
		{"3.6.1-1 flags of PUBREL", packet(0x60, 0, 1), []byte{malformed}},
		{"3.8.1-1 flags of SUBSCRIBE", packet(0x80, 0, 1, 0, "a", 0), []byte{malformed}},
		{"3.8.3-2 SUBSCRIBE without a filter", packet(0x82, 0, 1, 0), []byte{protocol}},
		{"3.8.3-4 no local with a shared subscription", packet(0x82, 0, 1, 0, "$share/g/a", 4), []byte{protocol}},
		{"3.8.3-5 reserved bits of the options", packet(0x82, 0, 1, 0, "a", 0x40), []byte{malformed}},
		{"3.8.3.1 QoS 3 in the options", packet(0x82, 0, 1, 0, "a", 3), []byte{malformed, protocol}},
		{"3.8.3.1 retain handling 3", packet(0x82, 0, 1, 0, "a", 0x30), []byte{protocol}},
		{"3.8.2.1.2 subscription identifier 0", packet(0x82, 0, 1, 2, []byte{0x0b, 0}, "a", 0), []byte{protocol}},
		{"3.8.2.1.2 subscription identifier twice", packet(0x82, 0, 1, 4, []byte{0x0b, 1, 0x0b, 2}, "a", 0), []byte{protocol, malformed}},
		{"3.10.1-1 flags of UNSUBSCRIBE", packet(0xa0, 0, 1, 0, "a"), []byte{malformed}},
		{"3.10.3-2 UNSUBSCRIBE without a filter", packet(0xa2, 0, 1, 0), []byte{protocol}},
		{"2.1.3-1 flags of PINGREQ", packet(0xc1), []byte{malformed}},
		{"3.14.1-1 flags of DISCONNECT", packet(0xe1), []byte{malformed}},
		{"3.14.2.2.2 an expiry that the session did not have", packet(0xe0, 0, 5, []byte{0x11, 0, 0, 0, 1}), []byte{protocol}},
		{"3.15.1-1 flags of AUTH", packet(0xf1), []byte{malformed}},
		{"2.1.2 the reserved type", packet(0x00), []byte{malformed, protocol}},
		{"3.9 SUBACK from a client", packet(0x90, 0, 1, 0, 0), []byte{protocol, malformed}},
		{"2.2.2.2 a property of another packet", packet(0x30, "a", 3, []byte{0x21, 0, 1}), []byte{protocol, malformed}},
	}
	_, addr := start(t, Limits{})
	for _, tt := range tests {
		t.Run(tt.statement, func(t *testing.T) {
			p := join(t, addr, v5, "statements")
			p.raw(tt.packet)
			got, err := p.next()
			if err != nil {
				t.Fatalf("closed without a code, want one of %#x", tt.codes)
			}
			_, err = p.next()
			if got.FixedHeader.Type != packets.Disconnect {
				t.Fatalf("answered %s %+v, want DISCONNECT with one of %#x", packets.PacketNames[got.FixedHeader.Type], got.ReasonCodes, tt.codes)
			}
			ended(t, err)
			for _, want := range tt.codes {
				if got.ReasonCode == want {
					return
				}
			}
			t.Errorf("DISCONNECT with %#x, want one of %#x", got.ReasonCode, tt.codes)
		})
	}
}

// Packets that are answered, or that change nothing.
func TestAnswerStatements(t *testing.T) {
	tests := []struct {
		statement    string
		packet, want []byte
	}{
		{"3.12.4-1 PINGREQ", packet(0xc0), packet(0xd0)},
		{"4.3.3 PUBREL of an identifier that is not in use", packet(0x62, 0, 9), packet(0x70, 0, 9, 0x92)},
		{"4.3.3 PUBREC of an identifier that is not in use", packet(0x50, 0, 9), packet(0x62, 0, 9, 0x92)},
		{"3.8.4-1 SUBSCRIBE, and its identifier", packet(0x82, 0, 9, 0, "a", 1, "b/+", 2), packet(0x90, 0, 9, 0, 1, 2)},
		{"4.7.1-1 # is not last", packet(0x82, 0, 9, 0, "a/#/b", 0, "c", 0), packet(0x90, 0, 9, 0, 0x8f, 0)},
		{"4.7.1-1 # in a level", packet(0x82, 0, 9, 0, "a#", 0), packet(0x90, 0, 9, 0, 0x8f)},
		{"4.7.1-2 + in a level", packet(0x82, 0, 9, 0, "a+", 0), packet(0x90, 0, 9, 0, 0x8f)},
		{"4.7.3-1 an empty filter", packet(0x82, 0, 9, 0, "", 0), packet(0x90, 0, 9, 0, 0x8f)},
		{"4.8.2-1 a group without a name", packet(0x82, 0, 9, 0, "$share//a", 0), packet(0x90, 0, 9, 0, 0x8f)},
		{"4.8.2-2 a group without a filter", packet(0x82, 0, 9, 0, "$share/g", 0), packet(0x90, 0, 9, 0, 0x8f)},
		{"4.8.2-2 a group with a wildcard in its name", packet(0x82, 0, 9, 0, "$share/g+/a", 0), packet(0x90, 0, 9, 0, 0x8f)},
		{"3.11.3-1 UNSUBSCRIBE of what was not subscribed to", packet(0xa2, 0, 9, 0, "x", "y"), packet(0xb0, 0, 9, 0, 0x11, 0x11)},
		{"3.3.5 QoS 1", packet(0x32, "q", 0, 9, 0), packet(0x40, 0, 9)},
		{"4.3.3-8 QoS 2", packet(0x34, "q", 0, 9, 0), packet(0x50, 0, 9)},
		{"4.3.3-10 QoS 2 once more", packet(0x3c, "q", 0, 9, 0), packet(0x50, 0, 9)},
		{"4.3.3-11 PUBREL", packet(0x62, 0, 9), packet(0x70, 0, 9)},
		{"4.3.3-11 PUBREL with a code and properties", append(packet(0x34, "q", 0, 8, 0), packet(0x62, 0, 8, 0, 0)...), append(packet(0x50, 0, 8), packet(0x70, 0, 8)...)},
		{"1.5.4-3 U+FEFF is kept", append(packet(0x82, 0, 7, 0, "\ufeffx", 0), packet(0x30, "\ufeffx", 0)...), append(packet(0x90, 0, 7, 0, 0), packet(0x30, "\ufeffx", 0)...)},
		{"3.3.2-17 properties are passed on in their order", append(packet(0x82, 0, 7, 0, "p", 0), packet(0x30, "p", 22, []byte{1, 1}, 0x26, "k", "1", 0x26, "k", "0", 0x26, "b", "")...),
			append(packet(0x90, 0, 7, 0, 0), packet(0x30, "p", 22, []byte{1, 1}, 0x26, "k", "1", 0x26, "k", "0", 0x26, "b", "")...)},
		{"4.7.2-1 a wildcard does not match $", append(packet(0x82, 0, 7, 0, "+/y", 0), packet(0x30, "$x/y", 0)...), packet(0x90, 0, 7, 0, 0)},
	}
	_, addr := start(t, Limits{})
	p := join(t, addr, v5, "answers")
	for _, tt := range tests {
		p.raw(append(tt.packet, packet(0xc0)...))
		want := append(tt.want, packet(0xd0)...)
		got := make([]byte, 0, len(want))
		for len(got) < len(want) {
			buf := make([]byte, len(want)-len(got))
			n, err := p.nc.Read(buf)
			if got = append(got, buf[:n]...); err != nil {
				t.Fatalf("%s: answered % x, %v, want % x", tt.statement, got, err, want)
			}
		}
		if string(got) != string(want) {
			t.Fatalf("%s: answered % x, want % x", tt.statement, got, want)
		}
	}
}
