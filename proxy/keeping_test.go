package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/mono"
)

// keptScene plays a policy with an objective of 80 ms, whose patience is 10 ms.
type keptScene struct {
	t   *testing.T
	k   keeping
	now mono.Time
}

func newKeptScene(t *testing.T) *keptScene {
	return &keptScene{t: t, k: keeping{patience: 10 * time.Millisecond}, now: mono.Time(time.Hour)}
}

func (s *keptScene) pass(d time.Duration) { s.now = s.now.Add(d) }

// serve has requests answered, one after another, on links.
func (s *keptScene) serve(takes time.Duration, links ...*link) {
	for _, l := range links {
		s.k.ask(s.now, l)
		s.pass(takes)
		s.k.answer(s.now, l)
	}
}

func (s *keptScene) want(what string, p phase) {
	s.t.Helper()
	if s.k.phase != p {
		s.t.Fatalf("%s: phase %d, want %d", what, s.k.phase, p)
	}
	if parts := s.k.parts(s.now); parts != (p != keep) {
		s.t.Fatalf("%s: in phase %d a request parts: %v", what, p, parts)
	}
}

// Two kept connections have both processes of a server, and a third waits.
func TestKeepingFreesAProcess(t *testing.T) {
	s, a, b, waits := newKeptScene(t), &link{}, &link{}, &link{}
	s.serve(2*time.Millisecond, a, b)
	s.k.ask(s.now, waits)
	s.serve(2*time.Millisecond, a, b)
	if again, closeIdle := s.k.wake(s.now); closeIdle || again == 0 {
		t.Fatalf("after 4 ms: again at %v, idle ones closed: %v", again, closeIdle)
	}
	s.want("after 4 ms", keep)
	s.serve(2*time.Millisecond, a, b, a)
	if _, closeIdle := s.k.wake(s.now); !closeIdle {
		t.Fatal("after 10 ms no idle connection is closed")
	}
	s.want("after 10 ms", try)
	s.k.end(a)
	s.serve(3*time.Millisecond, &link{}) // a later one, which the trial is not for
	s.want("after another answer", try)
	s.k.answer(s.now, waits)
	s.want("after its answer", part)
	s.k.end(waits)
	if s.k.parts(s.now) {
		t.Error("of as many connections as there are processes one is not kept")
	}
	next := &link{}
	s.k.ask(s.now, next) // and has no process
	if again, closeIdle := s.k.wake(s.now); !closeIdle || again == 0 || !s.k.parts(s.now) {
		t.Errorf("of more connections than processes all are kept: again at %v, idle ones closed: %v", again, closeIdle)
	}
	s.k.end(b)
	s.k.answer(s.now, next)
	if _, closeIdle := s.k.wake(s.now); closeIdle || s.k.parts(s.now) {
		t.Error("connections are closed with none too many")
	}
	s.pass(firstParting)
	s.k.ask(s.now, &link{})
	s.k.wake(s.now)
	s.want("after a second", keep)
}

// A slow answer of a server with a thread for each connection looks like a process that is missing. The next connections that
// are answered while as many others are open show that none is.
func TestKeepingFindsMoreProcesses(t *testing.T) {
	s, a, b, slow := newKeptScene(t), &link{}, &link{}, &link{}
	s.serve(2*time.Millisecond, a, b)
	s.k.ask(s.now, slow)
	s.serve(2*time.Millisecond, a, b, a, b, a, b)
	s.k.wake(s.now)
	s.want("with a slow answer", try)
	s.k.end(b)
	s.k.answer(s.now, slow)
	if s.k.phase != part || s.k.most != 2 {
		t.Fatalf("phase %d with at most %d connections, want %d and 2", s.k.phase, s.k.most, part)
	}
	late := &link{}
	s.k.ask(s.now, late)
	s.k.end(slow) // whose process it may have
	s.k.end(a)
	s.k.answer(s.now, late)
	if s.k.most != 2 {
		t.Errorf("at most %d connections after one that was answered when others had ended, want 2", s.k.most)
	}
	s.serve(2*time.Millisecond, &link{}) // the second one that is open
	for n := 3; n < 10; n++ {
		s.serve(2*time.Millisecond, &link{})
		if s.k.most != n || s.k.parts(s.now) {
			t.Errorf("at most %d connections after %d were answered at once, and a request parts: %v; want %d and false", s.k.most, n, s.k.parts(s.now), n)
		}
	}
}

