package httpgate

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// Track makes s tell the gates of its handlers when connections come and go, so
// that clients which know credits can have accounts. Call it before s serves.
// Hooks that s has already are kept.
//
// An account belongs to a client's identity (wire.Tags.Client) at one peer, which
// is a verified client certificate or else an address, and lasts as long as any
// of its connections; a client that names no identity has one account a
// connection. live.Ledger bounds the identities of a peer and of a connection.
func Track(s *http.Server) {
	var conns sync.Map // net.Conn → *conn
	before, state := s.ConnContext, s.ConnState
	s.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		if before != nil {
			ctx = before(ctx, nc)
		}
		c := &conn{Context: ctx, addr: peer(nc.RemoteAddr().String())}
		conns.Store(nc, c)
		return c
	}
	s.ConnState = func(nc net.Conn, to http.ConnState) {
		if to == http.StateClosed || to == http.StateHijacked {
			if c, ok := conns.LoadAndDelete(nc); ok {
				c.(*conn).close()
			}
		}
		if state != nil {
			state(nc, to)
		}
	}
}

// Install puts gate in front of all that s serves, as Handler does, and has its clients get
// credits, as Track does. Call it before s serves and when s.Handler is what it will be; nil
// is http.DefaultServeMux. A gate that is in front of s.Handler already panics, because each request would take two slots.
func Install(gate *live.Gate, s *http.Server, opts ...Option) {
	if h, ok := s.Handler.(*handler); ok && h.only != nil && h.only.gate == gate {
		panic("httpgate: the gate is in front of this server already: call Install once, with the server's own handler")
	}
	s.Handler = Handler(gate, s.Handler, opts...)
	Track(s)
}

type connKey struct{}

// conn is one connection and the accounts that it keeps open. It is also the context that those of its requests derive
// from, so that a request which passes a gate with mode Off needs no context of its own: see handler.pass.
type conn struct {
	context.Context
	passing  atomic.Bool // it is of HTTP/1, and its request passes
	addr     netip.Addr
	once     sync.Once
	peer     string // who answers for its clients, after once
	sender   live.Sender
	heard    live.Heard
	bindings live.Bindings[*account]
}

// Value implements context.Context.
func (c *conn) Value(key any) any {
	switch key {
	case connKey{}:
		return c
	case live.ServingKey{}:
		if c.passing.Load() {
			return c
		}
	}
	return c.Context.Value(key)
}

// account returns the account of the client called id at a handler's ledger, nil
// if it can have none. meet was called before.
func (c *conn) account(l *live.Ledger[*account], id uint64) *account {
	a, _ := c.bindings.Account(live.Now(), l, c.peer, id)
	return a
}

// meet learns from a request of the connection who answers for its clients.
func (c *conn) meet(r *http.Request) live.Sender {
	c.once.Do(func() {
		var certificate []byte
		if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			certificate = r.TLS.PeerCertificates[0].Raw
		}
		c.peer = live.PeerKey(c.addr, certificate)
		c.sender = live.NewSender(c.peer)
	})
	return c.sender
}

func (c *conn) close() {
	c.once.Do(func() {}) // so that peer is read after it was written
	c.bindings.Close(c.peer)
}

// account is one client's credits at all targets of a handler, told to it as one
// window. Its epoch is its own, so that a client which comes back to a fresh
// account does not take the new grants for old ones.
type account struct {
	mu     sync.Mutex
	parts  []part
	epoch  uint32
	seq    uint32
	latest wire.Grant
	has    bool
	news   bool // latest has not been told
	closed bool
}

// part is a client's account at the gate of one target.
type part struct {
	target *Target
	client *live.Client
	grant  wire.Grant
	has    bool
}

func newAccount() *account { return &account{epoch: rand.Uint32()} }

