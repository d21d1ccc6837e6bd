package nats

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/link"
)

// Why a message for a client was dropped.
const (
	dropOutbound = "outbound" // its socket was too far behind
	dropSubject  = "subject"  // its topic is no subject
	dropRights   = "rights"   // a consumer's message that its user may not have
	dropStream   = "stream"   // as much waits for the streams as may
)

// Server speaks the client protocol of NATS. Its methods may be called from any
// goroutine.
type Server struct {
	hub    *engine.Hub
	limits Limits
	users  *access.Book
	log    *slog.Logger
	id     string

	streams         atomic.Pointer[Streams] // nil: JetStream is not here
	room            *link.Room[string]
	number          atomic.Uint64 // of connections
	refused         atomic.Uint64 // messages
	dropped, closed link.Tally
}

// NewServer returns a server for the clients of hub that users lets in. limits must
// be free of mistakes, see Limits.Check.
func NewServer(hub *engine.Hub, users *access.Book, limits Limits, log *slog.Logger) *Server {
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails
	limits = limits.WithDefaults()
	return &Server{hub: hub, limits: limits, users: users, log: log, id: hex.EncodeToString(id[:]), room: link.NewRoom[string](limits.Connections)}
}

// Keep has clients use streams, nil none. The Server does not close it.
func (srv *Server) Keep(s *Streams) { srv.streams.Store(s) }

// Serve serves the connections of l until l is closed, and returns why it ended.
// With a TLS configuration, which clients learn from the first line, they have to
// use TLS.
func (srv *Server) Serve(l net.Listener, secure *tls.Config) error {
	return link.Accept(l, func(nc net.Conn) {
		srv.room.Enter(nc, func(nc net.Conn) link.Guest[string] { return srv.newConn(nc, secure) })
	})
}

// Review disconnects clients whose user is gone or has other rights, with "User
// Authentication Revoked". Call it after a change of users.
func (srv *Server) Review() {
	srv.room.Kick(string(errRevoked), func(g link.Guest[string]) bool {
		c := g.(*conn)
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.who != nil && srv.users.Stale(c.nc, c.who)
	})
}

// Leaving tells clients that the server ends soon, so that they look for another.
func (srv *Server) Leaving() {
	srv.room.Each(func(g link.Guest[string]) { g.(*conn).leaving() })
}

// Shutdown disconnects every client and returns when all have gone or ctx has ended. No
// connection is accepted afterwards.
func (srv *Server) Shutdown(ctx context.Context) error {
	return srv.room.Close(ctx, string(errShutdown))
}

// Stats returns the numbers of now.
func (srv *Server) Stats() link.Stats {
	now, turned := srv.room.Count()
	dropped := srv.dropped.Get()
	if s := srv.streams.Load(); s != nil && s.lost.Load() > 0 {
		if dropped == nil {
			dropped = map[string]uint64{}
		}
		dropped[dropStream] = s.lost.Load()
	}
	return link.Stats{Connections: now, Turned: turned, Refused: srv.refused.Load(), Dropped: dropped, Closed: srv.closed.Get()}
}