// A new connection that a later one has overtaken has a process, and is slow; in an accept queue none overtakes.
func TestKeepingKnowsSlowAnswers(t *testing.T) {
	s, a, slow, waits := newKeptScene(t), &link{}, &link{}, &link{}
	s.serve(2*time.Millisecond, a)
	s.k.ask(s.now, slow)
	s.pass(s.k.patience)
	s.serve(2*time.Millisecond, &link{}, a, a, a, a, a, a, a, a)
	s.k.wake(s.now)
	s.want("with a slow answer", keep)
	s.k.ask(s.now, waits)
	s.serve(2*time.Millisecond, a, a, a, a, a, a, a, a)
	s.k.wake(s.now)
	s.want("with one that waits", try)
	s.k.answer(s.now, slow)
	s.want("after the slow answer", try)
	if s.k.answer(s.now, waits); s.k.phase != part {
		t.Errorf("phase %d after the answer of the one that waited, want %d", s.k.phase, part)
	}
}

// That a connection was closed under a request costs kept connections for a second, however long the processes were counted for.
func TestKeepingOneCutAfterTwoCounts(t *testing.T) {
	s := newKeptScene(t)
	for _, most := range []int{3, 3, none} {
		s.k.part(s.now, most)
	}
	if took := s.k.until.Sub(s.now); took != firstParting {
		t.Errorf("none is kept for %v, want %v", took, firstParting)
	}
}

// What holds for some connections is asked again if a new one is silent although there are no more: another program has
// some of the processes.
func TestKeepingFindsFewerProcesses(t *testing.T) {
	s, a, b, waits := newKeptScene(t), &link{}, &link{}, &link{}
	s.k.phase, s.k.until, s.k.most = part, s.now.Add(longestParting), 3
	s.serve(2*time.Millisecond, a, b)
	s.k.ask(s.now, waits)
	for range 5 {
		s.serve(2*time.Millisecond, a, b)
	}
	s.k.wake(s.now)
	s.want("with a silent one", try)
	s.k.end(a)
	s.k.answer(s.now, waits)
	if s.k.phase != part || s.k.most != 2 {
		t.Errorf("phase %d with at most %d connections, want %d and 2", s.k.phase, s.k.most, part)
	}
}

// A request that takes minutes on a new connection costs a few trials, at growing distances.
func TestKeepingLeavesLongWorkAlone(t *testing.T) {
	s, a, long := newKeptScene(t), &link{}, &link{}
	s.serve(time.Millisecond, a)
	s.k.ask(s.now, long)
	trials, parted, was := 0, 0, keep
	for range 600_000 { // 10 minutes
		if s.k.parts(s.now) {
			parted++
		}
		s.serve(time.Millisecond, a)
		s.k.wake(s.now)
		if s.k.phase != was && s.k.phase == try {
			trials++
		}
		was = s.k.phase
	}
	if trials > 20 || parted > 20*40 {
		t.Errorf("%d trials in ten minutes, in which %d of 600,000 requests parted", trials, parted)
	}
	if trials == 0 {
		t.Error("no trial")
	}
}

// A client that sends a long body, slowly, on a new connection does not make the server one of few processes; that the
// answer does not come after it may.
func TestKeepingLeavesUploadsAlone(t *testing.T) {
	s, a, upload := newKeptScene(t), &link{}, &link{}
	s.serve(time.Millisecond, a)
	s.k.ask(s.now, upload)
	for range 200 {
		s.serve(time.Millisecond, a, a, a, a, a)
		s.k.more(s.now, upload)
		s.k.wake(s.now)
		s.want("during an upload", keep)
	}
	s.serve(time.Millisecond, a, a, a, a, a, a, a, a, a, a)
	s.k.wake(s.now)
	s.want("after it", try)
	s.k.answer(s.now, upload)
	s.k.more(s.now, upload) // the end of a body after the answer
	if len(s.k.silent) != 0 {
		t.Error("a connection that was answered is silent")
	}
}

