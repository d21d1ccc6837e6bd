package nats

import (
	"bytes"
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/broker/engine"
)

// maxWord is the longest identifier of a subscription, or name of a queue group, in
// bytes. A longer one closes the connection.
const maxWord = 256

// sub is one subscription, which the engine sees as a subscriber of its own. Deliver
// is called under a lane's lock.
type sub struct {
	c           *conn
	sid, filter string
	grouped     bool
	on          *engine.Subscription
	taken, most atomic.Int64 // messages; most is 0 without an end
	// answers is nil until JetStream is to answer on it, pushed until a consumer is to push to it.
	answers, pushed *mirror
}

// subscribe takes SUB.
func (c *conn) subscribe(cmd *command) error {
	filter, ok := toFilter(cmd.subject)
	if ok {
		ok = engine.CheckFilter(filter) == nil
	}
	switch {
	case len(cmd.sid) > maxWord || len(cmd.queue) > maxWord:
		return errParse
	case !validSubject(cmd.subject, true):
		c.warn("%s", errSubscribe)
		return nil
	case !ok:
		c.warn("Permissions Violation for Subscription to \"%s\": no subject that can be subscribed to", printable(cmd.subject))
		return nil
	case !c.who.MaySubscribe(filter):
		c.warn("Permissions Violation for Subscription to \"%s\"", cmd.subject)
		return nil
	case c.subs[string(cmd.sid)] != nil:
		c.accepted()
		return nil
	case len(c.subs) >= c.srv.limits.Subscriptions:
		c.warn("maximum subscriptions exceeded")
		return nil
	}
	s := &sub{c: c, sid: string(cmd.sid), filter: filter, grouped: len(cmd.queue) > 0}
	s.on = &engine.Subscription{Who: s, Sender: c.sender, NoLocal: len(cmd.queue) > 0 && c.quiet.Load(), Group: string(cmd.queue)}
	if c.srv.hub.Subscribe(filter, s.on) != nil {
		c.warn("maximum subscriptions exceeded")
		return nil
	}
	c.subs[s.sid] = s
	c.accepted()
	if s.grouped || !c.srv.hub.Forwards() {
		return nil
	}
	c.batch.End()
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	_ = c.srv.hub.Settle(ctx, filter) // what the client does next may tell others that it subscribes; after an error it gets what the log has later
	return nil
}

// settleTime is how long a client waits, at most, until what other nodes store comes to its node.
const settleTime = 5 * time.Second

// unsubscribe takes UNSUB.
func (c *conn) unsubscribe(cmd *command) {
	c.accepted()
	s := c.subs[string(cmd.sid)]
	if s == nil {
		return
	}
	s.most.Store(int64(cmd.most))
	if cmd.most == 0 || s.taken.Load() >= int64(cmd.most) {
		c.remove(s.sid)
	}
}

// remove ends a subscription.
func (c *conn) remove(sid string) {
	if s := c.subs[sid]; s != nil {
		c.srv.hub.Unsubscribe(s.on)
		for _, m := range [...]*mirror{s.answers, s.pushed} {
			if m != nil {
				m.close()
			}
		}
		delete(c.subs, sid)
	}
}

// reap ends the subscriptions that have had their last message.
func (c *conn) reap() {
	c.mu.Lock()
	spent := c.spent
	c.spent = nil
	c.mu.Unlock()
	for _, s := range spent {
		if c.subs[s.sid] == s {
			c.remove(s.sid)
		}
	}
}

// take counts one message, and reports false if the subscription has had its last.
func (s *sub) take() bool {
	n, most := s.taken.Add(1), s.most.Load()
	if most > 0 && n == most {
		s.c.mu.Lock()
		s.c.spent = append(s.c.spent, s)
		s.c.mu.Unlock()
	}
	return most == 0 || n <= most
}

// Online implements engine.Subscriber: a subscription ends with its connection.
func (s *sub) Online() bool {
	most := s.most.Load()
	return most == 0 || s.taken.Load() < most
}

// Released implements engine.Source; a subscription publishes nothing.
func (s *sub) Released(*engine.Batch, *engine.Message, uint16) {}

// Deliver sends a message, or drops it where the client is too far behind.
func (s *sub) Deliver(b *engine.Batch, m *engine.Message, _ *engine.Target) {
	c := s.c
	if c.quiet.Load() && !s.grouped && m.Sender == c.sender || !s.take() {
		return
	}
	reply, header := extras(m.Properties)
	if !c.headers.Load() {
		header = 0
	}
	topic := m.Topic.Name()
	const numbers = 32
	size := len("HMSG  \r\n\r\n") + len(topic) + len(s.sid) + 1 + len(reply) + numbers + header + len(m.Payload)
	buf, ok := c.out.Lock(size, false)
	if !ok {
		c.srv.dropped.Add(dropOutbound)
		return
	}
	whole, ok := s.append(buf, topic, reply, header, m)
	if !ok {
		whole = buf
		c.srv.dropped.Add(dropSubject)
	}
	c.out.Unlock(b, whole)
}

// append appends MSG or HMSG. It reports false if the topic is no subject.
func (s *sub) append(buf []byte, topic string, reply []byte, header int, m *engine.Message) (_ []byte, ok bool) {
	if header > 0 {
		buf = append(buf, 'H')
	}
	if buf, ok = appendSubject(append(buf, "MSG "...), topic); !ok {
		return nil, false
	}
	buf = append(append(append(buf, ' '), s.sid...), ' ')
	if len(reply) > 0 {
		before := len(buf)
		if buf, ok = appendSubject(buf, reply); ok {
			buf = append(buf, ' ')
		} else {
			buf = buf[:before] // a response topic of MQTT that is no subject
		}
	}
	if header > 0 {
		buf = append(strconv.AppendInt(buf, int64(header), 10), ' ')
	}
	buf = append(strconv.AppendInt(buf, int64(header+len(m.Payload)), 10), "\r\n"...)
	if header > 0 {
		buf = appendHeader(buf, m.Properties)
	}
	return append(append(buf, m.Payload...), "\r\n"...), true
}

// printable returns what a client sent in a form that goes into a line.
func printable(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r <= ' ' || r == '\'' || r == 0x7f || r == '\uFFFD' {
			return '?'
		}
		return r
	}, b)
}
