package fastrpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/leaks"

	"github.com/spillgate/spillgate"
)

func TestMain(m *testing.M) {
	leaks.Verify(m)
}

// patience is how long a test waits for what must happen; only a failure reaches it.
const patience = time.Minute

// quiet is a log that nobody reads.
var quiet = slog.New(slog.DiscardHandler)

func newGate(t testing.TB, cfg spillgate.Config) *spillgate.Gate {
	t.Helper()
	if cfg.Objective == 0 {
		cfg.Objective = time.Minute // on a busy machine nothing is refused either
	}
	gate, err := spillgate.NewWith(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Close() })
	return gate
}

// serve starts a server with the methods that register adds, on TCP, and returns its address.
func serve(t testing.TB, cfg ServerConfig, register func(*Server)) (*Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, cfg, l, register), l.Addr().String()
}

func serveOn(t testing.TB, cfg ServerConfig, l net.Listener, register func(*Server)) *Server {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = quiet
	}
	s, err := NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	register(s)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("Serve returned %v, expected ErrClosed", err)
		}
	})
	return s
}

func dial(t testing.TB, cfg ClientConfig, addresses ...string) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := Dial(ctx, cfg, addresses...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func echo(_ context.Context, in, out []byte) ([]byte, error) { return append(out, in...), nil }

func echoes(s *Server) {
	s.Handle("echo", echo)
	s.HandleInline("inline", echo)
}

// eventually waits until what is true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

func TestCallsAreAnswered(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for _, gated := range []bool{false, true} {
			for _, method := range []string{"echo", "inline"} {
				name := network + "/" + method
				if gated {
					name += "/gate"
				}
				t.Run(name, func(t *testing.T) {
					address := "127.0.0.1:0"
					if network == "unix" {
						address = filepath.Join(t.TempDir(), "s")
					}
					l, err := net.Listen(network, address)
					if err != nil {
						t.Fatal(err)
					}
					var cfg ServerConfig
					if gated {
						cfg.Gate = newGate(t, spillgate.Config{})
					}
					serveOn(t, cfg, l, echoes)
					address = l.Addr().String()
					if network == "unix" {
						address = "unix:" + address
					}
					c := dial(t, ClientConfig{}, address)
					m := c.Method(method)
					var all sync.WaitGroup
					for i := range 16 {
						all.Go(func() {
							in := []byte(strings.Repeat("x", i*i*300))
							for range 20 {
								out, err := m.Call(within(t), in, []byte("kept:"))
								if err != nil || string(out) != "kept:"+string(in) {
									t.Errorf("%d bytes came back as %d, %v", len(in), len(out), err)
									return
								}
							}
						})
					}
					all.Wait()
					if gated {
						eventually(t, "all served", func() bool { return served64(cfg.Gate) == 320 })
					}
				})
			}
		}
	}
}

// served64 returns how many requests a gate has served.
func served64(g *spillgate.Gate) uint64 {
	var n uint64
	for _, v := range g.Stats().Served {
		n += v
	}
	return n
}

func TestErrors(t *testing.T) {
	gate := newGate(t, spillgate.Config{})
	_, address := serve(t, ServerConfig{Gate: gate}, func(s *Server) {
		s.Handle("own", func(context.Context, []byte, []byte) ([]byte, error) {
			return nil, &Error{Code: 7, Message: "no such key"}
		})
		s.HandleInline("plain", func(context.Context, []byte, []byte) ([]byte, error) { return nil, errors.New("broken disk") })
		s.Handle("panic", func(context.Context, []byte, []byte) ([]byte, error) { panic("a mistake") })
		s.HandleInline("inline panic", func(context.Context, []byte, []byte) ([]byte, error) { panic("a mistake") })
		s.Handle("below", func(context.Context, []byte, []byte) ([]byte, error) {
			return nil, &spillgate.Refusal{Pushback: -1}
		})
		echoes(s)
	})
	c := dial(t, ClientConfig{}, address)
	call := func(method string) error {
		_, err := c.Method(method).Call(within(t), nil, nil)
		return err
	}
	var own *Error
	if err := call("own"); !errors.As(err, &own) || *own != (Error{7, "no such key"}) {
		t.Errorf("an error with a code came as %v", err)
	}
	if err := call("plain"); !errors.As(err, &own) || *own != (Error{0, "broken disk"}) {
		t.Errorf("an error without a code came as %v", err)
	}
	for _, method := range []string{"panic", "inline panic"} {
		if err := call(method); !errors.Is(err, ErrFailed) {
			t.Errorf("%s came as %v", method, err)
		}
	}
	if err := call("nothing"); !errors.Is(err, ErrNoMethod) {
		t.Errorf("an unknown method came as %v", err)
	}
	var refusal *spillgate.Refusal
	if err := call("below"); !errors.As(err, &refusal) || refusal.Reason.String() != "downstream" || refusal.Pushback >= 0 {
		t.Errorf("a refusal further down came as %v", err)
	}
	if err := call("echo"); err != nil {
		t.Errorf("after all of them: %v", err)
	}
	eventually(t, "every ticket came back", func() bool { return gate.Stats().Running == 0 })
}

