package fastrpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/broker/stamp"
	"github.com/spillgate/spillgate/internal/live"
)

// Handler answers one call: it appends the answer to out, which has room and may have bytes
// that it must keep, and returns the result, or an error. The server uses in and out again, and
// ctx for other calls: none of them may be used any more when it has returned.
//
// A *spillgate.Refusal in the error says that a service further down refused; the caller
// gets that refusal.
type Handler func(ctx context.Context, in, out []byte) ([]byte, error)

// ServerConfig describes a Server. Its zero value works.
type ServerConfig struct {
	// Gate admits the calls. Default nil: all run at once, and callers have no credits.
	Gate *spillgate.Gate
	// Trust names the calls whose class, priority, workflow, progress and sending process are
	// believed: those from your own services. Default nil: none.
	Trust func(peer net.Addr, method string) bool
	// Classify replaces Trust: it returns the tags of a call that are believed. Default nil:
	// Trust decides.
	Classify func(peer net.Addr, method string, claimed spillgate.Tags) spillgate.Tags
	// TLS, if set, is spoken on every connection. Default nil: none. Without it, anyone on the
	// network path can read and change the messages.
	TLS *tls.Config
	// MaxMessage is the longest request, in bytes, up to 1 GiB. Default 1 MiB. Each connection
	// may need a buffer of it. Its caller is told before it sends a longer one.
	MaxMessage int
	// MaxInFlight is the most running and waiting requests of a connection, up to MaxLanes.
	// Default 1024. A client with credits keeps further ones back; without, it refuses them unsent.
	MaxInFlight int
	// MaxHeld is the most memory for the messages of requests that run or wait, of all connections together, in bytes; those of
	// at most 4 KiB do not count. A connection may hold as much as is still free: one alone half of it, and two a third each.
	// What is beyond is refused, and may be sent again. Default 256 MiB, or four times MaxMessage if that is more; if it is less
	// than MaxMessage, that is as much.
	MaxHeld int
	// MaxConnections is the most connections at once. Default 65,536. Further ones are closed.
	MaxConnections int
	// MaxUnread is about how many bytes of answers wait for a client that reads slowly. Default 1
	// MiB. Beyond it handlers wait, and nothing more is read from this client.
	MaxUnread int
	// WriteTimeout is how long a write may take, until the client counts as gone. Default 10 s.
	WriteTimeout time.Duration
	// Log is told of panics of handlers and, at level debug, of clients that break the protocol.
	// Default slog.Default().
	Log *slog.Logger
}

// Everyone trusts every call. It is a ServerConfig.Trust for a server that only your own
// services can reach.
func Everyone(net.Addr, string) bool { return true }

const (
	defaultMessage     = 1 << 20
	mostMessage        = 1 << 30
	defaultInFlight    = 1024
	defaultConnections = 1 << 16
	defaultUnread      = 1 << 20
	defaultHeld        = 256 << 20
	mostHeld           = 1 << 40
	// leastHeld is the longest message that is not counted as held, in bytes: those of all lanes take 4 MiB by default.
	leastHeld    = 4 << 10
	defaultWrite = 10 * time.Second
	// handshakeTimeout is how long a connection may take until both prefaces are read.
	handshakeTimeout = 10 * time.Second
	// drainLook is how often Shutdown looks whether a connection is at its end, and drainGrace
	// for how long one that has nothing in flight is left to its client to close.
	drainLook  = 2 * time.Millisecond
	drainGrace = 500 * time.Millisecond
	// drainDelay is the retry-after of a server that drains.
	drainDelay = time.Second
	// refusal is the processor time that a refused call takes: a server that does nothing for a call took 6 µs for each
	// of 20,000/s by 100 connections, and 24 µs for each of 5,000/s, which it sleeps between. One that refuses is busy.
	refusal = 10 * time.Microsecond
)

// check fills in the defaults, and returns every mistake.
func (c *ServerConfig) check() error {
	var errs []error
	number := func(name string, v *int, otherwise, most int) {
		if *v == 0 {
			*v = otherwise
		}
		if *v < 1 || *v > most {
			errs = append(errs, fmt.Errorf("fastrpc: %s is %d, expected 1 to %d, or 0 for %d", name, *v, most, otherwise))
		}
	}
	number("MaxMessage", &c.MaxMessage, defaultMessage, mostMessage)
	number("MaxInFlight", &c.MaxInFlight, defaultInFlight, MaxLanes)
	number("MaxHeld", &c.MaxHeld, max(defaultHeld, 4*c.MaxMessage), mostHeld)
	c.MaxMessage = min(c.MaxMessage, c.MaxHeld) // a longer one would be refused for ever
	number("MaxConnections", &c.MaxConnections, defaultConnections, 1<<24)
	number("MaxUnread", &c.MaxUnread, defaultUnread, mostMessage)
	if c.WriteTimeout == 0 {
		c.WriteTimeout = defaultWrite
	}
	if c.WriteTimeout < 0 {
		errs = append(errs, fmt.Errorf("fastrpc: WriteTimeout is %v, expected above 0, or 0 for %v", c.WriteTimeout, defaultWrite))
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return errors.Join(errs...)
}

// Server answers calls. Its methods may be called at once from any goroutine, those that
// register handlers before Serve.
type Server struct {
	cfg     ServerConfig
	methods map[string]*served
	workers workers
	places  sync.Pool // of *incoming

	mu        sync.Mutex
	listeners map[net.Listener]bool
	conns     map[*serverConn]bool
	draining  bool
	running   sync.WaitGroup // readers of connections
	turned    uint64
	broken    atomic.Uint64
	held      atomic.Int64 // bytes of requests that run or wait: see MaxHeld
}

// ServerStats is what a server counted.
type ServerStats struct {
	// Connections is how many there are now.
	Connections int
	// Turned is how many were closed because there were as many as MaxConnections, and Broken how
	// many were closed because the client broke FORMAT.md.
	Turned, Broken uint64
}

// Stats returns what the server counted up to now.
func (s *Server) Stats() ServerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ServerStats{Connections: len(s.conns), Turned: s.turned, Broken: s.broken.Load()}
}

