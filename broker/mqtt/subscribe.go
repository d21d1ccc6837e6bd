package mqtt

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/engine"
)

// maxFilters is the most filters of one SUBSCRIBE or UNSUBSCRIBE packet. More
// close the connection with 0x97.
const maxFilters = 1000

// subscribe takes a SUBSCRIBE packet.
func (c *conn) subscribe(pk *packets.Packet) error {
	if code := pk.SubscribeValidate(); code != packets.CodeSuccess {
		return code
	}
	if len(pk.Filters) > maxFilters {
		return packets.ErrQuotaExceeded
	}
	if ids := pk.Properties.SubscriptionIdentifier; len(ids) > 1 || len(ids) == 1 && ids[0] == 0 {
		return packets.ErrProtocolViolation
	}
	answer := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Suback}, ProtocolVersion: c.version, PacketID: pk.PacketID}
	type added struct {
		s  *engine.Subscription
		as string
	}
	var retained []added
	c.session.join(true)
	defer c.session.join(false)
	for i := range pk.Filters {
		f := &pk.Filters[i]
		if f.RetainHandling > 2 {
			return packets.ErrProtocolViolation
		}
		s, fresh, err := c.add(f)
		var code packets.Code
		switch {
		case err == nil:
			answer.ReasonCodes = append(answer.ReasonCodes, f.Qos)
			if s.Group == "" && (f.RetainHandling == 0 || f.RetainHandling == 1 && fresh) {
				retained = append(retained, added{s, f.Filter})
			}
			continue
		case errors.As(err, &code):
		default:
			return err
		}
		if code == packets.ErrProtocolViolation {
			return code
		}
		if c.version == v311 {
			code = packets.ErrUnspecifiedError // all that MQTT 3.1.1 has
		}
		answer.ReasonCodes = append(answer.ReasonCodes, code.Code)
	}
	if err := c.settle(pk.Filters, answer.ReasonCodes); err != nil {
		return err
	}
	if err := c.session.keepSubscriptions(c); err != nil {
		return err
	}
	if err := c.encoded(answer.SubackEncode); err != nil {
		return err
	}
	for _, r := range retained {
		var ids []uint32
		if r.s.ID > 0 {
			ids = []uint32{r.s.ID}
		}
		c.srv.hub.Retained(c.batch, r.as, func(m *engine.Message) {
			c.waitForSocket()
			c.session.deliver(c.batch, m, queued{qos: min(m.QoS, r.s.QoS), retain: true, ids: ids})
		})
	}
	return nil
}

// waitForSocket writes what waits for the socket where that is much, and waits for the client to read it: there may be more retained messages
// than may wait, and nothing else writes them as long as this goroutine has more.
func (c *conn) waitForSocket() {
	if !c.out.Crowded() {
		return
	}
	c.batch.End()
	c.out.Drain(c.srv.limits.Stall) // without success the client is disconnected
	c.alive(time.Now())             // however long that took
}

// settleTime bounds how long a client waits for that: longer than NATS takes to find other leaders.
const settleTime = 20 * time.Second

// settle waits until what other nodes store for the filters of a SUBSCRIBE comes to this one, where their codes say that these are
// subscribed to.
func (c *conn) settle(filters packets.Subscriptions, codes []byte) error {
	if c.srv.plane == nil || c.srv.plane.Alone() {
		return nil
	}
	c.batch.End() // what came before need not wait
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	for i := range filters {
		if group, filter, err := splitShared(filters[i].Filter); err == nil && group == "" && codes[i] < packets.ErrUnspecifiedError.Code {
			if err := c.srv.hub.Settle(ctx, filter); err != nil {
				c.srv.log.Warn("a subscription does not reach the log", "error", err)
				return errStore
			}
		}
	}
	c.alive(time.Now()) // however long that took
	return nil
}

// add adds one subscription, in place of one to the same filter.
func (c *conn) add(f *packets.Subscription) (s *engine.Subscription, fresh bool, err error) {
	name := strings.Clone(f.Filter)
	group, filter, err := splitShared(name)
	if err != nil {
		return nil, false, err
	}
	if group != "" && f.NoLocal {
		return nil, false, packets.ErrProtocolViolation
	}
	if !c.who.MaySubscribe(filter) {
		return nil, false, packets.ErrNotAuthorized
	}
	old := c.session.subs[name]
	if old == nil && len(c.session.subs) >= c.srv.limits.Subscriptions {
		return nil, false, packets.ErrQuotaExceeded
	}
	s = &engine.Subscription{Who: c.session, QoS: f.Qos, NoLocal: f.NoLocal, AsPublished: f.RetainAsPublished, ID: uint32(f.Identifier), Group: group, Sender: c.session.sender}
	s.Draws = group != "" && c.srv.plane != nil
	if c.srv.hub.Subscribe(filter, s) != nil {
		return nil, false, packets.ErrQuotaExceeded
	}
	if s.Draws {
		c.batch.End() // what came before need not wait
		err := c.srv.share(c.session, s, poolKey{group, filter}, c.srv.limits.Shared)
		c.alive(time.Now()) // however long that took
		if err != nil {
			c.srv.hub.Unsubscribe(s)
			return nil, false, err
		}
	}
	if old != nil {
		c.srv.hub.Unsubscribe(old)
	}
	c.session.subs[name] = s
	return s, old == nil, nil
}

// splitShared splits "$share/group/filter", and checks the filter.
func splitShared(name string) (group, filter string, err error) {
	filter = name
	if rest, shared := strings.CutPrefix(name, "$share/"); shared {
		group, filter, _ = strings.Cut(rest, "/")
		if group == "" || strings.ContainsAny(group, "+#") {
			return "", "", packets.ErrTopicFilterInvalid
		}
	}
	if engine.CheckFilter(filter) != nil {
		return "", "", packets.ErrTopicFilterInvalid
	}
	return group, filter, nil
}

// unsubscribe takes an UNSUBSCRIBE packet.
func (c *conn) unsubscribe(pk *packets.Packet) error {
	if code := pk.UnsubscribeValidate(); code != packets.CodeSuccess {
		return code
	}
	if len(pk.Filters) > maxFilters {
		return packets.ErrQuotaExceeded
	}
	answer := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsuback}, ProtocolVersion: c.version, PacketID: pk.PacketID}
	for i := range pk.Filters {
		code := packets.CodeSuccess
		if s := c.session.subs[pk.Filters[i].Filter]; s != nil {
			c.srv.hub.Unsubscribe(s)
			delete(c.session.subs, pk.Filters[i].Filter)
			if s.Draws {
				group, filter, _ := splitShared(pk.Filters[i].Filter) // which was right when it was subscribed to
				c.srv.unshare(c.session, c.session.poolOf(poolKey{group, filter}))
			}
		} else {
			code = packets.CodeNoSubscriptionExisted
		}
		answer.ReasonCodes = append(answer.ReasonCodes, code.Code)
	}
	if err := c.session.keepSubscriptions(c); err != nil {
		return err
	}
	return c.encoded(answer.UnsubackEncode)
}