func TestRefusalsAreFound(t *testing.T) {
	gate := newGate(t, spillgate.Config{})
	_, address := serve(t, ServerConfig{Gate: gate}, echoes)
	c := dial(t, ClientConfig{}, address)
	gate.Drain()
	for _, method := range []string{"echo", "inline"} {
		_, err := c.Method(method).Call(within(t), nil, nil)
		var refusal *spillgate.Refusal
		if !errors.As(err, &refusal) || refusal.Reason.String() != "draining" || refusal.Pushback <= 0 {
			t.Errorf("%s: a gate that drains answered %v", method, err)
		}
	}
}

func TestDeadlinesAndCancelsReachTheHandler(t *testing.T) {
	began, over := make(chan struct{}, 1), make(chan error, 1)
	var ran, limited, ended atomic.Int32
	_, address := serve(t, ServerConfig{Gate: newGate(t, spillgate.Config{})}, func(s *Server) {
		s.Handle("late", func(ctx context.Context, _, _ []byte) ([]byte, error) {
			ran.Add(1)
			if _, ok := ctx.Deadline(); ok {
				limited.Add(1)
			}
			<-ctx.Done()
			ended.Add(1)
			return nil, ctx.Err()
		})
		s.Handle("hang", func(ctx context.Context, _, _ []byte) ([]byte, error) {
			close(began)
			<-ctx.Done()
			over <- ctx.Err()
			return nil, ctx.Err()
		})
		echoes(s)
	})
	c := dial(t, ClientConfig{}, address)

	eventually(t, "a call reached the handler in time", func() bool { // on a busy machine the first may not
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if _, err := c.Method("late").Call(ctx, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call out of time returned %v", err)
		}
		return ran.Load() > 0
	})
	eventually(t, "the handler's context ended", func() bool { return ended.Load() == ran.Load() })
	if n := limited.Load(); n != ran.Load() {
		t.Errorf("the handler had a deadline in %d of %d calls", n, ran.Load())
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-began
		cancel()
	}()
	if _, err := c.Method("hang").Call(ctx, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call returned %v", err)
	}
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled handler's context ended with %v", err)
	}
	if _, err := c.Method("echo").Call(within(t), nil, nil); err != nil {
		t.Errorf("the next call returned %v", err)
	}
	eventually(t, "credits came back", func() bool {
		l := c.routes.Load().links[0]
		return l.server.Outstanding() == 0 && l.flying.Load() == 0
	})
}

func TestAClientThatVanishesEndsItsHandlers(t *testing.T) {
	began, over := make(chan struct{}), make(chan struct{})
	gate := newGate(t, spillgate.Config{})
	_, address := serve(t, ServerConfig{Gate: gate}, func(s *Server) {
		s.Handle("hang", func(ctx context.Context, _, _ []byte) ([]byte, error) {
			close(began)
			<-ctx.Done()
			close(over)
			return nil, ctx.Err()
		})
	})
	c := dial(t, ClientConfig{}, address)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Method("hang").Call(context.Background(), nil, nil)
		failed <- err
	}()
	<-began
	c.Close()
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Errorf("the call of a closed client returned %v", err)
	}
	<-over
	eventually(t, "the ticket came back", func() bool { return gate.Stats().Running == 0 })
	if _, err := c.Method("hang").Call(context.Background(), nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a call after Close returned %v", err)
	}
}

func TestCreditsHoldCallsBack(t *testing.T) {
	cfg := spillgate.Config{}
	cfg.Objective = 20 * time.Millisecond
	cfg.Slots.Initial, cfg.Slots.Max = 1, 1
	gate := newGate(t, cfg)
	_, address := serve(t, ServerConfig{Gate: gate}, func(s *Server) {
		s.Handle("work", func(context.Context, []byte, []byte) ([]byte, error) {
			time.Sleep(2 * time.Millisecond)
			return nil, nil
		})
	})
	c := dial(t, ClientConfig{}, address)
	work := c.Method("work")
	var served, refused, unsent atomic.Int32
	var all sync.WaitGroup
	burst := func() {
		for range 64 {
			all.Go(func() {
				for range 5 {
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
					_, err := work.Call(ctx, nil, nil)
					cancel()
					var refusal *spillgate.Refusal
					switch {
					case err == nil:
						served.Add(1)
					case errors.As(err, &refusal) && !refusal.Reason.Sent():
						unsent.Add(1)
					case errors.As(err, &refusal) || errors.Is(err, context.DeadlineExceeded):
						refused.Add(1)
					default:
						t.Errorf("unexpected: %v", err)
					}
				}
			})
		}
		all.Wait()
	}
	eventually(t, "at many times the capacity, that some calls are served and others stay unsent", func() bool {
		burst()
		return served.Load() > 0 && unsent.Load() > 0
	})
	l := c.routes.Load().links[0]
	eventually(t, "credits came back", func() bool { return l.server.Outstanding() == 0 })
	if !l.based {
		t.Error("the client has heard of no grant")
	}
}

