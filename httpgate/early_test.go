package httpgate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// inUse serves requests behind a gate of which an eighth is in use, so that bodies are awaited.
// It returns the count of requests to /seen that the handler saw begin.
func inUse(t *testing.T, opts ...Option) (s *server, gate interface{ running() int }, seen *atomic.Int64) {
	t.Helper()
	g := newGate(t, few(busyShare), nil)
	held, entered := make(chan struct{}), make(chan struct{})
	seen = new(atomic.Int64)
	s = serve(t, Handler(g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			close(entered)
			<-held
			return
		}
		seen.Add(1)
		if r.URL.Path == "/looks" {
			for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
				for name := range r.Trailer {
					delete(r.Trailer, name+"-Other")
				}
			}
		}
		if r.URL.Path == "/unread" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err, r.Trailer.Get("X-End"))
	}), opts...))
	var all sync.WaitGroup
	all.Go(func() {
		if resp, err := (&http.Client{Transport: base(t, 1)}).Get(s.url + "/held"); err == nil {
			resp.Body.Close()
		}
	})
	await.Value(t, entered, "a request to reach the handler")
	t.Cleanup(func() { close(held); await.All(t, &all, "the clients to end") })
	return s, counted{func() int { return g.Stats().Running }}, seen
}

type counted struct{ f func() int }

func (c counted) running() int { return c.f() }

// A client that stops in the middle of a body of unknown length has no slot, and what it sends
// later arrives whole, with its trailers, in one.
func TestBodiesThatStopWaitOutside(t *testing.T) {
	for _, first := range []string{"", "1\r\nx\r\n"} {
		s, gate, seen := inUse(t, HoldStreams(time.Hour), Patient(Patience{Blocked: 5 * time.Millisecond}))
		c, br := raw(t, s)
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n%s", first)
		if first != "" { // it goes on without a slot, which it has for a moment
			eventually(t, "the handler to see the request", func() bool { return seen.Load() == 1 })
			eventually(t, "its slot to be given back", func() bool { return gate.running() == 1 })
		} else {
			time.Sleep(20 * time.Millisecond)
			if seen.Load() != 0 || gate.running() != 1 {
				t.Errorf("a client that said nothing has a slot: %d run", gate.running())
			}
		}
		fmt.Fprint(c, "2\r\nyz\r\n0\r\nX-End: over\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprint(int64(len(first)/6+2), nil, "over")
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(b) != want {
			t.Errorf("after %q: %d %s, expected %s", first, resp.StatusCode, b, want)
		}
	}
}

// A handler may look at the trailers that are announced while the end of the body comes (the race detector looks).
func TestTrailersComeToTheReader(t *testing.T) {
	s, _, seen := inUse(t, HoldStreams(time.Hour), Patient(Patience{Blocked: 5 * time.Millisecond}))
	c, br := raw(t, s)
	fmt.Fprint(c, "POST /looks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n1\r\nx\r\n")
	eventually(t, "the handler to see the request", func() bool { return seen.Load() == 1 })
	fmt.Fprint(c, "2\r\nyz\r\n0\r\nX-End: over\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(int64(3), nil, "over")
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(b) != want {
		t.Errorf("%d %s, expected %s", resp.StatusCode, b, want)
	}
}

// Bodies of unknown length that come at once are whole before the request has a slot, or as
// much of them as is gathered, and arrive whole.
func TestBodiesOfUnknownLengthAreGathered(t *testing.T) {
	s, _, _ := inUse(t)
	for _, major := range []int{1, 2} {
		rt := base(t, major)
		for _, size := range []int{0, 1, firstRoom, 5000, 64 << 10, 300 << 10} {
			r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, io.NopCloser(io.LimitReader(strings.NewReader(strings.Repeat("x", size)), int64(size))))
			r.ContentLength = -1
			r.Trailer = http.Header{"X-End": {"over"}}
			if resp, body := send(t, rt, r); resp.StatusCode != 200 || body != fmt.Sprint(int64(size), nil, "over") {
				t.Errorf("HTTP/%d, %d bytes: %d %s", major, size, resp.StatusCode, body)
			}
		}
	}
}

// A client that leaves in the middle of a body that is awaited leaves nothing behind; one that is
// answered before its body came keeps no server's goroutine (goleak looks).
func TestAwaitedBodiesLeaveNothing(t *testing.T) {
	s, gate, _ := inUse(t, HoldStreams(20*time.Millisecond))
	for range 20 {
		c, _ := raw(t, s)
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx")
		time.Sleep(time.Millisecond)
		c.Close()
	}
	eventually(t, "all to have left", func() bool { return gate.running() == 1 })
	c, br := raw(t, s)
	fmt.Fprint(c, "POST /unread HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx")
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 204 {
		t.Errorf("answered before the body: %v, %v", resp, err)
	}
}

// A body that is awaited, and of which no end can come, is its client's fault: the request is answered 400, and neither
// has a slot nor reaches the handler, which would break off what it does for it.
func TestAwaitedBodiesThatBreakOff(t *testing.T) {
	bad := make(chan error, 1)
	s, gate, seen := inUse(t, OnBadBody(func(_ *http.Request, err error) { bad <- err }))
	for _, body := range []string{"x\r\n", "1\r\nxy\r\n", "1;x=" + strings.Repeat("y", 5000) + "\r\n", "5\r\nx", "1\r\nx\r\n"} {
		c, br := raw(t, s)
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+body)
		_ = c.(*net.TCPConn).CloseWrite()
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 400 || !resp.Close {
			t.Errorf("%.20q: %v, %v", body, resp, err)
		}
		if err := await.Value(t, bad, "the program to hear of it"); !errors.Is(err, ErrBrokenBody) {
			t.Errorf("%.20q: %v", body, err)
		}
	}
	if n := seen.Load(); n != 0 || gate.running() != 1 {
		t.Errorf("%d of them reached the handler, %d requests run", n, gate.running())
	}
}

