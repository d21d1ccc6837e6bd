package nats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Subjects of JetStream.
const (
	streamCalls = "$JS.API."
	streamAcks  = "$JS.ACK."
	streamFlow  = "$JS.FC."
)

// operations are the requests that clients may make: the words of their subjects, and whether
// the name of a stream follows. What is missing concerns the cluster, or moves data that has no topic.
var operations = []struct {
	words  string
	stream bool
}{
	{"INFO", false}, {"STREAM.NAMES", false}, {"STREAM.LIST", false},
	{"STREAM.CREATE", true}, {"STREAM.UPDATE", true}, {"STREAM.INFO", true}, {"STREAM.DELETE", true}, {"STREAM.PURGE", true},
	{"STREAM.MSG.GET", true}, {"STREAM.MSG.DELETE", true}, {"DIRECT.GET", true},
	{"CONSUMER.CREATE", true}, {"CONSUMER.DURABLE.CREATE", true}, {"CONSUMER.NAMES", true}, {"CONSUMER.LIST", true},
	{"CONSUMER.INFO", true}, {"CONSUMER.DELETE", true}, {"CONSUMER.PAUSE", true}, {"CONSUMER.UNPIN", true}, {"CONSUMER.MSG.NEXT", true},
}

// callError is what a client did wrong, in the words and numbers of JetStream.
type callError struct {
	code int
	text string
}

func (e *callError) Error() string { return e.text }

func badCall(format string, args ...any) error {
	return &callError{400, fmt.Sprintf(format, args...)}
}

// maxConsumers is the most consumers of a stream: each keeps some 10 KB and goroutines of its own, so that one client
// that never ends its own takes 10 MB of every stream and not all memory.
const maxConsumers = 1000

// ours reports whether a stream is the broker's own, which clients do not see.
func ours(stream string) bool {
	return strings.HasPrefix(stream, "SPILLGATE_") || strings.HasPrefix(stream, "KV_spillgate-")
}

// operationOf returns what a request asks for, and of which stream, empty for those of no
// one stream.
func operationOf(subject string) (operation, stream string, err error) {
	rest, _ := strings.CutPrefix(subject, streamCalls)
	for _, o := range operations {
		if !o.stream && rest == o.words {
			return o.words, "", nil
		}
		after, found := strings.CutPrefix(rest, o.words+".")
		if !o.stream || !found {
			continue
		}
		name, _, _ := strings.Cut(after, ".")
		if ours(name) {
			return "", "", &callError{404, "stream not found"}
		}
		return o.words, name, nil
	}
	return "", "", &callError{503, fmt.Sprintf("%s is not to be had here", rest)}
}

// checkAck returns what is wrong with the subject of an acknowledgement or of flow control. Where in it
// the stream stands depends on the release of NATS.
func checkAck(subject string) error {
	for word := range strings.SplitSeq(subject, ".") {
		if ours(word) {
			return &callError{404, "stream not found"}
		}
	}
	return nil
}

// rewrite returns the body of a request as NATS is to have it. pushed returns the subject at
// which the broker takes what is meant for a subject of the client. may reports whether the client may subscribe to a
// topic filter.
//
// Bodies are read and written anew, so that no field passes that was not looked at.
func rewrite(operation string, body []byte, limits Limits, pushed func(string) (string, error), may func(string) bool) ([]byte, error) {
	switch operation {
	case "STREAM.CREATE", "STREAM.UPDATE":
		return rewriteStream(body, limits, may)
	case "CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE":
		return rewriteConsumer(body, pushed)
	}
	return body, nil
}

func rewriteStream(body []byte, limits Limits, may func(string) bool) ([]byte, error) {
	var c jetstream.StreamConfig
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, badCall("invalid JSON: %v", err)
	}
	switch {
	case c.Mirror != nil, len(c.Sources) > 0, c.RePublish != nil, c.SubjectTransform != nil, c.Placement != nil && (c.Placement.Cluster != "" || len(c.Placement.Tags) > 0), c.AllowMsgSchedules:
		return nil, badCall("mirror, sources, republish, subject_transform, placement and allow_msg_schedules are not to be had here: a stream has the messages of its subjects")
	case c.Storage != jetstream.FileStorage:
		return nil, badCall("storage must be file")
	case c.MaxBytes > int64(limits.StreamBytes):
		return nil, badCall("max_bytes is %d, at most %d are allowed (stream_bytes of the broker)", c.MaxBytes, limits.StreamBytes)
	}
	c.Placement = nil // the command line of NATS says where it wants nothing, too
	if len(c.Subjects) == 0 {
		c.Subjects = []string{c.Name}
	}
	for _, s := range c.Subjects {
		if err := checkCaptured(s, may); err != nil {
			return nil, err
		}
	}
	if c.MaxBytes <= 0 { // or one stream takes the disk that acknowledged messages need
		c.MaxBytes = int64(limits.StreamBytes)
	}
	if c.MaxConsumers <= 0 || c.MaxConsumers > maxConsumers {
		c.MaxConsumers = maxConsumers
	}
	return json.Marshal(c)
}

