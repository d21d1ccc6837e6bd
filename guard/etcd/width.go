package etcd

import (
	"hash/maphash"
	"strconv"
	"sync"

	"github.com/spillgate/spillgate/guard/etcd/keyrange"
)

// width is how many keys a range has, or unseen.
type width int64

const (
	// unseen is the width of a range that was not answered yet. It may be any.
	unseen width = -1
	// wideFrom is from how many keys on a range is said to hold the index. A walk takes
	// 0.2 to 0.5 µs a key on a server of 2020, so that below it is less than half a
	// millisecond: what takes longer waits.
	wideFrom width = 1000
	// maxWidths is the most ranges whose width is remembered, 16 bytes each and the map's
	// own. Of more, those of the older half are forgotten.
	maxWidths = 1 << 14
)

func (w width) wide() bool { return w == unseen || w >= wideFrom }

// or returns the larger of two widths. One that is known to be wide says more than one
// that is not known.
func (w width) or(other width) width {
	if w == unseen && !other.wide() || other == unseen && !w.wide() {
		return unseen
	}
	return max(w, other)
}

// suffix is what a kind is called behind the method: the order of magnitude, so that few
// kinds come of many ranges.
func (w width) suffix() string {
	if w == unseen {
		return " of unseen width"
	}
	n := width(1)
	zeros := 0
	for n <= w/10 {
		n *= 10
		zeros++
	}
	return " of 10^" + strconv.Itoa(zeros) + " keys"
}

// widths remembers how wide ranges were, by a hash of their bounds, so that no keys are
// kept. Two that have the same hash are taken for one. The zero widths is empty.
type widths struct {
	mu         sync.Mutex
	young, old map[uint64]width
}

var seed = maphash.MakeSeed()

// hash does not allocate.
func hash(r keyrange.Range) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.Write(r.Key)
	_ = h.WriteByte(0xff)
	_, _ = h.Write(r.End)
	return h.Sum64()
}

// of returns the width of a range.
func (w *widths) of(r keyrange.Range) width {
	at := hash(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if n, ok := w.young[at]; ok {
		return n
	}
	n, ok := w.old[at]
	if !ok {
		return unseen
	}
	w.keep(at, n)
	return n
}

// learn notes that a range had count keys, or at least so many.
func (w *widths) learn(r keyrange.Range, count int64, least bool) {
	at, n := hash(r), width(max(count, 0))
	w.mu.Lock()
	defer w.mu.Unlock()
	if least {
		n = max(n, w.young[at], w.old[at])
	}
	w.keep(at, n)
}

// keep enters a width, with the lock held.
func (w *widths) keep(at uint64, n width) {
	if len(w.young) >= maxWidths/2 {
		w.young, w.old = nil, w.young
	}
	if w.young == nil {
		w.young = make(map[uint64]width)
	}
	w.young[at] = n
}
