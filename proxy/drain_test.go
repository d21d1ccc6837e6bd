package proxy

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
)

// Whoever stops the proxy a second time need not wait: what is inside is cut off, and the
// log says how much, where and why.
func TestHurry(t *testing.T) {
	entered := make(chan struct{})
	_, addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}))
	cfg := to("http://" + addr)
	cfg.Drain = Drain{Notice: 5 * time.Minute, Timeout: time.Hour}
	p := start(t, cfg)
	answered := make(chan error, 1)
	go func() {
		resp, err := client(t, 1, nil).Get(p.url)
		if err == nil {
			resp.Body.Close()
		}
		answered <- err
	}()
	await.Value(t, entered, "a request to reach the handler")
	p.stop()
	eventually(t, "the drain to begin", func() bool { return p.phase.Load() == noticing })
	p.Hurry()
	p.Hurry()
	if err := p.wait(t); err != nil {
		t.Fatal(err)
	}
	if err := await.Value(t, answered, "the answer"); err == nil {
		t.Error("the request was answered, expected that it is cut off")
	}
	for _, want := range []string{"requests are cut off", "requests=1", "told again to stop", addr + ": 1"} {
		if !strings.Contains(p.log.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, p.log.String())
		}
	}
}

// TestDrainSendsAnswers: a request whose handler has returned is not over before its answer is
// sent.
func TestDrainSendsAnswers(t *testing.T) {
	for _, major := range []int{1, 2} {
		entered, leave := make(chan struct{}), make(chan struct{})
		_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(entered)
			<-leave
			w.Write([]byte("done"))
		}))
		cork := newCorked()
		p := startWith(t, to("http://"+addr), cork.into(t))
		got := make(chan string, 1)
		go func() {
			resp, err := client(t, major, nil).Get(p.url)
			if err != nil {
				got <- err.Error()
				return
			}
			got <- read(t, resp)
		}()
		await.Value(t, entered, "a request to reach the handler")
		cork.close()
		close(leave)
		await.Value(t, cork.writing, "the answer to be written")
		p.stop()
		eventually(t, "the handler to return", func() bool { return p.phase.Load() == draining && p.active.Load() == 0 })
		time.Sleep(50 * time.Millisecond) // in which the connection would be closed
		close(cork.free)
		if answer := await.Value(t, got, "the answer"); answer != "done" {
			t.Errorf("HTTP/%d: %q, expected the answer", major, answer)
		}
		if err := p.wait(t); err != nil {
			t.Error(err)
		}
	}
}

// corked is a listener on whose connections nothing can be written between close and free.
type corked struct {
	net.Listener
	mu      sync.Mutex
	closed  bool
	writing chan struct{} // gets one when somebody tries
	free    chan struct{}
}

func newCorked() *corked { return &corked{writing: make(chan struct{}, 1), free: make(chan struct{})} }

// into puts it in front of a proxy that does not run yet.
func (c *corked) into(t *testing.T) func(*Proxy) {
	return func(p *Proxy) {
		if err := p.Listen(); err != nil {
			t.Fatal(err)
		}
		c.Listener, p.front[0] = p.front[0], c
	}
}

func (c *corked) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

func (c *corked) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return corkedConn{conn, c}, err
}

type corkedConn struct {
	net.Conn
	of *corked
}

func (c corkedConn) Write(b []byte) (int, error) {
	c.of.mu.Lock()
	closed := c.of.closed
	c.of.mu.Unlock()
	if closed {
		select {
		case c.of.writing <- struct{}{}:
		default:
		}
		<-c.of.free
	}
	return c.Conn.Write(b)
}
