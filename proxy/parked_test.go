package proxy

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/wire"
)

// parkedScene is a proxy that parks connections at once, and one connection to it.
type parkedScene struct {
	t  *testing.T
	p  *running
	c  net.Conn
	in *bufio.Reader
}

func newParkedScene(t *testing.T, limits Limits) *parkedScene {
	if !canPark {
		t.Skip("this system parks nothing")
	}
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	t.Cleanup(back.Close)
	cfg := to(back.URL)
	cfg.Limits = limits
	p := startWith(t, cfg, func(p *Proxy) { p.parkAfter = 20 * time.Millisecond })
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(await.Patience))
	return &parkedScene{t, p, c, bufio.NewReader(c)}
}

func (s *parkedScene) say(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.c, text); err != nil {
		s.t.Fatal(err)
	}
}

// answered reads an answer with a body.
func (s *parkedScene) answered(body string) {
	s.t.Helper()
	resp, err := http.ReadResponse(s.in, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || string(text) != body {
		s.t.Fatalf("%s %q, %v; want %q", resp.Status, text, err, body)
	}
}

func (s *parkedScene) parked(n int64) {
	s.t.Helper()
	eventually(s.t, "connections to be parked", func() bool { return s.p.Proxy.parked.Load() == n })
}

const bare = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// A connection is parked before it says anything, and between requests, and is served all
// the same.
func TestParkedConnectionsAreServed(t *testing.T) {
	s := newParkedScene(t, Limits{})
	for range 3 {
		s.parked(1)
		s.say(bare)
		s.answered("")
	}
	s.parked(1)
	s.say(bare[:5])
	s.parked(0) // the rest may take its time, as if it had not been parked
	time.Sleep(3 * s.p.parkAfter)
	s.say(bare[5:])
	s.answered("")
	s.parked(1)
	_ = s.c.Close()
	s.parked(0)
}

// What came of the next request is not lost.
func TestConnectionsWithABeginningAreNotParked(t *testing.T) {
	for n := range len(bare) {
		s := newParkedScene(t, Limits{})
		s.say(bare + bare[:n])
		s.answered("")
		time.Sleep(3 * s.p.parkAfter)
		s.say(bare[n:])
		s.answered("")
		if n == 6 {
			break // the server waits for four bytes: with more, it is in a request
		}
	}
	// A body may end like a header: what is lost then is an empty line.
	s := newParkedScene(t, Limits{})
	s.say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n\r\n\r\n")
	s.answered("\r\n")
	s.parked(1)
	s.say(bare)
	s.answered("")
	s.say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcG")
	s.answered("abc")
	time.Sleep(3 * s.p.parkAfter)
	s.say("ET / HTTP/1.1\r\nHost: x\r\n\r\n")
	s.answered("")
}

// A connection of HTTP/2 goes on when one of HTTP/1 would have been parked, with a request and without one.
func TestHTTP2IsNotParked(t *testing.T) {
	s := newParkedScene(t, Limits{})
	c := client(t, 2, nil)
	first := ""
	for range 3 {
		body, send := io.Pipe()
		go func() {
			time.Sleep(3 * s.p.parkAfter)
			_ = send.Close()
		}()
		from := ""
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { from = info.Conn.LocalAddr().String() }})
		r, err := http.NewRequestWithContext(ctx, "POST", s.p.url, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if read(t, resp); resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
			t.Errorf("answered %s by %s", resp.Status, resp.Proto)
		}
		if first = cmp.Or(first, from); from != first {
			t.Error("the connection ended between requests")
		}
		time.Sleep(3 * s.p.parkAfter)
	}
}

// A parked connection is closed when an idle one would be.
func TestParkedConnectionsTimeOut(t *testing.T) {
	for idle, seen := 100*time.Millisecond, false; !seen; idle *= 4 { // a machine that stands still sees it parked too late
		if idle > await.Patience {
			t.Fatal("no connection was parked")
		}
		s := newParkedScene(t, Limits{IdleTimeout: idle, HeaderTimeout: time.Hour})
		s.say(bare)
		s.answered("")
		for end := time.Now().Add(idle); !seen && time.Now().Before(end); time.Sleep(time.Millisecond) {
			seen = s.p.Proxy.parked.Load() == 1
		}
		if _, err := s.in.ReadByte(); err != io.EOF {
			t.Errorf("%v, want the end", err)
		}
		s.parked(0)
	}
}

// A drain ends parked connections at once.
func TestDrainClosesParkedConnections(t *testing.T) {
	s := newParkedScene(t, Limits{})
	s.parked(1)
	s.p.stop()
	if err := s.p.wait(t); err != nil {
		t.Error(err)
	}
	if _, err := s.in.ReadByte(); err == nil {
		t.Error("the connection is open after the end")
	}
	s.parked(0)
}

// Connections of HTTP/2, and those of clients that hold credits, stay with the server.
func TestWhatIsNotParked(t *testing.T) {
	s := newParkedScene(t, Limits{})
	s.say("GET / HTTP/1.1\r\nHost: x\r\n" + wire.HeaderName + ": " + wire.Header(wire.Tags{}.Append(nil)) + "\r\n\r\n")
	s.answered("")
	c := client(t, 2, nil)
	get(t, c, s.p.url+"/")
	time.Sleep(5 * s.p.parkAfter)
	if n := s.p.Proxy.parked.Load(); n != 0 {
		t.Errorf("%d connections are parked", n)
	}
	get(t, c, s.p.url+"/")
}

// timedConn is a connection that notes the deadlines of reads, and some of whose reads end at theirs.
type timedConn struct {
	net.Conn
	set   []time.Time
	fails int // so many reads end at the deadline
}

func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.set = append(c.set, t)
	return nil
}

func (c *timedConn) Read(p []byte) (int, error) {
	if c.fails--; c.fails >= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return copy(p, "x"), nil
}

// The deadline of a connection's reads is moved only where it has to be, and one that was set too early does not end
// a read.
func TestReadDeadlines(t *testing.T) {
	c := &timedConn{}
	s := newParking(time.Minute, new(atomic.Int64)).stay(&placed{Conn: c, room: &room{}})
	now := time.Now()
	past, header, idle := time.Unix(1, 0), now.Add(10*time.Minute), now.Add(90*time.Minute)
	for i, step := range []struct {
		to  time.Time
		set int // how often, up to now
	}{
		{header, 1}, {time.Time{}, 1}, {past, 2}, {time.Time{}, 3}, {idle, 3}, {header, 3}, {time.Time{}, 3},
		{past, 4}, {time.Time{}, 5}, {header, 5}, {now.Add(30 * time.Second), 6}, {header, 6},
	} {
		if err := s.SetReadDeadline(step.to); err != nil || len(c.set) != step.set {
			t.Fatalf("step %d: %v; the deadline was set %d times, expected %d: %v", i, err, len(c.set), step.set, c.set)
		}
	}
	c.fails = 1
	if n, err := s.Read(make([]byte, 1)); n != 1 || err != nil || len(c.set) != 7 || !c.set[6].Equal(header) {
		t.Errorf("a read that ended too soon: %d, %v, and the deadlines %v; expected another one, until %v", n, err, c.set, header)
	}
	_ = s.SetReadDeadline(past)
	c.fails = 1
	if n, err := s.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read at its deadline: %d, %v; expected the end", n, err)
	}
}
