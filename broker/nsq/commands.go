package nsq

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/mono"
)

// do handles one command.
func (c *conn) do(cmd *command) error {
	switch cmd.verb {
	case "IDENTIFY":
		if c.identified || c.who != nil {
			return fatal("E_INVALID", "cannot IDENTIFY in this state")
		}
		answer, err := c.identify(cmd.body)
		if err != nil {
			return err
		}
		c.answer(c.batch, frameResponse, answer)
		return nil
	case "NOP":
		c.reader.Idle()
		return nil
	case "AUTH":
		return c.auth(cmd.body)
	}
	if c.who == nil {
		if err := c.login(""); err != nil { // a client that does not say who it is is anonymous
			return err
		}
	}
	switch cmd.verb {
	case "PUB", "MPUB":
		return c.publish(cmd)
	case "DPUB":
		return c.publishLater(cmd)
	case "SUB":
		return c.subscribe(cmd)
	}
	return c.consume(cmd)
}

// auth takes AUTH.
func (c *conn) auth(secret []byte) error {
	if c.who != nil {
		return fatal("E_INVALID", "cannot AUTH in this state")
	}
	if err := c.login(string(secret)); err != nil {
		return err
	}
	c.answer(c.batch, frameResponse, `{"identity":`+strconv.Quote(c.who.Name())+`,"identity_url":"","permission_count":1}`)
	return nil
}

// topicOf returns the topic that is called name in NSQ and is published to.
func (c *conn) topicOf(name []byte) (t *engine.Topic, err error) {
	var ok bool
	if c.name, ok = topicName(c.name[:0], name); !ok {
		return nil, fatal("E_BAD_TOPIC", "topic name %q is not valid", name)
	}
	if c.topic != nil && c.topic.Name() == string(c.name) && !c.topic.Gone() {
		return c.topic, nil
	}
	if !c.who.MayPublish(string(c.name)) {
		return nil, fatal("E_UNAUTHORIZED", "publishing to %s is not among the user's rights", name)
	}
	t, err = c.srv.hub.TopicBy(c.maker, c.name)
	switch {
	case errors.Is(err, engine.ErrTopics):
		return nil, mild(c.command.failed(), "%v", err)
	case err != nil:
		return nil, fatal("E_BAD_TOPIC", "%v", err)
	}
	c.topic = t
	return t, nil
}

// failed is the code of a command that publishes.
func (cmd *command) failed() string { return "E_" + cmd.verb + "_FAILED" }

// publish takes PUB and MPUB.
func (c *conn) publish(cmd *command) error {
	n := 1
	if cmd.verb == "MPUB" {
		var err error
		if n, err = messages(cmd.body, c.srv.limits.Message, nil); err != nil {
			return err
		}
	}
	t, err := c.topicOf(cmd.params[0])
	if err != nil {
		return err
	}
	id, err := c.begin(n)
	if err != nil {
		return err
	}
	if cmd.verb == "PUB" {
		c.one(t, id, cmd.body)
		return nil
	}
	_, err = messages(cmd.body, c.srv.limits.Message, func(m []byte) { c.one(t, id, m) })
	return err
}

// one publishes one message of a command.
func (c *conn) one(t *engine.Topic, id uint16, payload []byte) {
	c.message = engine.Message{Topic: t, Payload: payload, Expires: mono.Never, QoS: 1, From: c}
	switch v := c.batch.Publish(&c.message, id); v {
	case engine.Waits:
	case engine.Went:
		c.settle(c.batch, id, 1)
	default:
		c.srv.refused.Add(1)
		c.fail(id, mild(c.command.failed(), "over the rate of the topic (%v)", v))
		c.settle(c.batch, id, 1)
	}
}

// Released implements engine.Source: a message that waited has gone.
func (c *conn) Released(b *engine.Batch, _ *engine.Message, id uint16) { c.settle(b, id, 1) }

// Refused is told that a message waited and could not be stored.
func (c *conn) Refused(b *engine.Batch, _ *engine.Message, id uint16, err error) {
	c.srv.refused.Add(1)
	c.fail(id, mild("E_PUB_FAILED", "%v", err))
	c.settle(b, id, 1)
}

