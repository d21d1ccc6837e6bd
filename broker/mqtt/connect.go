package mqtt

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// connect takes a CONNECT packet.
func (c *conn) connect(pk *packets.Packet) error {
	c.version = pk.ProtocolVersion
	if c.version != v5 {
		c.version = v311
	}
	if err := checkConnect(pk); err != nil {
		return err
	}
	if err := c.login(pk); err != nil {
		return err
	}
	p := &pk.Properties
	c.maxPacket = 1 << 30
	if p.MaximumPacketSize > 0 {
		c.maxPacket = int(min(p.MaximumPacketSize, 1<<30))
	}
	c.keepAlive = time.Duration(pk.Connect.Keepalive) * time.Second
	id, assigned := strings.Clone(pk.Connect.ClientIdentifier), ""
	if id == "" {
		var random [12]byte
		_, _ = rand.Read(random[:]) // never fails
		assigned = "auto-" + hex.EncodeToString(random[:])
		id = assigned
	}
	expiry := c.srv.expiryOf(p.SessionExpiryInterval)
	if c.version == v311 && !pk.Connect.Clean {
		expiry = c.srv.limits.SessionExpiry
	}
	if err := c.elsewhere(id, pk.Connect.Clean, p.User); err != nil {
		return err
	}
	window := c.srv.limits.Inflight
	if p.ReceiveMaximum > 0 {
		window = min(window, int(p.ReceiveMaximum))
	}
	present, err := c.srv.admit(c, id, pk.Connect.Clean, expiry, window)
	if err != nil {
		return err
	}
	c.will = willOf(pk, c.who.Name()) // a connection that is refused has none
	c.srv.entrust(c, !present)
	_ = c.nc.SetReadDeadline(time.Time{})
	c.alive(time.Now())
	answer := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connack}, ProtocolVersion: c.version, SessionPresent: present}
	if c.version == v5 {
		answer.Properties = packets.Properties{AssignedClientID: assigned, MaximumPacketSize: uint32(c.srv.limits.Packet)}
		if n := c.srv.limits.Inflight; n < 65_535 {
			answer.Properties.ReceiveMaximum = uint16(n)
		}
		if asked := p.SessionExpiryInterval; time.Duration(asked)*time.Second != expiry {
			answer.Properties.SessionExpiryInterval, answer.Properties.SessionExpiryIntervalFlag = uint32(expiry/time.Second), true
		}
	}
	if err := c.encoded(answer.ConnackEncode); err != nil {
		return err
	}
	c.session.resume(c.batch)
	c.follow()
	return nil
}

// expiryOf returns how long a session lives that asks for a number of seconds.
func (srv *Server) expiryOf(seconds uint32) time.Duration {
	return min(time.Duration(seconds)*time.Second, srv.limits.SessionExpiry)
}

// oldCodes are the answers of MQTT 3.1.1 to CONNECT.
var oldCodes = map[byte]byte{
	packets.ErrUnsupportedProtocolVersion.Code: 1,
	packets.ErrClientIdentifierNotValid.Code:   2,
	packets.ErrQuotaExceeded.Code:              3,
	packets.ErrServerShuttingDown.Code:         3,
	packets.ErrServerBusy.Code:                 3,
	packets.ErrServerUnavailable.Code:          3,
	packets.ErrBadUsernameOrPassword.Code:      4,
	packets.ErrNotAuthorized.Code:              5,
}

// refuse answers a CONNECT that was not accepted, if it came so far that the
// protocol is known.
func (c *conn) refuse(code packets.Code) {
	answer := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connack}, ProtocolVersion: c.version, ReasonCode: code.Code}
	answer.Properties.ServerReference = c.reference
	switch old, known := oldCodes[code.Code]; {
	case c.version == v5:
	case c.version == v311 && known:
		answer.ReasonCode = old
	default:
		return
	}
	var buf bytes.Buffer
	if answer.ConnackEncode(&buf) == nil && (c.maxPacket == 0 || buf.Len() <= c.maxPacket) {
		c.out.Send(buf.Bytes())
	}
}