// client returns the client at the target's gate, connected on first use; nil if
// the account is closed.
func (a *account) client(t *Target) *live.Client {
	a.mu.Lock()
	for i := range a.parts {
		if a.parts[i].target == t {
			c := a.parts[i].client
			a.mu.Unlock()
			return c
		}
	}
	// Room for the grant that Connect makes, which comes by notify before it
	// returns. A second request that gets here meanwhile runs as a plain one.
	gone := a.closed || t.closed.Load()
	if !gone {
		a.parts = append(a.parts, part{target: t})
	}
	a.mu.Unlock()
	if gone {
		return nil
	}
	c := t.gate.Connect(func(g wire.Grant) { a.take(t, g) })
	c.ByReply(true) // what take notes waits for the next answer
	a.mu.Lock()
	stale := a.closed
	for i := range a.parts {
		if a.parts[i].target == t {
			a.parts[i].client = c
		}
	}
	a.mu.Unlock()
	if stale {
		c.Close()
		return nil
	}
	return c
}

// take notes a grant of one target and returns the one for the client.
func (a *account) take(t *Target, g wire.Grant) wire.Grant {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.parts {
		p := &a.parts[i]
		if p.target == t && (!p.has || p.grant.Epoch != g.Epoch || g.Newer(p.grant)) {
			p.grant, p.has = g, true
		}
	}
	a.sum()
	return a.latest
}

// sum makes the grants of the targets one, without those that were closed. It is called with
// the lock held.
func (a *account) sum() {
	sum := wire.Grant{Epoch: a.epoch}
	kept := a.parts[:0]
	for _, p := range a.parts {
		if p.target.closed.Load() {
			continue // its gate is closed, or will be
		}
		if p.has {
			sum.Window = min(sum.Window+p.grant.Window, wire.MaxCount)
			if sum.Revive == 0 || p.grant.Revive < sum.Revive {
				sum.Revive = p.grant.Revive
			}
			if sum.Objective == 0 || p.grant.Objective > 0 && p.grant.Objective < sum.Objective {
				sum.Objective = p.grant.Objective
			}
		}
		kept = append(kept, p)
	}
	clear(a.parts[len(kept):])
	a.parts = kept
	a.seq++
	sum.Seq = a.seq
	a.latest, a.has, a.news = sum, true, true
}

// quiet reports whether there is nothing to tell the client, whose request has left or is about to: nothing new, or that it asks
// for, and no credit whose return it would have to hear of. A nil a has nothing to tell.
func (a *account) quiet(asks, left bool) bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.parts {
		if a.parts[i].target.closed.Load() {
			return false
		}
	}
	return !a.has || !asks && !a.news && (left || a.latest.Window > 1)
}

// scarce reports whether the client holds no credit but that of one request, as far as the account was told.
func (a *account) scarce() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.has && a.latest.Window <= 1
}

// newest returns the newest grant for the client, if there is one that it was not told, or one
// at all for a client that asks; else none.
func (a *account) newest(asks bool) (wire.Grant, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.parts {
		if a.parts[i].target.closed.Load() {
			a.sum()
			break
		}
	}
	if !a.has || !asks && !a.news {
		return wire.Grant{}, false
	}
	a.news = false
	return a.latest, true
}

func (a *account) close() {
	a.mu.Lock()
	a.closed = true
	parts := a.parts
	a.parts = nil
	a.mu.Unlock()
	for _, p := range parts {
		if p.client != nil {
			p.client.Close()
		}
	}
}

// Target is a gate and the handler behind it: one server that can serve a
// request. See Spread.
type Target struct {
	gate   *live.Gate
	next   http.Handler
	closed atomic.Bool
	first  answersFirst
	// Those whose clients have stopped in the middle of a body, and those that are exempt: health checks, which must not wait behind
	// thousands of long polls that come back at once, and others.
	stopped, probes, exempted aside
}

// NewTarget returns a target. Where next does its work in this process, call
// gate.WatchNetwork too: a busy processor leaves requests in their sockets.
// Handler does. A nil next is http.DefaultServeMux, as it is for http.Server. A nil gate panics: no request
// could be served.
func NewTarget(gate *live.Gate, next http.Handler) *Target {
	if gate == nil {
		panic("httpgate: no gate: make it first, with spillgate.New")
	}
	if next == nil {
		next = http.DefaultServeMux
	}
	return &Target{gate: gate, next: next}
}

// Gate returns the target's gate.
func (t *Target) Gate() *live.Gate { return t.gate }

// Close takes the target's credits out of its clients' windows: no request will
// be sent there any more. Requests inside finish. It does not close the gate.
func (t *Target) Close() { t.closed.Store(true) }
