package mqtt

import (
	"context"
	"hash/maphash"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/link"
	"github.com/spillgate/spillgate/internal/live"
)

// Why a message for a client was dropped.
const (
	dropQueue    = iota // its session's queue was full
	dropOutbound        // QoS 0: its socket was too far behind
	dropSize            // it is larger than the client takes
	numDrops
)

var dropNames = [numDrops]string{"session_queue", "outbound", "packet_size"}

// Server speaks MQTT. Its methods may be called from any goroutine.
type Server struct {
	hub    *engine.Hub
	limits Limits
	users  *access.Book // nil: everybody may do everything
	log    *slog.Logger
	seed   maphash.Seed // of the sums of messages

	dropped [numDrops]atomic.Uint64
	refused atomic.Uint64 // messages
	codes   [256]atomic.Uint64

	plane  *backplane.Plane // nil: sessions end with the process
	places Places           // nil: nobody is sent elsewhere

	poolsMu sync.Mutex // before the locks of pools and sessions
	pools   map[poolKey]*pool

	room     *link.Room[packets.Code]
	mu       sync.Mutex
	sessions map[string]*session
	wills    map[string]*postponed
	left     map[string]*session // see linger
	closing  bool
	serving  sync.WaitGroup // what goes on beside connections
}

// NewServer returns a server for the clients of hub. limits must be free of
// mistakes, see Limits.Check.
func NewServer(hub *engine.Hub, limits Limits, log *slog.Logger) *Server {
	limits = limits.WithDefaults()
	return &Server{hub: hub, limits: limits, log: log, seed: maphash.MakeSeed(), room: link.NewRoom[packets.Code](limits.Connections), sessions: map[string]*session{}, wills: map[string]*postponed{}, left: map[string]*session{}, pools: map[poolKey]*pool{}}
}

// Serve serves the connections of l until l is closed, and returns why it ended.
// Connections with a method Arrival() (time.Time, bool) tell when what was read
// last had arrived.
func (srv *Server) Serve(l net.Listener) error { return link.Accept(l, srv.accept) }

func (srv *Server) accept(nc net.Conn) { srv.room.Enter(nc, srv.newConn) }

func (srv *Server) newConn(nc net.Conn) link.Guest[packets.Code] {
	c := &conn{srv: srv, nc: nc, reader: link.NewReader(nc), done: make(chan struct{}), batch: srv.hub.NewBatch(), maker: engine.NewMaker(srv.limits.Topics),
		out: engine.NewOutbox(nc, srv.limits.Outbound, srv.limits.Stall)}
	c.out.Tell(c)
	return c
}

// enter gives c the session of a client, which it takes over from a connection
// before. It reports whether there was one. One of another user is refused.
func (srv *Server) enter(c *conn, id string, clean bool, expiry time.Duration, window int) (present bool, err error) {
	for {
		srv.mu.Lock()
		s := srv.sessions[id]
		if s != nil && s.owner != c.who.Name() {
			srv.mu.Unlock()
			return false, packets.ErrNotAuthorized
		}
		if s == nil || s.conn == nil {
			break
		}
		old := s.conn
		srv.mu.Unlock()
		old.Kick(packets.ErrSessionTakenOver)
	}
	defer srv.mu.Unlock()
	if srv.users != nil && srv.users.Stale(c.nc, c.who) { // the users changed while it was let in, and Review may have looked before
		return false, packets.ErrNotAuthorized
	}
	s := srv.sessions[id]
	if s != nil {
		s.stopTimers()
		if w := s.will; w != nil {
			s.will = nil
			if clean { // the session ends, so its will is due
				srv.serving.Go(func() { srv.execute(id, w) })
			}
		}
	}
	if s != nil && clean {
		srv.remove(s)
		s = nil
	}
	if srv.closing {
		return false, packets.ErrServerShuttingDown
	}
	if present = s != nil; present {
		srv.restrict(s, c.who) // its rights may have changed since Review looked
	} else {
		if len(srv.sessions) >= srv.limits.Sessions {
			return false, packets.ErrQuotaExceeded
		}
		s = &session{srv: srv, id: id, owner: c.who.Name(), subs: map[string]*engine.Subscription{}, inbound: map[uint16]inbound{}}
		srv.sessions[id] = s
	}
	c.session = s
	s.mu.Lock()
	s.conn, s.loading, s.expiry, s.window, s.sender = c, true, expiry, window, senderOf(id)
	s.mu.Unlock()
	return present, nil
}

