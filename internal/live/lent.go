package live

import (
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// lent are the free credits of a wallet's only server while nothing waits for one. They are given out and come back without the
// wallet's lock, as most requests of a client that is not held back need no more: there and back takes 52 ns of a processor in place of
// 82, and with two of them at once less than half the time (go test -bench Permit ./internal/live).
//
//	finish ── nothing waits ──▶ open: free credits, counted in one word ──▶ lock ── closed: the core learns what is outstanding
//	                             │ ▲
//	                   take, one less, one more, give
//
// A request that finds none, or one, takes the lock, and the core decides: it notes when the last is sent. What needs the core anyway,
// such as a grant, does too.
type lent struct {
	// word has 1 in its highest bit while they are open, then the number of the opening, and in the lower half how many are free: below
	// 0 if the server has taken some back.
	word atomic.Uint64
	of   atomic.Pointer[Server]
	all  int // free and outstanding, when they were opened; guarded by the wallet's lock
}

const (
	openBit = 1 << 63
	opening = 1 << 32 // one more of them
	freeLow = opening - 1
)

// take takes a credit, and returns its server, nil if the wallet must be asked.
func (c *lent) take() *Server {
	for {
		word := c.word.Load()
		if word&openBit == 0 || int32(word) <= 1 {
			return nil
		}
		s := c.of.Load() // of this opening, if the word is still the same
		if c.word.CompareAndSwap(word, word-1) {
			return s
		}
	}
}

// give gives a credit of s back, and reports false if the wallet must take it.
func (c *lent) give(s *Server) bool {
	for {
		word := c.word.Load()
		if word&openBit == 0 || c.of.Load() != s {
			return false
		}
		if c.word.CompareAndSwap(word, word&^freeLow|uint64(uint32(word)+1)&freeLow) {
			return true
		}
	}
}

// lock takes the wallet's lock for something that concerns its credits and happened at now. It returns the instant for the core,
// see at. finish or unlock follows.
func (w *Wallet) lock(now mono.Time) mono.Time {
	w.mu.Lock()
	now = w.at(now)
	if word := w.lent.word.Load(); word&openBit != 0 {
		word = w.lent.word.Swap(word &^ (openBit | freeLow)) // nobody else closes them
		w.core.Settle(w.lent.of.Load().window, w.lent.all-int(int32(word)))
	}
	return now
}

// unlock releases the lock. What there is to lend is lent.
func (w *Wallet) unlock() {
	if win := w.core.Lend(); win != nil && !w.closed {
		w.lent.all = win.Limit()
		if s := win.Owner.(*Server); w.lent.of.Load() != s { // to store takes longer
			w.lent.of.Store(s)
		}
		w.lent.word.Store(openBit | (w.lent.word.Load()+opening)&^(openBit|freeLow) | uint64(uint32(w.lent.all-win.Outstanding())))
	}
	w.mu.Unlock()
}

// samples is the part of the answers, one in so many, of which the core hears how long they took while nothing waits: where
// requests wait it hears of all.
const samples = 16

// borrow has p sent with a credit for which nobody need be asked, and reports whether there is one.
func (w *Wallet) borrow(now mono.Time, p *Permit) bool {
	if p.core.Deadline <= now {
		return false
	}
	if p.server = w.lent.take(); p.server == nil {
		return false
	}
	p.server.window.Sent(now, &p.core)
	return true
}

// giveBack gives the credit back of which the core need not hear, and reports whether it did, or somebody had before.
func (p *Permit) giveBack(served time.Duration) bool {
	if served > 0 && served%samples == 0 {
		return false
	}
	if !p.first() || p.wallet.lent.give(p.server) {
		return true
	}
	p.state.And(^wasReturned)
	return false
}