func TestSeveralServersShareTheCalls(t *testing.T) {
	for _, gated := range []bool{false, true} {
		var counts [2]atomic.Int32
		var addresses []string
		for i := range counts {
			var cfg ServerConfig
			if gated {
				cfg.Gate = newGate(t, spillgate.Config{})
			}
			_, a := serve(t, cfg, func(s *Server) {
				s.Handle("count", func(context.Context, []byte, []byte) ([]byte, error) { counts[i].Add(1); return nil, nil })
			})
			addresses = append(addresses, a)
		}
		c := dial(t, ClientConfig{}, addresses...)
		eventually(t, "both connections", func() bool { return len(c.routes.Load().links) == 2 })
		m := c.Method("count")
		eventually(t, "200 calls of which both servers get some", func() bool { // on a busy machine one may stand still meanwhile
			counts[0].Store(0)
			counts[1].Store(0)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 25 {
						if _, err := m.Call(within(t), nil, nil); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			a, b := counts[0].Load(), counts[1].Load()
			if a+b != 200 {
				t.Fatalf("gated %v: of 200 calls %d and %d went to the two servers", gated, a, b)
			}
			return a >= 20 && b >= 20
		})
	}
}

func TestShutdownLosesNothing(t *testing.T) {
	gate := newGate(t, spillgate.Config{})
	s, address := serve(t, ServerConfig{Gate: gate}, func(s *Server) {
		s.Handle("work", func(_ context.Context, in, out []byte) ([]byte, error) {
			time.Sleep(time.Millisecond)
			return append(out, in...), nil
		})
	})
	c := dial(t, ClientConfig{}, address)
	m := c.Method("work")
	var answered atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				_, err := m.Call(within(t), []byte("x"), nil)
				var refusal *spillgate.Refusal
				switch {
				case err == nil:
					answered.Add(1)
				case errors.As(err, &refusal) && refusal.Reason.String() == "draining":
					return
				case errors.Is(err, ErrLost) && strings.Contains(err.Error(), "no server is connected"):
					return
				default:
					t.Errorf("a call during the shutdown returned %v", err)
					return
				}
			}
		})
	}
	eventually(t, "calls were answered", func() bool { return answered.Load() > 50 })
	if err := s.Shutdown(within(t)); err != nil {
		t.Errorf("Shutdown returned %v", err)
	}
	all.Wait()
}

func TestAConnectionComesBack(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	first := serveOn(t, ServerConfig{}, l, echoes)
	c := dial(t, ClientConfig{}, address)
	m := c.Method("echo")
	if _, err := m.Call(within(t), nil, nil); err != nil {
		t.Fatal(err)
	}
	first.Close()
	eventually(t, "the loss was noticed", func() bool {
		_, err := m.Call(within(t), nil, nil)
		return errors.Is(err, ErrLost)
	})
	if l, err = net.Listen("tcp", address); err != nil {
		t.Skip("somebody else took the port:", err)
	}
	serveOn(t, ServerConfig{Gate: newGate(t, spillgate.Config{})}, l, echoes)
	eventually(t, "a call was answered again", func() bool {
		_, err := m.Call(within(t), nil, nil)
		return err == nil
	})
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	if _, err := Dial(within(t), ClientConfig{MaxMessage: -1}); err == nil ||
		!strings.Contains(err.Error(), "MaxMessage is -1") || !strings.Contains(err.Error(), "no address") {
		t.Errorf("got %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_ = conn.Close()
		}
	}()
	defer func() { _ = l.Close() }()
	if _, err := Dial(within(t), ClientConfig{}, l.Addr().String()); !errors.Is(err, ErrProtocol) {
		t.Errorf("a server of another protocol: %v", err)
	}
	if _, err := NewServer(ServerConfig{MaxInFlight: MaxLanes + 1, WriteTimeout: -1}); err == nil ||
		!strings.Contains(err.Error(), "MaxInFlight") || !strings.Contains(err.Error(), "WriteTimeout") {
		t.Errorf("got %v", err)
	}
}
