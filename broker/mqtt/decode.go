package mqtt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/mono"
)

// frame returns the first packet in buf: its fixed header and its body. need is
// how long buf has to be at least before it is worth another look, 0 if there is
// a packet.
func frame(buf []byte, most int) (head packets.FixedHeader, body []byte, need int, err error) {
	if len(buf) < 2 {
		return head, nil, 2, nil
	}
	if err := head.Decode(buf[0]); err != nil {
		return head, nil, 0, err
	}
	n, at := 0, 1
	for {
		if at == len(buf) {
			return head, nil, at + 1, nil
		}
		c := buf[at]
		n |= int(c&127) << (7 * (at - 1))
		at++
		if c < 128 {
			if c == 0 && at > 2 { // more bytes than the length needs
				return head, nil, 0, packets.ErrMalformedVariableByteInteger
			}
			break
		}
		if at == 5 {
			return head, nil, 0, packets.ErrMalformedVariableByteInteger
		}
	}
	if at+n > most {
		return head, nil, 0, packets.ErrPacketTooLarge
	}
	if len(buf) < at+n {
		return head, nil, at + n, nil
	}
	head.Remaining = n
	return head, buf[at : at+n], 0, nil
}

// decode decodes the body of any packet that a client may send. Its texts and
// bytes are views of body.
func decode(head packets.FixedHeader, version byte, body []byte) (pk packets.Packet, err error) {
	pk.FixedHeader, pk.ProtocolVersion = head, version
	defer func() {
		// The codec trusts lengths here and there: a SUBSCRIBE of MQTT 5 that ends
		// before its options makes it read past the end.
		if recover() != nil {
			err = packets.ErrMalformedPacket
		}
	}()
	if err := checkBody(head.Type, version, body); err != nil {
		return pk, err
	}
	switch head.Type {
	case packets.Connect:
		err = pk.ConnectDecode(body)
	case packets.Publish:
		err = pk.PublishDecode(body)
	case packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp:
		err = pk.PubackDecode(body)
	case packets.Subscribe:
		err = pk.SubscribeDecode(body)
	case packets.Unsubscribe:
		err = pk.UnsubscribeDecode(body)
	case packets.Pingreq:
		if len(body) > 0 {
			err = packets.ErrMalformedPacket
		}
	case packets.Disconnect:
		switch {
		case version == v311 && len(body) > 0:
			err = packets.ErrMalformedPacket
		case len(body) == 1: // which the codec takes for none
			pk.ReasonCode = body[0]
		default:
			err = pk.DisconnectDecode(body)
		}
	case packets.Auth:
		err = packets.ErrBadAuthenticationMethod
	default:
		err = packets.ErrProtocolViolation
	}
	return pk, err
}

// codeOf returns the reason code of an error.
func codeOf(err error) packets.Code {
	var c packets.Code
	if errors.As(err, &c) {
		return c
	}
	return packets.ErrMalformedPacket
}

// incoming is a PUBLISH packet from a client; its slices are views.
type incoming struct {
	topic, payload, properties []byte
	id                         uint16
	expires                    mono.Time
}

// decodePublish decodes the body of a PUBLISH packet.
func decodePublish(head packets.FixedHeader, version byte, body []byte, now mono.Time) (p incoming, err error) {
	p.expires = mono.Never
	if len(body) < 2 {
		return p, packets.ErrMalformedTopic
	}
	n := int(binary.BigEndian.Uint16(body))
	rest := body[2:]
	if len(rest) < n {
		return p, packets.ErrMalformedTopic
	}
	p.topic, rest = rest[:n], rest[n:]
	if head.Qos > 0 {
		if len(rest) < 2 {
			return p, packets.ErrMalformedPacketID
		}
		p.id, rest = binary.BigEndian.Uint16(rest), rest[2:]
		if p.id == 0 {
			return p, packets.ErrProtocolViolationNoPacketID
		}
	}
	if version == v5 {
		if len(rest) == 0 {
			return p, packets.ErrMalformedProperties
		}
		if rest[0] != 0 {
			if _, err := checkProperties(rest, packets.Publish); err != nil {
				return p, err
			}
			return decodeWithProperties(head, body, now)
		}
		rest = rest[1:]
	}
	if n == 0 {
		return p, packets.ErrProtocolViolationNoTopic
	}
	p.payload = rest
	return p, nil
}