// The first message of a call of gRPC is awaited whole, and no more: its client may wait for
// the answer to it.
func TestFirstMessageIsAwaited(t *testing.T) {
	for _, tt := range []struct {
		b    string
		want bool
	}{{"", false}, {"\x00\x00\x00\x00", false}, {"\x00\x00\x00\x00\x00", true}, {"\x00\x00\x00\x00\x02x", false}, {"\x00\x00\x00\x00\x02xyz", true}, {"\x00\xff\xff\xff\xffx", false}} {
		if hasMessage([]byte(tt.b)) != tt.want {
			t.Errorf("%q is a message: %v", tt.b, !tt.want)
		}
	}
	s, _, seen := inUse(t, HoldStreams(time.Hour), Patient(Patience{Blocked: time.Hour}))
	pr, pw := io.Pipe()
	r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, pr)
	r.Header.Set("Content-Type", "application/connect+json")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := base(t, 2).RoundTrip(r); err == nil {
			resp.Body.Close()
		}
	}()
	_, _ = io.WriteString(pw, "\x00\x00\x00\x00\x02x")
	time.Sleep(20 * time.Millisecond)
	if seen.Load() != 0 {
		t.Error("half of a message has a slot")
	}
	_, _ = io.WriteString(pw, "y")
	eventually(t, "the handler to see the message", func() bool { return seen.Load() == 1 })
	pw.Close()
	await.Value(t, done, "the request to end")
}

// A client that asks to be asked for its body, and does not send it, has no slot once it was
// asked.
func TestExpectedBodiesHoldNoSlot(t *testing.T) {
	gate := newGate(t, few(2), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}), Patient(Patience{Blocked: time.Hour})))
	var all []io.Writer
	var answers []*bufio.Reader
	for range 8 {
		c, br := raw(t, s)
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
		if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 100 {
			t.Fatalf("%v, %v", resp, err)
		}
		all, answers = append(all, c), append(answers, br)
	}
	eventually(t, "their slots to be free", func() bool { return gate.Stats().Running == 0 })
	for i, c := range all {
		fmt.Fprint(c, "hello")
		resp, err := http.ReadResponse(answers[i], nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(b) != "5" {
			t.Errorf("%d %s", resp.StatusCode, b)
		}
	}
	if s := gate.Stats(); s.Served[work.Done] != 8 {
		t.Errorf("served %v", s.Served)
	}
}

// closes counts calls of Close, which must not come at the same time.
type closes struct {
	io.Reader
	n int
}

func (c *closes) Close() error { c.n++; return nil }

// TestAwaitedBodiesAreClosedOnce: when the answer is there, whoever reads the body may close it, and so does the handler.
func TestAwaitedBodiesAreClosedOnce(t *testing.T) {
	body := &closes{}
	e := &early{ReadCloser: body, of: new(memory)}
	var all sync.WaitGroup
	all.Go(func() { e.Close() })
	e.done(nil, &http.Request{ProtoMajor: 2})
	if all.Wait(); body.n != 1 {
		t.Errorf("closed %d times", body.n)
	}
}

// A gate that is turned off has no slots that a silent client could hold: nothing is awaited of its body.
func TestNothingIsAwaitedWhereTheGateIsOff(t *testing.T) {
	s, _, seen := inUse(t, HoldStreams(time.Hour), Patient(Patience{Blocked: time.Hour}))
	s.Server.Handler.(*handler).only.gate.SetMode(live.Off)
	c, br := raw(t, s)
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\n%s: %s\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", field, wire.Header(wire.Tags{Budget: time.Hour}.Append(nil)))
	eventually(t, "the handler to see it", func() bool { return seen.Load() == 1 })
	fmt.Fprint(c, "0\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(b) != fmt.Sprint(int64(1), nil) {
		t.Errorf("%s %q", resp.Status, b)
	}
}
