package live

import (
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/work"
)

// The lock of a gate is held twice for each request, for a hundred nanoseconds or two. With several
// processors, what the node knows moves from one's cache to the other's each time. So a call of Leave that
// finds the lock held does not wait to take it. It hands its ticket to the holder, whose processor has all that
// is needed in its cache:
//
//	Leave ── the lock is free ──▶ depart, finish
//	  │
//	  └───── it is held ────────▶ Gate.handed ──▶ the holder, in finish: depart, in the order in which
//	                                │             they came; then whoever waits gets the slots
//	         waits until done ◀─────┴── or the lock is free meanwhile: it is the holder itself
//
// Order: the node hears of handed tickets after the event that the lock was taken for, each with its own
// instant, or with the last that the node knows if that is later. Effect: a Leave has taken effect when it
// returns, because the reply carries what the node says. Bounds: a ticket is handed over at most once, so there
// are no more of them than goroutines in Leave, and no memory beside the tickets. A Leave that waited for
// lockSpins attempts takes the lock in the usual way, so a holder that was descheduled costs no processor time.

// lockSpins is how many attempts are made to get the lock before the goroutine is put to sleep, which takes
// microseconds with waking it. At half a nanosecond each while the lock is held they take about as long as a
// call of the node. Other values were not compared.
const lockSpins = 256

// lock takes the lock, which is seldom held for long.
func (g *Gate) lock() {
	for range lockSpins {
		if g.mu.TryLock() {
			return
		}
	}
	g.mu.Lock()
}

// at returns the instant for the node of what happened at now, which was read before the lock was taken: no
// policy sees time run backwards. It is called with the lock held.
func (g *Gate) at(now mono.Time) mono.Time {
	g.latest = max(g.latest, now)
	return g.latest
}

// now returns the present for the node. It is called with the lock held.
func (g *Gate) now() mono.Time { return g.at(Now()) }

// parting is the end of a ticket.
type parting struct {
	outcome work.Outcome
	first   bool         // call of Leave
	offer   work.Outcome // of a ticket that was handed over: how it left, when, and the one that was handed over before
	state   atomic.Uint32
	now     mono.Time
	next    *Ticket
	reach   *node.Reach // of the event
}

const (
	kept    uint32 = iota
	offered        // to the holder of the lock
	done
)

// leave ends t, by itself or through the holder of the lock, and reports false if that was done before.
func (g *Gate) leave(t *Ticket, now mono.Time, o work.Outcome) (first bool) {
	if !g.mu.TryLock() {
		if t.parting.state.CompareAndSwap(kept, offered) {
			return g.hand(t, now, o)
		}
		g.mu.Lock() // another call of Leave has handed it over
	}
	now = g.at(now)
	if first = t.depart(now, o); !first || t.mode == Off {
		g.mu.Unlock()
		return first
	}
	g.finish(now)
	return first
}

// hand has the holder of the lock, whoever that is, end t.
func (g *Gate) hand(t *Ticket, now mono.Time, o work.Outcome) (first bool) {
	p := &t.parting
	p.now, p.offer = now, o
	for p.next = g.handed.Load(); !g.handed.CompareAndSwap(p.next, t); p.next = g.handed.Load() {
	}
	for spins := 0; p.state.Load() != done; spins++ {
		if spins < lockSpins && !g.mu.TryLock() {
			continue
		}
		if spins >= lockSpins {
			g.mu.Lock()
		}
		g.finish(g.latest) // which takes over what was handed
	}
	return p.first
}

// takeOver ends the tickets that were handed over, and returns the instant of the last. It is called with the
// lock held, after the call of the node that the lock was taken for.
func (g *Gate) takeOver(now mono.Time) mono.Time {
	var oldest *Ticket
	for t := g.handed.Swap(nil); t != nil; {
		t.parting.next, oldest, t = oldest, t, t.parting.next
	}
	g.at(now)
	for t := oldest; t != nil; {
		p, next := &t.parting, t.parting.next
		p.next = nil
		now = g.at(p.now)
		p.first = t.depart(now, p.offer)
		p.state.Store(done) // from now on t is its caller's
		t = next
	}
	return now
}
