package httpgate

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// events collects what a gate observes.
type events struct {
	mu  sync.Mutex
	all []live.Event
}

func (e *events) observe(ev live.Event) {
	e.mu.Lock()
	e.all = append(e.all, ev)
	e.mu.Unlock()
}

func (e *events) list() []live.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]live.Event(nil), e.all...)
}

// oneSlot admits one request at a time, so that a second one waits.
func oneSlot() admission.Config {
	return admission.Config{Objective: time.Minute, Slots: slots.Config{Min: 1, Max: 1}}
}

// roomy admits whatever a test sends.
func roomy() admission.Config { return admission.Config{Objective: time.Minute} }

func newGate(t testing.TB, cfg admission.Config, observe func(live.Event)) *live.Gate {
	t.Helper()
	g, err := live.NewGate(live.GateConfig{Config: cfg, Observe: observe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// server is a real server on loopback, for HTTP/1.1 and cleartext HTTP/2.
type server struct {
	*http.Server
	url string
}

func serve(t testing.TB, h http.Handler) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{&http.Server{Handler: h, ErrorLog: nil}, "http://" + l.Addr().String()}
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	Track(s.Server)
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	t.Cleanup(func() { s.Close(); await.Value(t, done, "the server to stop") })
	return s
}

// base is a transport that speaks one version of HTTP, over connections that end if a test
// waits for them too long.
func base(t testing.TB, major int) *http.Transport {
	t.Helper()
	b := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	b.Protocols.SetHTTP1(major == 1)
	b.Protocols.SetUnencryptedHTTP2(major == 2)
	b.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = c.SetDeadline(time.Now().Add(2 * await.Patience))
		}
		return c, err
	}
	t.Cleanup(b.CloseIdleConnections)
	return b
}

// request is what a client that knows credits sends.
func request(t testing.TB, url string, tags wire.Tags) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(field, wire.Header(tags.Append(nil)))
	return r
}

// send returns the response after its body was read, and its body.
func send(t testing.TB, rt http.RoundTripper, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// replyIn returns the message in a header or trailer, nil without one.
func replyIn(t testing.TB, h http.Header) *wire.Reply {
	t.Helper()
	v, ok := h[field]
	if !ok {
		return nil
	}
	msg, err := decodeField(v, false)
	if err != nil {
		t.Fatal(err)
	}
	r, err := wire.ParseReply(msg)
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}
