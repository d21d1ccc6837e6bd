package nats

import "bytes"

// maxLine is the longest line of a command, in bytes, without a payload. A longer
// one closes the connection.
const maxLine = 4096

// protocolError closes a connection. Its text is that of the -ERR.
type protocolError string

func (e protocolError) Error() string { return string(e) }

// Errors of the protocol, in the words that clients know.
const (
	errUnknown  = protocolError("Unknown Protocol Operation")
	errParse    = protocolError("Parser Error")
	errLine     = protocolError("maximum control line exceeded")
	errPayload  = protocolError("Maximum Payload Violation")
	errAuth     = protocolError("Authorization Violation")
	errRevoked  = protocolError("User Authentication Revoked")
	errTimeout  = protocolError("Authentication Timeout")
	errStale    = protocolError("Stale Connection")
	errSlow     = protocolError("Slow Consumer")
	errShutdown = protocolError("Server Shutdown")
	errNoHeader = protocolError("message headers not supported")
	errProtocol = protocolError("invalid client protocol")
	errNoAnswer = protocolError("no responders requires headers support")
)

// Errors after which a client may go on.
const (
	errPublish   = protocolError("Invalid Publish Subject")
	errSubscribe = protocolError("Invalid Subject")
)

// verb is what a command does.
type verb uint8

const (
	connect verb = iota + 1
	publish
	subscribe
	unsubscribe
	ping
	ignored // PONG, INFO, +OK and -ERR
)

// command is one command of a client; its slices are views of what was read.
type command struct {
	verb            verb
	subject, reply  []byte
	header, payload []byte
	queue, sid      []byte
	most            int // messages until the subscription ends; 0: no end
	options         []byte
}

// verbs are the first words of commands, in capitals.
var verbs = [...]struct {
	word string
	verb verb
}{{"PUB", publish}, {"HPUB", publish}, {"SUB", subscribe}, {"UNSUB", unsubscribe}, {"PING", ping}, {"PONG", ignored}, {"INFO", ignored}, {"CONNECT", connect}, {"+OK", ignored}, {"-ERR", ignored}}

// parse reads the first command in buf into c. It returns how many bytes that took,
// or, if it is not complete, how long buf has to be at least before it is worth
// another look. payload is the most bytes of a message, with its header.
func parse(buf []byte, payload int, c *command) (used, need int, err error) {
	*c = command{}
	end := bytes.IndexByte(buf[:min(len(buf), maxLine)], '\n')
	switch {
	case end < 0 && len(buf) >= maxLine:
		return 0, 0, errLine
	case end < 0:
		return 0, len(buf) + 1, nil
	}
	line := bytes.TrimSuffix(buf[:end], []byte{'\r'})
	word, rest := field(line)
	for _, v := range &verbs {
		if len(v.word) == len(word) && bytes.EqualFold([]byte(v.word), word) {
			c.verb = v.verb
			break
		}
	}
	var f [5][]byte // one more than any command has
	n := 0
	switch c.verb {
	case 0:
		return 0, 0, errUnknown
	case connect:
		c.options = rest
		return end + 1, 0, nil
	case ping, ignored:
		return end + 1, 0, nil
	}
	for n < len(f) && len(rest) > 0 {
		f[n], rest = field(rest)
		if len(f[n]) > 0 {
			n++
		}
	}
	switch c.verb {
	case subscribe:
		return end + 1, 0, c.subscribe(f[:n])
	case unsubscribe:
		return end + 1, 0, c.unsubscribe(f[:n])
	}
	header, total, err := c.publish(f[:n], len(word) == len("HPUB"))
	switch {
	case err != nil:
		return 0, 0, err
	case total > payload:
		return 0, 0, errPayload
	}
	from, used := end+1, end+1+total+2
	if len(buf) < used {
		return 0, used, nil
	}
	if buf[used-2] != '\r' || buf[used-1] != '\n' {
		return 0, 0, errParse
	}
	c.header, c.payload = buf[from:from+header], buf[from+header:from+total]
	return used, 0, nil
}

// publish takes the fields of PUB and HPUB: a subject, perhaps a reply, and sizes.
func (c *command) publish(f [][]byte, headers bool) (header, total int, err error) {
	sizes := 1
	if headers {
		sizes = 2
	}
	switch len(f) {
	case sizes + 1:
	case sizes + 2:
		c.reply = f[1]
	default:
		return 0, 0, errParse
	}
	c.subject = f[0]
	total, ok := number(f[len(f)-1])
	if headers && ok {
		header, ok = number(f[len(f)-2])
	}
	if !ok || header > total || headers && header == 0 {
		return 0, 0, errParse
	}
	return header, total, nil
}

func (c *command) subscribe(f [][]byte) error {
	switch len(f) {
	case 2:
		c.subject, c.sid = f[0], f[1]
	case 3:
		c.subject, c.queue, c.sid = f[0], f[1], f[2]
	default:
		return errParse
	}
	return nil
}

func (c *command) unsubscribe(f [][]byte) error {
	ok := true
	switch len(f) {
	case 2:
		c.most, ok = number(f[1])
	case 1:
	default:
		return errParse
	}
	if !ok {
		return errParse
	}
	c.sid = f[0]
	return nil
}

// field returns what stands before the first blank, and what follows it.
func field(line []byte) (word, rest []byte) {
	for i, b := range line {
		if b == ' ' || b == '\t' {
			return line[:i], line[i+1:]
		}
	}
	return line, nil
}

// number reads a decimal number of at most nine digits.
func number(text []byte) (n int, ok bool) {
	if len(text) == 0 || len(text) > 9 {
		return 0, false
	}
	for _, b := range text {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = 10*n + int(b-'0')
	}
	return n, true
}