// Nothing is tried where nothing is answered, where no kept connection was answered since,
// and where answers take that long.
func TestKeepingTriesOnlyWhatIsSuspicious(t *testing.T) {
	for name, play := range map[string]func(s *keptScene){
		"no answers": func(s *keptScene) {
			for range 8 {
				s.k.ask(s.now, &link{})
			}
			s.pass(time.Second)
		},
		"none since": func(s *keptScene) {
			a := &link{}
			s.serve(time.Millisecond, a)
			s.k.ask(s.now, &link{})
			s.k.ask(s.now, a)
			s.pass(time.Second)
		},
		"long answers": func(s *keptScene) {
			a, b := &link{}, &link{}
			s.serve(16*time.Millisecond, a, b)
			s.k.ask(s.now, &link{})
			s.serve(15*time.Millisecond, a, b)
		},
		"no connection is left that was answered": func(s *keptScene) {
			a := &link{}
			s.serve(time.Millisecond, a)
			s.k.ask(s.now, &link{})
			s.serve(time.Millisecond, a)
			s.k.end(a)
			s.pass(time.Second)
		},
	} {
		s := newKeptScene(t)
		play(s)
		if _, closeIdle := s.k.wake(s.now); closeIdle || s.k.phase != keep {
			t.Errorf("%s: phase %d, idle connections closed: %v", name, s.k.phase, closeIdle)
		}
	}
}

// Whatever happens in whatever order, what is counted is what is open.
func TestKeepingCountsWhatIsOpen(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := newKeptScene(t)
	var open []*link
	for range 20_000 {
		s.pass(time.Duration(rng.IntN(5)) * time.Millisecond)
		if len(open) == 0 || rng.IntN(10) == 0 {
			open = append(open, &link{})
		}
		i := rng.IntN(len(open))
		switch l := open[i]; rng.IntN(5) {
		case 0:
			s.k.end(l)
			s.k.answer(s.now, l) // that came too late
			s.k.end(l)
			open = append(open[:i], open[i+1:]...)
		case 1, 2:
			if l.asked == 0 {
				s.k.ask(s.now, l)
			}
		case 3:
			s.k.answer(s.now, l)
		case 4:
			s.k.wake(s.now)
		}
		heard, silent := 0, 0
		for _, l := range open {
			if l.heard {
				heard++
			} else if l.asked != 0 {
				silent++
			}
		}
		if s.k.heard != heard || len(s.k.silent) != silent {
			t.Fatalf("%d heard and %d silent, want %d and %d", s.k.heard, len(s.k.silent), heard, silent)
		}
	}
}

// prefork serves HTTP/1.1 with processes of which each has one connection until that ends.
func prefork(t *testing.T, processes int, takes time.Duration) (addr string, accepted *atomic.Int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = &atomic.Int64{}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				accepted.Add(1)
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				serveOne(c, takes)
				stop()
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		await.All(t, &all, "the clients to end")
	})
	return l.Addr().String(), accepted
}

// serveOne answers requests on a connection until it ends or one asks for that.
func serveOne(c net.Conn, takes time.Duration) {
	defer c.Close()
	for in := bufio.NewReader(c); ; {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(takes)
		last := ""
		if r.Close {
			last = "Connection: close\r\n"
		}
		if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n%s\r\nok", last); err != nil || r.Close {
			return
		}
	}
}

// A server of two processes with a connection each answers all of eight clients, who never
// stop.
func TestEachClientOfAPreforkServerIsAnswered(t *testing.T) {
	addr, _ := prefork(t, 2, time.Millisecond)
	cfg := to("http://" + addr)
	cfg.Objective, cfg.Slots = time.Minute, Slots{Min: 8, Max: 8}
	p := startWith(t, cfg, func(p *Proxy) { p.state.Load().upstreams[0].base.keeper.policy.patience = 10 * time.Millisecond })
	const each = 20
	done := make(chan error, 8)
	var going atomic.Bool
	going.Store(true)
	var all sync.WaitGroup
	for range cap(done) {
		all.Go(func() {
			c := client(t, 1, nil)
			for n := 0; going.Load(); n++ {
				resp, err := c.Get(p.url + "/")
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				if err != nil || resp.StatusCode != http.StatusOK || n == each {
					if err == nil && resp.StatusCode != http.StatusOK {
						err = fmt.Errorf("status %d", resp.StatusCode)
					}
					select {
					case done <- err:
					default:
					}
					if err != nil {
						return
					}
				}
			}
		})
	}
	for range cap(done) {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(await.Patience):
			t.Fatal("some clients have no answers")
		}
	}
	going.Store(false)
	await.All(t, &all, "the clients to end")
}

// A server that keeps up is sent its requests on connections that are kept.
func TestConnectionsAreKept(t *testing.T) {
	addr, accepted := prefork(t, 4, 0)
	p := start(t, to("http://"+addr))
	c := client(t, 1, nil)
	for range 200 {
		if resp, err := c.Get(p.url + "/"); err != nil {
			t.Fatal(err)
		} else {
			read(t, resp)
		}
	}
	if n := accepted.Load(); n > 4 {
		t.Errorf("%d connections for 200 requests one after another", n)
	}
}

