package proc

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

const (
	tailBytes = 64 << 10 // of output kept
	lineBytes = 4 << 10  // of a line looked at for readiness
	quoted    = 2 << 10  // of output shown in an error
)

// output keeps the end of a child's output and looks for the line that says
// it is ready.
type output struct {
	prefix string
	ready  chan string // receives the address, once
	tee    io.Writer

	mu   sync.Mutex
	buf  []byte
	line []byte // the unfinished line of standard output
	said bool
}

func newOutput(prefix string, tee io.Writer) *output {
	return &output{prefix: prefix, ready: make(chan string, 1), tee: tee}
}

// Write receives standard output. It never fails, lest the child be killed by
// a broken pipe.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keep(p)
	for rest := p; !o.said && len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		if room := lineBytes - len(o.line); room > 0 {
			o.line = append(o.line, part[:min(len(part), room)]...)
		}
		if !whole {
			break
		}
		o.look()
		o.line = o.line[:0]
		rest = after
	}
	return len(p), nil
}

// look sends the address if the line says ready.
func (o *output) look() {
	after, ok := strings.CutPrefix(string(o.line), o.prefix)
	if !ok {
		return
	}
	addr := ""
	if words := strings.Fields(after); len(words) > 0 {
		addr = words[0]
	}
	o.said = true
	o.ready <- addr
}

func (o *output) keep(p []byte) {
	if o.tee != nil {
		_, _ = o.tee.Write(p)
	}
	o.buf = append(o.buf, p...)
	if extra := len(o.buf) - tailBytes; extra > 0 {
		o.buf = append(o.buf[:0], o.buf[extra:]...)
	}
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.buf)
}

// quote returns the end of the output for an error.
func (o *output) quote() string {
	s := strings.TrimSpace(o.tail())
	if s == "" {
		return ""
	}
	if len(s) > quoted {
		s = "…" + strings.ToValidUTF8(s[len(s)-quoted:], "")
	}
	return fmt.Sprintf("; it wrote:\n%s", s)
}

// stderr receives standard error: it is kept, and never says ready.
type stderr struct{ o *output }

func (e stderr) Write(p []byte) (int, error) {
	e.o.mu.Lock()
	defer e.o.mu.Unlock()
	e.o.keep(p)
	return len(p), nil
}
