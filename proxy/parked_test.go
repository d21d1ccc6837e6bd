package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

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
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
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

// A parked connection is closed when an idle one would be.
func TestParkedConnectionsTimeOut(t *testing.T) {
	s := newParkedScene(t, Limits{IdleTimeout: 200 * time.Millisecond, HeaderTimeout: time.Minute})
	s.say(bare)
	s.answered("")
	s.parked(1)
	if _, err := s.in.ReadByte(); err != io.EOF {
		t.Errorf("%v, want the end", err)
	}
	s.parked(0)
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
