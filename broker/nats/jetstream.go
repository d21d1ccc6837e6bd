package nats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	client "github.com/nats-io/nats.go"
)

// answerError is the answer to a request that failed.
func answerError(err error) string {
	e := &callError{500, err.Error()}
	errors.As(err, &e)
	text, _ := json.Marshal(map[string]any{"type": "io.nats.jetstream.api.v1.error", "error": map[string]any{"code": e.code, "err_code": errorCode(e.code), "description": e.text}})
	return string(text)
}

// errorCode returns the number by which clients know an error: that of nats-server where there
// is one of the meaning.
func errorCode(code int) int {
	switch code {
	case 404:
		return 10059 // no such stream
	case 503:
		return 10076 // no JetStream
	}
	return 10003 // a bad request
}

// errNoStreams is the answer where the node stores nothing.
var errNoStreams = &callError{503, "JetStream is not here: this broker stores nothing; start it with --data"}

// errNoLeader is the answer where a stream has just gone, or its nodes have yet to find a leader.
var errNoLeader = &callError{503, "the stream does not answer; try again"}

// streams handles a message for JetStream itself: a request, an acknowledgement, an answer to flow control.
func (c *conn) streams(cmd *command) error {
	subject, reply := string(cmd.subject), string(cmd.reply)
	if err := c.ask(subject, reply, cmd.payload); err != nil {
		if topic := bytes.Clone(cmd.reply); reply == "" || !toTopic(topic) || !c.reply(topic, "", answerError(err)) {
			c.refuse("", fmt.Errorf("%s: %w", printable(cmd.subject), err))
		}
	}
	return nil
}

// ask sends it to NATS.
func (c *conn) ask(subject, reply string, body []byte) error {
	s := c.srv.streams.Load()
	switch {
	case s == nil:
		return errNoStreams
	case !c.who.MayPublish(strings.ReplaceAll(subject, ".", "/")):
		return &callError{403, errRights.Error()}
	}
	if strings.HasPrefix(subject, streamCalls) {
		operation, _, err := operationOf(subject)
		if err == nil && !s.allows(operation) {
			err = &callError{429, "too many requests of all clients of this node; try again"}
		}
		if err == nil {
			body, err = rewrite(operation, body, c.srv.limits, c.pushed, c.who.MaySubscribe)
		}
		if err != nil {
			return err
		}
	} else if err := checkAck(subject); err != nil {
		return err
	}
	msg := &client.Msg{Subject: subject, Data: body}
	if reply != "" {
		at, err := c.mirrored(reply)
		if err != nil {
			return err
		}
		msg.Reply = at
	}
	return s.nc.PublishMsg(msg)
}

// mirrored returns the subject that stands for one on which the client waits for an answer.
func (c *conn) mirrored(subject string) (string, error) {
	s, err := c.subscribed(subject)
	if err != nil {
		return "", err
	}
	if s.answers == nil {
		if s.answers, err = c.srv.streams.Load().mirror("", s.fromStreams); err != nil {
			s.answers = nil
			return "", err
		}
	}
	return s.answers.prefix + subject, nil
}

// pushed returns the subject that stands for one to which a consumer is to push.
func (c *conn) pushed(subject string) (string, error) {
	s, err := c.subscribed(subject)
	if err != nil {
		return "", err
	}
	if s.pushed == nil {
		if s.pushed, err = c.srv.streams.Load().mirror(subject, s.fromStreams); err != nil {
			s.pushed = nil
			return "", err
		}
	}
	if s.pushed.only != subject {
		return "", badCall("a consumer pushes to %q already, on the same subscription", s.pushed.only)
	}
	return s.pushed.prefix + subject, nil
}

// subscribed returns the subscription of the client that gets what is sent to a subject.
func (c *conn) subscribed(subject string) (*sub, error) {
	topic := []byte(subject)
	if !toTopic(topic) {
		return nil, badCall("%q is no subject that can be published to", printable([]byte(subject)))
	}
	s := c.waiting(topic)
	if s == nil {
		return nil, badCall("nobody of this connection subscribes to %q", subject)
	}
	return s, nil
}

// fromStreams takes what NATS sends for the subscription, on a goroutine of the library's.
func (s *sub) fromStreams(at *mirror, m *client.Msg) {
	subject, answered := strings.CutPrefix(m.Subject, at.prefix)
	data, header := m.Data, m.Header
	may := func(subject string) bool { return mayHave(subject, s.c.who.MaySubscribe) }
	switch origins := header["Nats-Subject"]; { // of a message that was asked for; its publisher may have added others
	case !answered && !may(subject), answered && slices.ContainsFunc(origins, func(o string) bool { return !may(o) }):
		s.c.srv.dropped.Add(dropRights)
		return
	case answered && len(origins) == 0: // else data is its publisher's, whatever it looks like
		if kind := kindOf(data); kind != "" {
			var ok bool
			if data, ok = visible(data, s.c.who.MaySubscribe); !ok {
				data = []byte(answerError(&callError{403, "no right to have this message"}))
			}
			data = s.c.srv.streams.Load().clients(data)
			if changes(kind) {
				s.c.srv.streams.Load().look() // so that what the client publishes now reaches the stream
			}
		}
	}
	if !s.take() {
		return
	}
	if !s.c.headers.Load() {
		header = nil
	}
	packet := appendMessage(nil, subject, s.sid, m.Reply, header, data, answered)
	if buf, ok := s.c.out.Lock(len(packet), false); ok {
		s.c.out.Unlock(at.batch, append(buf, packet...))
		at.batch.End()
	} else {
		s.c.srv.dropped.Add(dropOutbound)
	}
	if !s.Online() {
		at.close() // or consumers go on sending here
	}
}

// appendMessage appends MSG or HMSG. What is answered may have a status.
func appendMessage(buf []byte, subject, sid, reply string, header client.Header, data []byte, answered bool) []byte {
	var lines []byte
	if len(header) > 0 {
		lines = appendLines(nil, header, answered)
	}
	if reply != "" {
		reply += " "
	}
	if len(lines) == 0 {
		buf = fmt.Appendf(buf, "MSG %s %s %s%d\r\n", subject, sid, reply, len(data))
	} else {
		buf = fmt.Appendf(buf, "HMSG %s %s %s%d %d\r\n", subject, sid, reply, len(lines), len(lines)+len(data))
	}
	return append(append(append(buf, lines...), data...), "\r\n"...)
}

// appendLines appends a header, with its status if it may have one, which the library keeps as two values.
func appendLines(buf []byte, header client.Header, answered bool) []byte {
	buf = append(buf, headerVersion...)
	if status := header.Get("Status"); answered && status != "" {
		buf = append(append(buf, ' '), status...)
		if about := header.Get("Description"); about != "" {
			buf = append(append(buf, ' '), about...)
		}
	}
	buf = append(buf, "\r\n"...)
	keys := make([]string, 0, len(header))
	for key := range header {
		if !answered || key != "Status" && key != "Description" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		for _, value := range header[key] {
			buf = append(append(append(append(buf, key...), ": "...), value...), "\r\n"...)
		}
	}
	return append(buf, "\r\n"...)
}
