package slots

import (
	"math/bits"

	"github.com/spillgate/spillgate/internal/mono"
)

// line is the requests that hold slots, in the order in which they took them. A request
// that ends has a rank: its place in the line, from 1 for the oldest.
//
// A server that takes requests first come, first served, and works on k at a time, ends
// none beyond the k-th: the others wait behind it. So the ranks reach exactly to the knee,
// however many run, unless all requests take nearly the same time.
type line struct {
	next   uint64 // number of the request that enters next
	oldest uint64 // no request before it is in the bits
	// older run, and are too old for the bits: they are long, or were many.
	older int
	bits  [lineWords]uint64
	// batch is the number of the first of those that entered at about the same time, at since.
	batch uint64
	since mono.Time
}

// Place is where a request entered the line, after how many others had ended, and when its answer began.
type Place struct {
	number, batch, ends uint64
	found, all          int       // running, itself included; and with those without a slot
	answered            mono.Time // 0: it has not
}

// The order is known of the last lineSize requests, in half a kilobyte. Those that entered
// before them and still run count for the ranks of others, and have none. No world of
// tuning/core sees it.
const (
	lineWords = 64
	lineSize  = (lineWords - 1) * 64 // one word is partly of either end
)

// enter adds a request at the end. It is of the same batch as those that entered less
// than apart before: which of them ends first tells nothing.
func (l *line) enter(now mono.Time, apart float64) Place {
	n := l.next
	if float64(now.Sub(l.since)) > apart || n == 0 {
		l.batch, l.since = n, now
	}
	if n-l.oldest >= lineSize {
		l.older++ // the oldest runs still, or oldest would have moved on
		l.clear(l.oldest)
		l.skip()
	}
	l.bits[n/64%lineWords] |= 1 << (n % 64)
	l.next++
	return Place{number: n, batch: l.batch}
}

// leave takes a request out and returns its rank, 0 if it was too old for the bits.
func (l *line) leave(p Place) int {
	if p.number < l.oldest {
		l.older--
		return 0
	}
	rank := l.older + 1
	if p.batch > l.oldest {
		rank += l.upTo(p.batch - 1)
	}
	l.clear(p.number)
	l.skip()
	return rank
}

// upTo counts the requests up to number n.
func (l *line) upTo(n uint64) int {
	count := 0
	for word := l.oldest / 64; word < n/64; word++ {
		count += bits.OnesCount64(l.bits[word%lineWords])
	}
	return count + bits.OnesCount64(l.bits[n/64%lineWords]<<(63-n%64))
}

func (l *line) clear(n uint64) { l.bits[n/64%lineWords] &^= 1 << (n % 64) }

// skip moves oldest on to a request that runs, or to next.
func (l *line) skip() {
	for l.oldest < l.next {
		rest := l.bits[l.oldest/64%lineWords] >> (l.oldest % 64)
		if rest != 0 {
			l.oldest += uint64(bits.TrailingZeros64(rest))
			return
		}
		l.oldest = min((l.oldest/64+1)*64, l.next)
	}
}
