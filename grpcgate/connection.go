package grpcgate

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"google.golang.org/grpc/peer"

	"github.com/spillgate/spillgate/live"
	"github.com/spillgate/spillgate/wire"
)

// connection is a client's connection to a server. It has an account at the gate
// from the first request that says it obeys credits until it closes; a plain
// client never has one.
type connection struct {
	server  *server
	account atomic.Pointer[live.Client]
	control atomic.Pointer[control]
	// missed is the newest grant that found no control stream to go by.
	missed atomic.Pointer[wire.Grant]

	mu    sync.Mutex // of opening and ending the account
	ended bool
}

// connectionOf returns the connection of a call, nil if it has none that can be
// told from others.
func (s *server) connectionOf(ctx context.Context) *connection {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	if local, ok := p.LocalAddr.(*localAddr); ok {
		return local.conn.of(s)
	}
	// grpc makes one Peer a connection and lets go of it when that ended.
	key := weak.Make(p)
	if c, ok := s.unwatched.Load(key); ok {
		return c.(*connection)
	}
	c, loaded := s.unwatched.LoadOrStore(key, &connection{server: s})
	if !loaded {
		runtime.AddCleanup(p, func(c *connection) {
			s.unwatched.Delete(key)
			c.end()
		}, c.(*connection))
	}
	return c.(*connection)
}

// open returns the account, opened if need be; nil once the connection ended.
func (c *connection) open() *live.Client {
	if a := c.account.Load(); a != nil {
		return a
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.account.Load(); a != nil || c.ended {
		return a
	}
	a := c.server.gate.Connect(c.offer)
	c.account.Store(a)
	return a
}

// end closes the account; calls that still run keep their tickets.
func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if a := c.account.Load(); a != nil {
		a.Close()
	}
}

// offer sends a grant without a reply, if there is a way.
func (c *connection) offer(g wire.Grant) {
	ctl := c.control.Load()
	if ctl == nil {
		c.missed.Store(&g)
		if ctl = c.control.Load(); ctl == nil {
			return
		}
	}
	ctl.offer(g)
}
