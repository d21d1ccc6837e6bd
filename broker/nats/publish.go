package nats

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/broker/engine"
)

// tooMany answers a request that is over the rate of its topic.
const tooMany = headerVersion + " 429 Too Many Requests\r\n\r\n"

// errRights is a topic that the client may not publish to.
var errRights = errors.New("not among the user's rights")

// publish takes PUB and HPUB.
func (c *conn) publish(cmd *command) error {
	if bytes.HasPrefix(cmd.subject, []byte(streamCalls)) || bytes.HasPrefix(cmd.subject, []byte(streamAcks)) || bytes.HasPrefix(cmd.subject, []byte(streamFlow)) {
		c.accepted()
		return c.streams(cmd)
	}
	if c.options.Pedantic && !validSubject(cmd.subject, false) {
		c.srv.refused.Add(1)
		if c.complains() {
			c.warn("%s", errPublish)
		}
		return nil
	}
	if !toTopic(cmd.subject) || len(cmd.reply) > 0 && !toTopic(cmd.reply) {
		c.refuse("", errors.New("no subject that can be published to"))
		return nil
	}
	if len(cmd.header) > 0 && !c.options.Headers {
		return errNoHeader
	}
	c.accepted()
	t, err := c.topicOf(cmd.subject)
	if err != nil {
		c.refuse(string(cmd.subject), err)
		return nil
	}
	var ok bool
	if c.properties, ok = appendProperties(c.properties[:0], cmd.reply, cmd.header); !ok {
		c.refuse(string(cmd.subject), errors.New("its header is no lines of UTF-8"))
		return nil
	}
	c.message = engine.Message{Topic: t, Payload: cmd.payload, Properties: c.properties, Expires: never, From: c}
	if c.quiet.Load() {
		c.message.Sender = c.sender
	}
	if len(cmd.reply) > 0 && c.options.NoResponders && !c.srv.hub.Wanted(t) {
		c.message.From = c.request(cmd.reply, cmd.subject)
	}
	switch v := c.batch.Publish(&c.message, 0); v {
	case engine.Went, engine.Waits:
	default:
		if len(cmd.reply) > 0 && c.options.Headers && c.reply(cmd.reply, tooMany, c.notStored(string(cmd.subject), v)) {
			c.srv.refused.Add(1)
			return nil
		}
		c.refuse(string(cmd.subject), fmt.Errorf("over the rate of its topic (%v)", v))
	}
	return nil
}

// notStored is what a publisher that waits for a stream to acknowledge a refused message is told, empty
// where no stream is to have it.
func (c *conn) notStored(topic string, v engine.Verdict) string {
	if s := c.srv.streams.Load(); s == nil || !s.captures(topic) {
		return ""
	}
	return answerError(&callError{429, fmt.Sprintf("over the rate of its topic (%v)", v)})
}

// topicOf returns the topic of a name that is published to.
func (c *conn) topicOf(name []byte) (*engine.Topic, error) {
	if c.topic != nil && c.topic.Name() == string(name) && !c.topic.Gone() {
		return c.topic, nil
	}
	if !c.who.MayPublish(string(name)) {
		return nil, errRights
	}
	if bytes.HasPrefix(name, []byte(engine.Inbox)) {
		return c.srv.hub.Passing(c.maker, name)
	}
	t, err := c.srv.hub.TopicBy(c.maker, name)
	if err == nil {
		c.topic = t
	}
	return t, err
}

// refuse counts a message that is not taken, and now and then tells the client why.
func (c *conn) refuse(topic string, why error) {
	c.srv.refused.Add(1)
	if !c.complains() {
		return
	}
	subject, _ := appendSubject(nil, topic)
	if errors.Is(why, errRights) {
		c.warn("Permissions Violation for Publish to \"%s\"", subject)
		return
	}
	c.warn("Permissions Violation for Publish to \"%s\": %v", subject, why)
}

// complains reports whether the client is told now why a message is not taken: no message before it was a moment ago.
func (c *conn) complains() bool {
	now := time.Now()
	if now.Sub(c.complained) < complain {
		return false
	}
	c.complained = now
	return true
}

// reply answers a request of this client, on the subscription that waits for it. It
// reports false if there is none.
func (c *conn) reply(topic []byte, header, payload string) bool {
	s := c.waiting(topic)
	if s == nil || !s.take() {
		return false
	}
	c.say(s.answer(topic, header, payload))
	return true
}

// waiting returns the subscription that waits for the answer to a request, nil if none does. Of
// several it is the one with the longest filter: others only listen.
func (c *conn) waiting(topic []byte) (found *sub) {
	for _, s := range c.subs {
		if engine.Matches(s.filter, string(topic)) && s.Online() && (found == nil || len(s.filter) > len(found.filter)) {
			found = s
		}
	}
	return found
}

// answer is a message of this server itself.
func (s *sub) answer(topic []byte, header, payload string) string {
	subject, _ := appendSubject(nil, topic)
	line := fmt.Sprintf("MSG %s %s %d\r\n", subject, s.sid, len(payload))
	if header != "" {
		line = fmt.Sprintf("HMSG %s %s %d %d\r\n", subject, s.sid, len(header), len(header)+len(payload))
	}
	return line + header + payload + "\r\n"
}

// request is the Source of a request that nobody here subscribes to.
type request struct {
	*sub
	reply  []byte
	header string
}

// request returns the Source of a request for a topic, to be answered on reply. It has been answered
// already where nobody elsewhere can get it.
func (c *conn) request(reply, topic []byte) engine.Source {
	if !c.srv.hub.Forwards() {
		c.reply(reply, nobody(topic), "")
		return c
	}
	if s := c.waiting(reply); s != nil {
		return &request{s, bytes.Clone(reply), nobody(topic)}
	}
	return c
}

// nobody is the header that answers a request for a topic that no one subscribes to.
func nobody(topic []byte) string {
	subject, _ := appendSubject(nil, topic)
	return headerVersion + " 503\r\nNats-Subject: " + string(subject) + "\r\n\r\n"
}

// Unheard implements engine.Asker.
func (r *request) Unheard() {
	if r.take() {
		r.c.out.Send([]byte(r.answer(r.reply, r.header, "")))
	}
}