// A connection that the server closed under a request has none kept for a second, then for two, and
// so on; after a minute without such a failure, for a second again.
func TestKeepingAfterStaleConnections(t *testing.T) {
	s := newKeptScene(t)
	for _, parting := range []time.Duration{firstParting, 2 * firstParting, 4 * firstParting} {
		s.k.stale(s.now)
		s.want("after a failure", part)
		s.k.stale(s.now) // another connection of before
		if again, closeIdle := s.k.wake(s.now); !closeIdle || again != s.now.Add(parting) {
			t.Fatalf("again after %v, idle ones closed: %v, want %v and yes", again.Sub(s.now), closeIdle, parting)
		}
		s.pass(parting)
		s.k.wake(s.now)
		s.want("after the time", keep)
	}
	s.pass(longestParting + time.Second)
	s.k.stale(s.now)
	if again, _ := s.k.wake(s.now); again != s.now.Add(firstParting) {
		t.Errorf("again after %v, want %v", again.Sub(s.now), firstParting)
	}
}

// A server that closes kept connections without a word costs a few of the requests that may not be
// executed twice, and not a part of all: connections to it are not kept for a while.
func TestServerThatClosesKeptConnections(t *testing.T) {
	for _, after := range []time.Duration{0, 2 * time.Millisecond} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var conns sync.WaitGroup
		conns.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				conns.Go(func() {
					defer c.Close()
					_ = c.SetDeadline(time.Now().Add(time.Minute))
					r, err := http.ReadRequest(bufio.NewReader(c))
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					time.Sleep(after)
				})
			}
		})
		t.Cleanup(func() { l.Close(); await.All(t, &conns, "the server to stop") })
		p := start(t, to("http://"+l.Addr().String()))
		c := client(t, 1, nil)
		failed := 0
		for range 400 {
			resp, err := c.Post(p.url, "text/plain", strings.NewReader("hello"))
			if err != nil {
				t.Fatal(err)
			}
			if read(t, resp); resp.StatusCode != 200 {
				failed++
			}
			time.Sleep(after)
		}
		t.Logf("closes after %v: %d of 400 requests failed", after, failed)
		// Connections are kept again after 1, 3, 7 s and so on, which may cost a request each time.
		if failed > 10 {
			t.Errorf("%d of 400 requests failed at a server that closes after %v, expected a few", failed, after)
		}
	}
}

// An upgraded connection that the server closes after the client said something is no kept one that
// failed: connections are kept as before.
func TestUpgradedConnectionsAreNotKept(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		_, _ = rw.ReadByte()
	}))
	p := start(t, to("http://"+addr))
	for range 3 {
		c := connectTo(t, p.addr)
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != 101 {
			t.Fatalf("%v, %v", resp, err)
		}
		fmt.Fprint(c, "x")
		_, _ = io.Copy(io.Discard, c.r) // until the server has closed it
		get(t, client(t, 1, nil), p.url)
	}
	k := p.state.Load().upstreams[0].base.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.policy.phase != keep {
		t.Error("connections are not kept")
	}
}

// A client that leaves while the server closes idle connections, as it may at any time, is no connection
// that the server closed under a request: connections are kept as before.
func TestLeavingClientsAndIdleConnections(t *testing.T) {
	entered := make(chan struct{})
	server, addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			close(entered)
			<-r.Context().Done()
		}
	}))
	c, _, err := connect(Config{}.WithDefaults().Limits, Upstream{URL: "http://" + addr}, "http", time.Minute) // no trial closes it before the server does
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdleConnections()
	ask := func(ctx context.Context, path string) error {
		r, err := http.NewRequestWithContext(ctx, "GET", "http://"+addr+path, nil)
		if err != nil {
			return err
		}
		resp, err := c.RoundTrip(r)
		if err == nil {
			read(t, resp)
		}
		return err
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	left := make(chan error, 1)
	go func() { left <- ask(ctx, "/held") }()
	await.Value(t, entered, "a request to reach the server")
	if err := ask(t.Context(), "/"); err != nil { // on a second connection, which is kept
		t.Fatal(err)
	}
	eventually(t, "the server to close the kept connection", func() bool {
		server.SetKeepAlivesEnabled(false)
		return c.keeper.cut.Load() != 0
	})
	leave()
	if err := await.Value(t, left, "the request to end"); err == nil {
		t.Error("the request of a client that left was answered")
	}
	c.keeper.mu.Lock()
	defer c.keeper.mu.Unlock()
	if c.keeper.policy.phase != keep {
		t.Error("connections are not kept")
	}
}