// checkCaptured returns what is wrong with a subject whose messages a stream is to have.
func checkCaptured(subject string, may func(string) bool) error {
	first, _, _ := strings.Cut(subject, ".")
	filter, ok := toFilter([]byte(subject))
	switch {
	case !ok:
		return badCall("subject %q is no subject that can be subscribed to", printable([]byte(subject)))
	case first == "*" || first == ">" || first == "spillgate":
		return badCall("subject %q: its first token must be a word, and not spillgate", subject)
	case strings.HasPrefix(first, "$") && first != "$KV" && first != "$O":
		return badCall("subject %q belongs to NATS", subject)
	case !may(filter):
		return &callError{403, fmt.Sprintf("no right to subscribe to %q", subject)}
	}
	return nil
}

// consumerCall is the body of a request that makes a consumer.
type consumerCall struct {
	Stream   string                   `json:"stream_name"`
	Config   jetstream.ConsumerConfig `json:"config"`
	Action   string                   `json:"action,omitempty"`
	Pedantic bool                     `json:"pedantic,omitempty"`
}

func rewriteConsumer(body []byte, pushed func(string) (string, error)) ([]byte, error) {
	var c consumerCall
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, badCall("invalid JSON: %v", err)
	}
	if ours(c.Stream) {
		return nil, &callError{404, "stream not found"}
	}
	if to := c.Config.DeliverSubject; to != "" {
		if c.Config.Durable != "" || c.Config.DeliverGroup != "" {
			return nil, badCall("a push consumer ends with its client here: use a pull consumer, or none with durable_name or deliver_group")
		}
		at, err := pushed(to)
		if err != nil {
			return nil, err
		}
		c.Config.DeliverSubject = at
	}
	return json.Marshal(c)
}

// Kinds of answers that are looked at, as their field type names them.
const (
	answerNames   = "stream_names_response"
	answerList    = "stream_list_response"
	answerMessage = "stream_msg_get_response"
	answerType    = `"type":"io.nats.jetstream.api.v1.`
)

// kindOf returns the kind of an answer of JetStream, empty of what is none.
func kindOf(data []byte) string {
	if !bytes.HasPrefix(data, []byte("{")) {
		return ""
	}
	_, after, found := bytes.Cut(data[:min(len(data), 256)], []byte(answerType))
	if !found {
		return ""
	}
	kind, _, _ := bytes.Cut(after, []byte(`"`))
	return string(kind)
}

// visible returns an answer without the broker's own streams. It reports false if the answer holds a
// message that the client may not have.
func visible(data []byte, may func(string) bool) ([]byte, bool) {
	kind := kindOf(data)
	switch kind {
	case answerNames, answerList:
	case answerMessage:
		var m struct {
			Message *struct{ Subject string } `json:"message"`
		}
		if json.Unmarshal(data, &m) != nil {
			return nil, false
		}
		return data, m.Message == nil || mayHave(m.Message.Subject, may)
	default:
		return data, true
	}
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if d.Decode(&all) != nil {
		return nil, false
	}
	list, _ := all["streams"].([]any)
	n := len(list)
	list = slices.DeleteFunc(list, func(s any) bool {
		name, _ := s.(string)
		if info, is := s.(map[string]any); is {
			c, _ := info["config"].(map[string]any)
			name, _ = c["name"].(string)
		}
		return ours(name)
	})
	if list != nil {
		all["streams"] = list
	}
	if total, is := all["total"].(json.Number); is {
		if t, err := total.Int64(); err == nil {
			all["total"] = t - int64(n-len(list))
		}
	}
	out, err := json.Marshal(all)
	return out, err == nil
}

// mayHave reports whether a client may have the messages of a subject.
func mayHave(subject string, may func(string) bool) bool {
	topic := []byte(subject)
	return toTopic(topic) && may(string(topic))
}
