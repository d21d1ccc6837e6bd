package grpcgate

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// connection is a connection to a server. The clients heard of on it have
// accounts at the gate from the first request that says it obeys credits; a plain
// client never has one.
type connection struct {
	server   *server
	peer     string // who answers for its clients
	sender   live.Sender
	heard    live.Heard
	bindings live.Bindings[*account]
	streams  atomic.Int32 // open ones of clients without an account
}

// account is one client's credits at a gate, and the stream by which it hears of
// them without a reply. Its epoch is its own, so that a client which comes back
// to a fresh account, as when a proxy in between reconnects, does not take the
// new grants for old ones.
type account struct {
	client  *live.Client
	epoch   uint32
	streams atomic.Int32 // open ones
	control atomic.Pointer[control]
	reach   sync.Mutex // of changes of control and what the gate is told of that
	// missed is the newest grant that found no control stream to go by.
	missed atomic.Pointer[wire.Grant]
}

// connectionOf returns the connection of a call, nil if it has none that can be
// told from others.
func (s *server) connectionOf(ctx context.Context) *connection {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	if local, ok := p.LocalAddr.(*localAddr); ok {
		return (*watchedConn)(local).of(s, p)
	}
	// grpc makes one Peer a connection and lets go of it when that ended.
	key := weak.Make(p)
	if c, ok := s.unwatched.Load(key); ok {
		return c.(*connection)
	}
	c, loaded := s.unwatched.LoadOrStore(key, s.newConnection(p))
	if !loaded {
		runtime.AddCleanup(p, func(c *connection) {
			s.unwatched.Delete(key)
			c.end()
		}, c.(*connection))
	}
	return c.(*connection)
}

func (s *server) newConnection(p *peer.Peer) *connection {
	peer := peerKey(p)
	return &connection{server: s, peer: peer, sender: live.NewSender(peer)}
}

// peerKey names who answers for the clients of a connection.
func peerKey(p *peer.Peer) string {
	if p == nil {
		return ""
	}
	var certificate []byte
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
		certificate = info.State.PeerCertificates[0].Raw
	}
	var addr netip.AddrPort
	if p.Addr != nil {
		addr, _ = netip.ParseAddrPort(p.Addr.String())
	}
	return live.PeerKey(addr.Addr(), certificate)
}

// open returns the account of the client called id, opened if need be; nil if it
// can have none.
func (c *connection) open(now mono.Time, id uint64) *account {
	a, _ := c.bindings.Account(now, c.server.ledger, c.peer, id)
	return a
}

// end closes the accounts; calls that still run keep their tickets.
func (c *connection) end() { c.bindings.Close(c.peer) }

func (s *server) openAccount() *account {
	a := &account{epoch: rand.Uint32()}
	a.client = s.gate.Connect(a.offer)
	a.reached()
	return a
}

// reached tells the gate whether a grant without a reply finds the client.
func (a *account) reached() {
	a.reach.Lock()
	defer a.reach.Unlock()
	a.client.ByReply(a.control.Load() == nil)
}

func (a *account) close() { a.client.Close() }

// own returns g as the account's client knows it.
func (a *account) own(g wire.Grant) wire.Grant {
	g.Epoch = a.epoch
	return g
}

// offer sends a grant without a reply, if there is a way.
func (a *account) offer(g wire.Grant) {
	g = a.own(g)
	ctl := a.control.Load()
	if ctl == nil {
		a.missed.Store(&g)
		if ctl = a.control.Load(); ctl == nil {
			return
		}
	}
	ctl.offer(g)
}

// hear makes ctl the stream by which the client hears of credits, and reports
// false if it has another.
func (a *account) hear(ctl *control) bool {
	if !a.control.CompareAndSwap(nil, ctl) {
		return false
	}
	a.reached()
	if g := a.missed.Swap(nil); g != nil {
		ctl.offer(*g)
	}
	return true
}
