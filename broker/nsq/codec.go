package nsq

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// magic begins a connection.
	magic = "  V2"
	// maxLine is the longest line of a command, in bytes, without its body. A longer
	// one closes the connection.
	maxLine = 512
	// maxOptions is the largest body of IDENTIFY and AUTH, in bytes.
	maxOptions = 64 << 10
	// maxName is the longest name of a topic or channel, in bytes.
	maxName = 64
	// ephemeral ends the names of channels that go with their last consumer.
	ephemeral = "#ephemeral"
	// idSize is the length of a message's identifier, in bytes.
	idSize = 16
	// frameSize and messageHead are what stands in front of a frame's data, and in
	// front of a message in it, in bytes.
	frameSize, messageHead = 8, 8 + 2 + idSize
)

// Kinds of frames.
const (
	frameResponse = iota
	frameError
	frameMessage
)

// failure is an error of the protocol. Fatal ones close the connection.
type failure struct {
	code, text string
	fatal      bool
}

func (f *failure) Error() string { return f.code + " " + f.text }

func fatal(code, format string, args ...any) error {
	return &failure{code, fmt.Sprintf(format, args...), true}
}

func mild(code, format string, args ...any) error {
	return &failure{code, fmt.Sprintf(format, args...), false}
}

// command is one command of a client; its slices are views of what was read.
type command struct {
	verb   string // one of verbs
	params [2][]byte
	n      int // params
	body   []byte
}

// verbs are the commands: how many words follow, and whether a body does.
var verbs = map[string]struct {
	least, most int
	body        bool
}{
	"IDENTIFY": {0, 0, true}, "AUTH": {0, 0, true}, "SUB": {2, 2, false}, "PUB": {1, 1, true}, "MPUB": {1, 1, true}, "DPUB": {2, 2, true},
	"RDY": {0, 1, false}, "FIN": {1, 1, false}, "REQ": {2, 2, false}, "TOUCH": {1, 1, false}, "CLS": {0, 0, false}, "NOP": {0, 0, false},
}

// names are the keys of verbs, to find them without a copy.
var names = func() map[string]string {
	all := map[string]string{}
	for name := range verbs {
		all[name] = name
	}
	return all
}()

// parse reads the first command in buf into c. It returns how many bytes that took,
// or, if it is not complete, how long buf has to be at least before it is worth
// another look.
func parse(buf []byte, l *Limits, c *command) (used, need int, err error) {
	*c = command{}
	end := bytes.IndexByte(buf[:min(len(buf), maxLine)], '\n')
	switch {
	case end < 0 && len(buf) >= maxLine:
		return 0, 0, fatal("E_INVALID", "a command is longer than %d bytes", maxLine)
	case end < 0:
		return 0, len(buf) + 1, nil
	}
	word, rest, more := bytes.Cut(bytes.TrimSuffix(buf[:end], []byte{'\r'}), []byte{' '})
	c.verb = names[string(word)]
	v, known := verbs[c.verb]
	if !known {
		return 0, 0, fatal("E_INVALID", "invalid command %.32q", word)
	}
	for more {
		if c.n == len(c.params) {
			return 0, 0, fatal("E_INVALID", "%s has too many parameters", c.verb)
		}
		c.params[c.n], rest, more = bytes.Cut(rest, []byte{' '})
		c.n++
	}
	if c.n < v.least || c.n > v.most {
		return 0, 0, fatal("E_INVALID", "%s has %d parameters, expected %d", c.verb, c.n, v.most)
	}
	if !v.body {
		return end + 1, 0, nil
	}
	if len(buf) < end+5 {
		return 0, end + 5, nil
	}
	size := int64(binary.BigEndian.Uint32(buf[end+1:]))
	if most, code := mostOf(c.verb, l); size == 0 || size > int64(most) {
		return 0, 0, fatal(code, "%s has a body of %d bytes, expected 1 to %d", c.verb, size, most)
	}
	used = end + 5 + int(size)
	if len(buf) < used {
		return 0, used, nil
	}
	c.body = buf[end+5 : used]
	return used, 0, nil
}

