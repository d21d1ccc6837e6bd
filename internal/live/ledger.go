package live

import (
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// MaxIdentities is the most clients of one peer that are told apart by the
	// names they chose. A name costs nothing to make up, and each brings a first
	// window.
	MaxIdentities = 64
	// MaxBindings is the most clients of one connection, as that of a proxy which
	// carries the requests of several.
	MaxBindings = 16
	// bindingIdle is how long a client must have been silent on a connection that
	// has as many as it may, or whose peer has, before it makes room for another.
	bindingIdle = time.Minute
)

// PeerKey names who answers for the clients of a connection: whoever holds the
// verified certificate, DER-encoded, or without one the address. An IPv6 host has
// 2⁶⁴ addresses to come from, so of those the network counts.
func PeerKey(addr netip.Addr, certificate []byte) string {
	if len(certificate) > 0 {
		sum := sha256.Sum256(certificate)
		return string(sum[:])
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			addr = p.Addr()
		}
	}
	raw, _ := addr.MarshalBinary() // of 0, 4 or 16 bytes: never as long as a digest
	return string(raw)
}

// Ledger holds the accounts, of type A, of clients that name themselves
// (wire.Tags.Client), because behind a proxy a connection is not a client. An
// account is of one name at one peer and lasts as long as any connection that
// the name was heard on. Its methods may be called at once from any goroutine.
type Ledger[A any] struct {
	open  func() A
	close func(A)

	mu    sync.Mutex
	named map[identity]*named[A]
	peers map[string]int // names in use
}

type identity struct {
	peer string
	id   uint64
}

type named[A any] struct {
	account A
	refs    int
}

// NewLedger returns an empty ledger. open makes an account and close ends it;
// they are called under the locks of the ledger and of a connection's Bindings,
// and must not call either.
func NewLedger[A any](open func() A, close func(A)) *Ledger[A] {
	return &Ledger[A]{open: open, close: close}
}

// acquire returns the account of an identity with one reference more, false if
// its peer has as many as it may.
func (l *Ledger[A]) acquire(who identity) (a A, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.named[who]; n != nil {
		n.refs++
		return n.account, true
	}
	if l.peers[who.peer] >= MaxIdentities {
		return a, false
	}
	if l.named == nil {
		l.named, l.peers = map[identity]*named[A]{}, map[string]int{}
	}
	n := &named[A]{l.open(), 1}
	l.named[who] = n
	l.peers[who.peer]++
	return n.account, true
}

// release takes a reference back; the last one ends the account.
func (l *Ledger[A]) release(who identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.named[who]
	if n.refs--; n.refs > 0 {
		return
	}
	delete(l.named, who)
	if l.peers[who.peer]--; l.peers[who.peer] == 0 {
		delete(l.peers, who.peer)
	}
	l.close(n.account)
}

// Bindings are the clients that were heard of on one connection, at any number of
// ledgers. The zero value is ready. Its methods may be called at once from any
// goroutine.
type Bindings[A any] struct {
	mu     sync.Mutex
	list   []binding[A]
	closed bool
}

type binding[A any] struct {
	ledger  *Ledger[A]
	account A
	id      uint64
	used    mono.Time
	own     bool // the account is the connection's, not in the ledger
}

// Account returns the account at l of the client called id, whose connection is
// one of peer (PeerKey), and false if it can have none: it is then a plain client.
//
// A client without a name, 0, has the connection's own account. So has the first
// one whose name is beyond what its peer may have: connections cost something, so
// a client with one to itself never goes without. Two clients never share the
// connection's own account.
func (b *Bindings[A]) Account(now mono.Time, l *Ledger[A], peer string, id uint64) (a A, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	owned := false
	for i := range b.list {
		if e := &b.list[i]; e.ledger == l {
			if e.id == id {
				e.used = now
				return e.account, true
			}
			owned = owned || e.own
		}
	}
	if b.closed || len(b.list) >= MaxBindings && !b.evict(now, peer) {
		return a, false
	}
	own := id == 0
	if !own {
		who := identity{peer, id}
		if a, ok = l.acquire(who); !ok && b.evict(now, peer) {
			a, ok = l.acquire(who)
		}
		own = !ok
	}
	if own {
		if owned {
			return a, false
		}
		a = l.open()
	}
	b.list = append(b.list, binding[A]{l, a, id, now, own})
	return a, true
}

// Find is Account for a client that must have one already.
func (b *Bindings[A]) Find(l *Ledger[A], id uint64) (a A, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.list {
		if e := &b.list[i]; e.ledger == l && e.id == id {
			return e.account, true
		}
	}
	return a, false
}

// evict takes out the client that was silent for longest, if that is long enough.
func (b *Bindings[A]) evict(now mono.Time, peer string) bool {
	oldest := -1
	for i := range b.list {
		if oldest < 0 || b.list[i].used < b.list[oldest].used {
			oldest = i
		}
	}
	if oldest < 0 || now.Sub(b.list[oldest].used) < bindingIdle {
		return false
	}
	b.list[oldest].release(peer)
	last := len(b.list) - 1
	b.list[oldest] = b.list[last]
	b.list[last] = binding[A]{}
	b.list = b.list[:last]
	return true
}

func (e *binding[A]) release(peer string) {
	if e.own {
		e.ledger.close(e.account)
		return
	}
	e.ledger.release(identity{peer, e.id})
}

// Close lets go of the accounts when the connection, one of peer, has ended.
// Further calls do nothing, and Account finds none any more.
func (b *Bindings[A]) Close(peer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for i := range b.list {
		b.list[i].release(peer)
	}
	b.list = nil
}