// publishLater takes DPUB.
func (c *conn) publishLater(cmd *command) error {
	t, err := c.topicOf(cmd.params[0])
	if err != nil {
		return err
	}
	after, ok := milliseconds(cmd.params[1], c.srv.limits.MaxTimeout)
	if !ok {
		return fatal("E_INVALID", "DPUB with a delay of %q, expected 0 to %d milliseconds", cmd.params[1], c.srv.limits.MaxTimeout.Milliseconds())
	}
	if err := c.srv.later(t.Name(), cmd.body, after); err != nil {
		c.srv.refused.Add(1)
		return err
	}
	c.answer(c.batch, frameResponse, "OK")
	return nil
}

// subscribe takes SUB.
func (c *conn) subscribe(cmd *command) error {
	switch {
	case c.channel != nil:
		return fatal("E_INVALID", "cannot SUB in this state")
	case c.heartbeat == 0:
		return fatal("E_INVALID", "cannot SUB with heartbeats disabled")
	}
	topic, ok := topicName(nil, cmd.params[0])
	switch {
	case !ok:
		return fatal("E_BAD_TOPIC", "SUB topic name %q is not valid", cmd.params[0])
	case engine.CheckTopic(string(topic)) != nil:
		return fatal("E_BAD_TOPIC", "%v", engine.CheckTopic(string(topic)))
	case !goodName(cmd.params[1]):
		return fatal("E_BAD_CHANNEL", "SUB channel name %q is not valid", cmd.params[1])
	case !c.who.MaySubscribe(string(topic)):
		return fatal("E_UNAUTHORIZED", "SUB to %s is not among the user's rights", cmd.params[0])
	}
	c.batch.End()                          // what came before need not wait
	defer func() { c.alive(time.Now()) }() // however long that takes
	ch, err := c.srv.join(c, topic, cmd.params[1])
	if err != nil {
		return err
	}
	c.channel = ch
	if ch.from != nil {
		c.answer(c.batch, frameResponse, "OK")
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	if err := c.srv.hub.Settle(ctx, string(topic)); err != nil {
		return fatal("E_SUB_FAILED", "what other nodes store does not come to this one: %v", err)
	}
	c.answer(c.batch, frameResponse, "OK")
	return nil
}

// settleTime is how long SUB waits, at most, until what other nodes store comes to this one.
const settleTime = 10 * time.Second

// consume takes the commands of a consumer.
func (c *conn) consume(cmd *command) error {
	if c.channel == nil {
		return fatal("E_INVALID", "cannot %s in this state", cmd.verb)
	}
	switch cmd.verb {
	case "FIN", "TOUCH", "REQ":
		if len(cmd.params[0]) != idSize {
			return fatal("E_INVALID", "%s with a message ID of %d bytes, expected %d", cmd.verb, len(cmd.params[0]), idSize)
		}
	}
	ok := true
	switch l := &c.srv.limits; cmd.verb {
	case "RDY":
		n := 1
		if cmd.n > 0 {
			var err error
			if n, err = strconv.Atoi(string(cmd.params[0])); err != nil || n < 0 || n > l.Ready {
				return fatal("E_INVALID", "RDY %q, expected 0 to %d", cmd.params[0], l.Ready)
			}
		}
		if !c.closing {
			c.channel.rate(c.batch, c, n)
		}
	case "FIN":
		ok = c.channel.finish(c.batch, c, cmd.params[0])
	case "TOUCH":
		ok = c.channel.touch(c.batch, c, cmd.params[0])
	case "REQ":
		after, right := milliseconds(cmd.params[1], time.Duration(1<<62))
		if !right {
			return fatal("E_INVALID", "REQ with a delay of %q, expected milliseconds", cmd.params[1])
		}
		ok = c.channel.requeue(c.batch, c, cmd.params[0], min(after, l.MaxTimeout))
	case "CLS":
		if c.closing {
			return fatal("E_INVALID", "cannot CLS in this state")
		}
		c.closing = true
		c.channel.rate(c.batch, c, 0)
		c.answer(c.batch, frameResponse, "CLOSE_WAIT")
	}
	if !ok {
		return mild("E_"+cmd.verb+"_FAILED", "%s %q is not in flight here", cmd.verb, cmd.params[0])
	}
	return nil
}
