package http1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/leaks"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // http.Transport says there what it did not ask for
	leaks.Verify(m)
}

// answer is one of the table in testdata.
type answer struct{ name, raw string }

// table reads testdata/answers.txt: a line has a name and literals, each maybe with how often it comes.
func table(t testing.TB) (all []answer) {
	t.Helper()
	text, err := os.ReadFile("testdata/answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ": ")
		a := answer{name: name}
		for ok && rest != "" {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				t.Fatal(line, err)
			}
			piece, _ := strconv.Unquote(quoted)
			rest = rest[len(quoted):]
			n := 1
			if times, more, _ := strings.Cut(rest, " "); strings.HasPrefix(times, "*") {
				if n, err = strconv.Atoi(times[1:]); err != nil {
					t.Fatal(line, err)
				}
				rest = more
			}
			rest = strings.TrimSpace(rest)
			a.raw += strings.Repeat(piece, n)
		}
		all = append(all, a)
	}
	if len(all) < 100 {
		t.Fatalf("%d answers, want 100 and more", len(all))
	}
	return all
}

// played is a connection whose server says the pieces of an answer after a request came, and then that it ends, or
// breaks off.
type played struct {
	pieces [][]byte
	reset  bool

	mu     sync.Mutex
	change sync.Cond
	heard  []byte
	asked  bool
	closed bool
}

func play(reset bool, pieces ...[]byte) *played {
	p := &played{pieces: pieces, reset: reset}
	p.change.L = &p.mu
	return p
}

func (p *played) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, net.ErrClosed
	}
	p.heard = append(p.heard, b...)
	if !p.asked && bytes.Contains(p.heard, []byte("\r\n\r\n")) {
		p.asked = true
		p.change.Broadcast()
	}
	return len(b), nil
}

func (p *played) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.asked && !p.closed {
		p.change.Wait()
	}
	switch {
	case p.closed:
		return 0, net.ErrClosed
	case len(p.pieces) == 0 && p.reset:
		return 0, errors.New("reset by the test")
	case len(p.pieces) == 0:
		return 0, io.EOF
	}
	n := copy(b, p.pieces[0])
	if p.pieces[0] = p.pieces[0][n:]; len(p.pieces[0]) == 0 {
		p.pieces = p.pieces[1:]
	}
	return n, nil
}

func (p *played) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.change.Broadcast()
	return nil
}

func (p *played) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (p *played) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (p *played) SetDeadline(time.Time) error      { return nil }
func (p *played) SetReadDeadline(time.Time) error  { return nil }
func (p *played) SetWriteDeadline(time.Time) error { return nil }

// headerLimit is that of both sides of a comparison.
const headerLimit = 64 << 10

// ours and theirs are round trippers on a connection that is there.
func ours(nc net.Conn) (http.RoundTripper, func()) {
	c := New(Config{Dial: func(context.Context) (net.Conn, error) { return nc, nil }, Header: headerLimit, Idle: 8})
	return c, c.Close
}

func theirs(nc net.Conn) (http.RoundTripper, func()) {
	t := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return nc, nil },
		DisableCompression: true, MaxResponseHeaderBytes: headerLimit, Protocols: new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t, t.CloseIdleConnections
}

// seen is what a caller sees of an answer.
type seen struct {
	Failed   bool
	Before   []int // 1xx
	Status   string
	Proto    string
	Length   int64
	Encoding []string
	Close    bool
	Header   http.Header
	Body     string
	BodyErr  bool
	Trailer  http.Header
	Upgraded bool
}

// ask makes a request through rt and reads the answer.
func ask(t testing.TB, method string, rt http.RoundTripper) (s seen, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		if s.Before = append(s.Before, code); len(s.Before) > 1000 {
			return errors.New("too many")
		}
		return nil
	}})
	r, err := http.NewRequestWithContext(ctx, method, "http://server/path", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(r)
	if ctx.Err() != nil {
		t.Fatal("no answer and no error within a minute")
	}
	if err != nil {
		s.Failed = true
		return s, err
	}
	body, err := io.ReadAll(resp.Body)
	s.Status, s.Proto, s.Length, s.Encoding, s.Close = resp.Status, resp.Proto, resp.ContentLength, resp.TransferEncoding, resp.Close
	s.Header, s.Body, s.BodyErr, s.Trailer = resp.Header, string(body), err != nil, resp.Trailer
	_, s.Upgraded = resp.Body.(io.Writer)
	resp.Body.Close()
	return s, err
}
