package slots

import (
	"math/bits"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// arrivals holds the requests with slots in the order in which they took them. A request that ends has a rank: its
// place in this order, from 1 for the oldest.
//
// A server that works on k requests at a time, first come, first served, ends none beyond the k-th, because the
// others wait behind it. So the ranks reach exactly to the knee, however many run, unless all requests take nearly
// the same time.
type arrivals struct {
	next   uint64 // number of the request that enters next
	oldest uint64 // no request before it is in the bits
	older  int    // requests that run and are too old for the bits
	bits   [lineWords]uint64
	// batch is the number of the first of the requests that entered at about the same time, at since.
	batch uint64
	since mono.Time
}

// Place is where a request took its slot in the order of arrivals.
type Place struct {
	number, batch uint64
	ends          uint64    // requests that had ended before
	found, all    int       // requests that held slots, itself included, and those that ran without
	beside        bool      // it never held a slot: see Beside
	answered      mono.Time // when its answer began, 0 before
	out           bool      // of the order, since then
	rank          int       // that it had then
	// Waited is how long the request had waited for the slot, which is a part of the objective. Its driver may set it,
	// to as much less as the request's own objective is longer than that of the limit.
	Waited time.Duration
}

// Beside reports whether the request never held a slot: see Limit.Beside.
func (p *Place) Beside() bool { return p.beside }

// The order is known of the last lineSize requests, in half a kilobyte. Requests that entered before and run still
// count for the ranks of others, and have none. No world of tuning/core sees it.
const (
	lineWords = 64
	lineSize  = (lineWords - 1) * 64 // one word is partly of either end
)

// apart is the least part of a residence between the starts of two requests for the order of their ends to tell
// something: constant times vary by some hundredths.
const apart = 1.0 / 16

// inClumps is the share of ends that hardly are apart from the one before, from which on they come in clumps: those of a
// server that works in batches. Of exponential times one in sixteen is, of batches of three two thirds. The first few ends of a
// clump are no sign of a queue. Without this, batches below three quarters of their capacity have 0.77 % refused instead of 0.54 ±
// 0.11 % (135 random worlds).
const inClumps = 0.5

// end counts an end at now, where requests take mean ns.
func (u *use) end(now mono.Time, mean float64) {
	u.clumped -= u.clumped / 32
	if float64(now.Sub(u.ended))*float64(u.slots) < apart*mean {
		u.clumped += 1.0 / 32
	}
	u.ended = now
	u.ends++
}

// enter adds a request at the end. Requests that enter less than near ns after another are of the same batch: which
// of them ends first tells nothing.
func (a *arrivals) enter(now mono.Time, near float64) Place {
	n := a.next
	if float64(now.Sub(a.since)) > near || n == 0 {
		a.batch, a.since = n, now
	}
	if n-a.oldest >= lineSize {
		a.older++ // the oldest runs still, or oldest would have moved on
		a.clear(a.oldest)
		a.skip()
	}
	a.bits[n/64%lineWords] |= 1 << (n % 64)
	a.next++
	return Place{number: n, batch: a.batch}
}

// leave takes a request out and returns its rank, 0 if it was too old for the bits.
func (a *arrivals) leave(p Place) int {
	if p.number < a.oldest {
		a.older--
		return 0
	}
	rank := a.older + 1
	if p.batch > a.oldest {
		rank += a.upTo(p.batch - 1)
	}
	a.clear(p.number)
	a.skip()
	return rank
}

// len returns how many requests there are.
func (a *arrivals) len() int {
	if a.oldest == a.next {
		return a.older
	}
	return a.older + a.upTo(a.next-1)
}

// upTo counts the requests up to number n.
func (a *arrivals) upTo(n uint64) int {
	count := 0
	for word := a.oldest / 64; word < n/64; word++ {
		count += bits.OnesCount64(a.bits[word%lineWords])
	}
	return count + bits.OnesCount64(a.bits[n/64%lineWords]<<(63-n%64))
}

func (a *arrivals) clear(n uint64) { a.bits[n/64%lineWords] &^= 1 << (n % 64) }

// skip moves oldest on to a request that runs, or to next.
func (a *arrivals) skip() {
	for a.oldest < a.next {
		rest := a.bits[a.oldest/64%lineWords] >> (a.oldest % 64)
		if rest != 0 {
			a.oldest += uint64(bits.TrailingZeros64(rest))
			return
		}
		a.oldest = min((a.oldest/64+1)*64, a.next)
	}
}