// served is a method of a server.
type served struct {
	name   string
	handle Handler
	inline bool
}

// NewServer returns a server without methods, or every mistake in cfg.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Gate != nil {
		cfg.Gate.WatchCheap(refusal)
	}
	return &Server{cfg: cfg, methods: map[string]*served{}, listeners: map[net.Listener]bool{}, conns: map[*serverConn]bool{}}, nil
}

// Handle registers h for a method. Each call runs on a goroutine of its own. Handle panics if h is
// nil, if the name is empty, longer than MaxMethod or taken, and after Serve.
func (s *Server) Handle(method string, h Handler) { s.register(&served{name: method, handle: h}) }

// HandleInline is Handle for work of microseconds that never waits: h runs on the goroutine
// that reads the connection, which saves a switch of goroutines. The connection's other
// calls wait for it, and a cancel is not noticed while it runs. A call that has to wait at the gate runs on
// a goroutine of its own.
func (s *Server) HandleInline(method string, h Handler) {
	s.register(&served{name: method, handle: h, inline: true})
}

func (s *Server) register(m *served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.name == "" || len(m.name) > MaxMethod:
		panic(fmt.Sprintf("fastrpc: method %.80q has %d bytes, expected 1 to %d", m.name, len(m.name), MaxMethod))
	case m.handle == nil:
		panic(fmt.Sprintf("fastrpc: method %q has no handler, expected one", m.name))
	case s.methods[m.name] != nil:
		panic(fmt.Sprintf("fastrpc: method %q has a handler already, expected one", m.name))
	case len(s.listeners) > 0:
		panic(fmt.Sprintf("fastrpc: method %q comes after Serve, expected before", m.name))
	}
	s.methods[m.name] = m
}

// Serve accepts connections from l, TCP or Unix, until Shutdown or Close, and then returns
// ErrClosed; another error is l's. It closes l.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		_ = l.Close()
		return ErrClosed
	}
	s.listeners[l] = true
	s.mu.Unlock()
	defer func() { _ = l.Close() }()
	accepting := stamp.Listen(l)
	if s.cfg.TLS != nil {
		accepting = tls.NewListener(accepting, s.cfg.TLS)
	}
	for pause := time.Duration(0); ; {
		conn, err := accepting.Accept()
		switch {
		case err == nil:
			pause = 0
			s.take(conn)
		case s.isDraining():
			return ErrClosed
		case temporary(err):
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			time.Sleep(pause)
		default:
			return err
		}
	}
}

// temporary reports whether another Accept may succeed, as when the process has no file
// descriptors left for the moment.
func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// take serves a connection, if there is room for it.
func (s *Server) take(conn net.Conn) {
	c := newServerConn(s, conn)
	s.mu.Lock()
	if full := len(s.conns) >= s.cfg.MaxConnections; s.draining || full {
		if full {
			s.turned++
		}
		s.mu.Unlock()
		_ = conn.Close()
		return
	}
	s.conns[c] = true
	s.running.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.running.Done()
		defer func() { // also when an inline handler ends the goroutine
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		}()
		c.serve()
	}()
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// drain stops accepting and returns the connections.
func (s *Server) drain() []*serverConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for l := range s.listeners {
		_ = l.Close()
	}
	var conns []*serverConn
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// Shutdown ends the server without loss: it accepts nothing more, tells clients to go
// elsewhere, refuses requests that still come, and returns when all running requests have been
// answered. If ctx ends before, it closes the remaining connections and returns ctx's error, also while handlers run.
func (s *Server) Shutdown(ctx context.Context) error {
	conns := s.drain()
	for _, c := range conns {
		c.drain()
	}
	begun := live.Now()
	look := time.NewTicker(drainLook)
	defer look.Stop()
	for len(conns) > 0 {
		left := conns[:0]
		for _, c := range conns {
			if !c.over(live.Now().Sub(begun) > drainGrace) {
				left = append(left, c)
			}
		}
		if conns = left; len(conns) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			s.cut()
			go s.Close() // which waits for handlers
			return ctx.Err()
		case <-look.C:
		}
	}
	s.Close()
	return nil
}

// Close ends the server at once: connections break, and the contexts of handlers end. It returns when
// handlers have.
func (s *Server) Close() {
	s.cut()
	s.running.Wait()
	s.workers.close()
}

// cut breaks the connections.
func (s *Server) cut() {
	for _, c := range s.drain() {
		_ = c.conn.Close()
	}
}