// mostOf returns the largest body of a command, and the error of a larger one.
func mostOf(verb string, l *Limits) (int, string) {
	switch verb {
	case "PUB", "DPUB":
		return l.Message, "E_BAD_MESSAGE"
	case "MPUB":
		return l.Body, "E_BAD_BODY"
	}
	return maxOptions, "E_BAD_BODY"
}

// messages calls each for the messages in the body of an MPUB, if all are right.
func messages(body []byte, most int, each func([]byte)) (n int, err error) {
	if len(body) < 4 {
		return 0, fatal("E_BAD_BODY", "MPUB has no count")
	}
	n, rest := int(binary.BigEndian.Uint32(body)), body[4:]
	if n == 0 || n > len(rest)/5 { // each takes its size and a byte
		return 0, fatal("E_BAD_BODY", "MPUB counts %d messages in %d bytes", n, len(body))
	}
	for i := range n {
		if len(rest) < 4 {
			return 0, fatal("E_BAD_BODY", "MPUB ends before message %d of %d", i+1, n)
		}
		size := int64(binary.BigEndian.Uint32(rest))
		switch {
		case size == 0 || size > int64(most):
			return 0, fatal("E_BAD_MESSAGE", "MPUB has a message of %d bytes, expected 1 to %d", size, most)
		case size > int64(len(rest)-4):
			return 0, fatal("E_BAD_BODY", "MPUB ends within message %d of %d", i+1, n)
		}
		if each != nil {
			each(rest[4 : 4+size])
		}
		rest = rest[4+size:]
	}
	if len(rest) > 0 {
		return 0, fatal("E_BAD_BODY", "MPUB goes on after its %d messages", n)
	}
	return n, nil
}

// goodName reports whether a name may be that of a topic or channel.
func goodName(name []byte) bool {
	if len(name) > maxName {
		return false
	}
	name = bytes.TrimSuffix(name, []byte(ephemeral))
	for _, b := range name {
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '.', b == '_', b == '-':
		default:
			return false
		}
	}
	return len(name) > 0
}

// topicName returns the name of the topic that is called name in NSQ, in buf. It
// reports false if that is no name.
func topicName(buf, name []byte) ([]byte, bool) {
	if !goodName(name) {
		return buf, false
	}
	for _, b := range bytes.TrimSuffix(name, []byte(ephemeral)) {
		if b == '.' {
			b = '/'
		}
		buf = append(buf, b)
	}
	return buf, true
}

// milliseconds reads a duration of 0 to most.
func milliseconds(text []byte, most time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || n > int64(most/time.Millisecond) {
		return 0, false
	}
	return time.Duration(n) * time.Millisecond, true
}

// appendFrame appends a frame.
func appendFrame(buf []byte, kind byte, data string) []byte {
	buf = binary.BigEndian.AppendUint32(buf, uint32(4+len(data)))
	return append(append(buf, 0, 0, 0, kind), data...)
}

// appendMessage appends the frame of a message.
func appendMessage(buf []byte, stamp int64, attempts uint16, id uint64, body []byte) []byte {
	buf = binary.BigEndian.AppendUint32(buf, uint32(4+messageHead+len(body)))
	buf = append(buf, 0, 0, 0, frameMessage)
	buf = binary.BigEndian.AppendUint64(buf, uint64(stamp))
	buf = binary.BigEndian.AppendUint16(buf, attempts)
	const hex = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		buf = append(buf, hex[id>>shift&15])
	}
	return append(buf, body...)
}

// parseID reads an identifier that appendMessage wrote.
func parseID(text []byte) (id uint64, ok bool) {
	if len(text) != idSize {
		return 0, false
	}
	for _, b := range text {
		at := strings.IndexByte("0123456789abcdef", b)
		if at < 0 {
			return 0, false
		}
		id = id<<4 | uint64(at)
	}
	return id, true
}