// leave ends what c has of its session.
func (srv *Server) leave(c *conn) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	s := c.session
	if s == nil {
		return
	}
	s.mu.Lock()
	s.conn = nil
	expiry := s.expiry
	s.mu.Unlock()
	w := c.will
	if c.moved.Load() {
		srv.forgo(s.id, w)
		w = nil
	}
	if s.durable && w != nil && w.delay > 0 && expiry > 0 {
		srv.postpone(s.id, s.revision, w, min(w.delay, expiry)) // nobody changes the revision any more
		w = nil
	}
	if expiry == 0 || s.durable {
		srv.remove(s)
		if s.durable && expiry > 0 {
			srv.linger(s, expiry, c.moved.Load() || c.claimed.Load())
		}
	} else if !srv.closing {
		s.expires = time.AfterFunc(expiry, func() { srv.expire(s) })
		if w != nil && w.delay > 0 {
			s.will, w = w, nil
			s.delayed = time.AfterFunc(min(s.will.delay, expiry), func() { srv.late(s) })
		}
	}
	if w != nil {
		srv.serving.Go(func() { srv.execute(s.id, w) })
	}
}

// expire ends a session that nobody came back to.
func (srv *Server) expire(s *session) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.sessions[s.id] == s && s.conn == nil && s.expires != nil {
		srv.remove(s)
	}
}

// late publishes a will whose delay is over.
func (srv *Server) late(s *session) {
	srv.mu.Lock()
	w := s.will
	s.will = nil
	srv.mu.Unlock()
	if w != nil {
		srv.execute(s.id, w)
	}
}

// stopTimers ends the timers of a session that goes on. The server's lock is
// held, as below.
func (s *session) stopTimers() {
	for _, t := range [...]**time.Timer{&s.expires, &s.delayed} {
		if *t != nil {
			(*t).Stop()
			*t = nil
		}
	}
}

// remove forgets a session that nobody is connected to.
func (srv *Server) remove(s *session) {
	delete(srv.sessions, s.id)
	for _, sub := range s.subs {
		srv.hub.Unsubscribe(sub)
	}
	s.subs = nil
	left := s.forget()
	if len(left) == 0 {
		return
	}
	if srv.closing {
		for _, q := range left {
			q.kept.Release()
		}
		return
	}
	srv.serving.Go(func() { srv.handOn(left) })
}

// handOn gives what a member of shared subscriptions had, whose session has ended, to others.
func (srv *Server) handOn(left []queued) {
	b := srv.hub.NewBatch()
	b.Begin(live.Now())
	defer b.End()
	for _, q := range left {
		m := q.kept.Message // which DeliverTo gives up
		if !b.DeliverTo(&m, *q.of) {
			srv.dropped[dropQueue].Add(1) // it was the last one
		}
	}
}

// closed counts a connection that the server closed.
func (srv *Server) closed(code packets.Code) {
	srv.codes[code.Code].Add(1)
	srv.log.Debug("connection closed", "code", code.Code, "reason", code.Reason)
}

// Shutdown closes every connection, with the reason that the server shuts down,
// and returns when all have ended or ctx has. Wills of connections that are closed
// so are published, sessions are forgotten. No connection is accepted afterwards.
func (srv *Server) Shutdown(ctx context.Context) error {
	srv.mu.Lock()
	srv.closing = true
	srv.mu.Unlock()
	if err := srv.room.Close(ctx, packets.ErrServerShuttingDown); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { srv.serving.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	srv.mu.Lock()
	for _, s := range srv.sessions {
		s.stopTimers()
		srv.remove(s)
	}
	for _, p := range srv.wills {
		p.timer.Stop() // what is stored of it is published by other nodes, or after the next start
	}
	clear(srv.wills)
	for _, s := range srv.left {
		s.stopTimers()
	}
	clear(srv.left)
	srv.mu.Unlock()
	if srv.plane != nil {
		ctx, cancel := context.WithTimeout(ctx, againTime) // a majority of the nodes may be gone already
		defer cancel()
		srv.plane.SettleWills(ctx)
	}
	return nil
}

// Stats are the numbers of a server.
type Stats struct {
	// Connections and Sessions are those of now, Turned the connections that were
	// closed because there were as many as may be.
	Connections, Sessions int
	Turned                uint64
	// Refused counts the messages of clients that were not taken.
	Refused uint64
	// Dropped counts the messages to clients that were dropped, by reason.
	Dropped map[string]uint64
	// Closed counts the connections that the server closed, by MQTT 5 reason code.
	Closed map[byte]uint64
}

// Stats returns the numbers of now.
func (srv *Server) Stats() Stats {
	s := Stats{Refused: srv.refused.Load()}
	s.Connections, s.Turned = srv.room.Count()
	srv.mu.Lock()
	s.Sessions = len(srv.sessions)
	srv.mu.Unlock()
	s.Dropped, s.Closed = map[string]uint64{}, map[byte]uint64{}
	for i, name := range dropNames {
		s.Dropped[name] = srv.dropped[i].Load()
	}
	for i := range srv.codes {
		if n := srv.codes[i].Load(); n > 0 {
			s.Closed[byte(i)] = n
		}
	}
	return s
}