// decodeWithProperties is decodePublish for packets with properties.
func decodeWithProperties(head packets.FixedHeader, body []byte, now mono.Time) (p incoming, err error) {
	pk, err := decode(head, v5, body)
	if err != nil {
		return p, err
	}
	if code := pk.PublishValidate(0); code != packets.CodeSuccess {
		return p, code
	}
	if strings.ContainsAny(pk.Properties.ResponseTopic, "+#") {
		return p, packets.ErrTopicNameInvalid
	}
	p = incoming{topic: []byte(pk.TopicName), payload: pk.Payload, id: pk.PacketID, expires: expiresIn(&pk.Properties, now),
		properties: forwarded(&pk.Properties)}
	return p, nil
}

// expiresIn returns when a message with these properties expires. An interval of 0
// is taken for none, as the codec does not tell them apart.
func expiresIn(p *packets.Properties, now mono.Time) mono.Time {
	if p.MessageExpiryInterval == 0 {
		return mono.Never
	}
	return now.Add(time.Duration(p.MessageExpiryInterval) * time.Second)
}

// forwarded returns those properties of a PUBLISH packet, or of a will, that go to
// subscribers unchanged.
func forwarded(p *packets.Properties) []byte {
	keep := packets.Properties{PayloadFormat: p.PayloadFormat, PayloadFormatFlag: p.PayloadFormatFlag, ContentType: p.ContentType,
		ResponseTopic: p.ResponseTopic, CorrelationData: p.CorrelationData, User: p.User}
	var buf bytes.Buffer
	keep.Encode(packets.Publish, packets.Mods{AllowResponseInfo: true}, &buf, 0)
	all := buf.Bytes()
	for i, c := range all {
		if c < 128 {
			return all[i+1:] // behind their length
		}
	}
	return nil
}

// checkConnect says what is wrong with a CONNECT packet.
func checkConnect(pk *packets.Packet) error {
	c := &pk.Connect
	if string(c.ProtocolName) == "MQIsdp" || string(c.ProtocolName) == "MQTT" && pk.ProtocolVersion != v311 && pk.ProtocolVersion != v5 {
		return packets.ErrUnsupportedProtocolVersion
	}
	// An empty will is right, and so is an empty password, though the codec refuses them.
	will, password := c.WillPayload, c.PasswordFlag
	if c.WillFlag && len(will) == 0 {
		c.WillPayload = []byte{0}
	}
	c.PasswordFlag = password && len(c.Password) > 0
	code := pk.ConnectValidate()
	c.WillPayload, c.PasswordFlag = will, password
	switch {
	case code != packets.CodeSuccess:
		return code
	case !c.WillFlag && c.WillQos != 0:
		return packets.ErrProtocolViolationQosOutOfRange
	case pk.ProtocolVersion == v311 && c.PasswordFlag && !c.UsernameFlag:
		return packets.ErrProtocolViolation
	case c.WillFlag && engine.CheckTopic(c.WillTopic) != nil:
		return packets.ErrTopicNameInvalid
	case len(c.ClientIdentifier) > maxClientID:
		return packets.ErrClientIdentifierNotValid
	case pk.Properties.AuthenticationMethod != "":
		return packets.ErrBadAuthenticationMethod
	case pk.ProtocolVersion == v311 && c.ClientIdentifier == "" && !c.Clean:
		return packets.ErrClientIdentifierNotValid
	}
	return nil
}

// maxClientID is the longest client identifier, in bytes. A longer one gets 0x85.
const maxClientID = 256
