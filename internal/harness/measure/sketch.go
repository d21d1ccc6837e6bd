package measure

import (
	"math/bits"
	"time"
)

// sketch is a histogram of durations small enough to keep one per window
// (1.5 KB). Buckets grow with the value:
//
//	unit = 1.024 µs    0 1 2 … 15 | 16 17 … 31 | 32 34 … 62 | 64 68 … | …
//	                   one a unit   16 buckets for each doubling
//
// so a quantile is within 1/32 of the truth above 16 µs, and within half a
// unit below. Durations above 68 s share the last bucket; the maximum is exact.
type sketch struct {
	counts [sketchBuckets]uint32
	n      uint64
	sum    time.Duration
	max    time.Duration
}

const (
	sketchUnitBits = 10 // 1.024 µs
	sketchSubBits  = 4  // 16 buckets for each doubling
	sketchSub      = 1 << sketchSubBits
	sketchTopBits  = 26 // 2^26 units, 68.7 s
	sketchBuckets  = (sketchTopBits - sketchSubBits + 1) * sketchSub
)

func sketchBucket(d time.Duration) int {
	u := uint64(max(d, 0)) >> sketchUnitBits
	if u < sketchSub {
		return int(u)
	}
	shift := bits.Len64(u) - 1 - sketchSubBits
	b := (shift+1)*sketchSub + int(u>>shift) - sketchSub
	return min(b, sketchBuckets-1)
}

// sketchValue returns the middle of bucket b.
func sketchValue(b int) time.Duration {
	if b < sketchSub {
		return time.Duration(b)<<sketchUnitBits + 1<<(sketchUnitBits-1)
	}
	shift := b/sketchSub - 1
	low := uint64(sketchSub+b%sketchSub) << shift
	width := uint64(1) << shift
	return time.Duration(low<<sketchUnitBits + width<<(sketchUnitBits-1))
}

func (s *sketch) record(d time.Duration) {
	d = max(d, 0)
	s.counts[sketchBucket(d)]++
	s.n++
	s.sum += d
	s.max = max(s.max, d)
}

func (s *sketch) add(t *sketch) {
	if t == nil {
		return
	}
	for b, n := range t.counts {
		s.counts[b] += n
	}
	s.n += t.n
	s.sum += t.sum
	s.max = max(s.max, t.max)
}

// quantile returns the value below or at which a share q of the recorded
// durations lies, 0 when there are none.
func (s *sketch) quantile(q float64) time.Duration {
	rank := uint64(q * float64(s.n))
	if float64(rank) < q*float64(s.n) {
		rank++
	}
	rank = max(rank, 1)
	var below uint64
	for b, n := range s.counts {
		below += uint64(n)
		if below >= rank {
			return min(sketchValue(b), s.max)
		}
	}
	return s.max
}

func (s *sketch) dist() Dist {
	if s.n == 0 {
		return Dist{}
	}
	return Dist{
		Count: s.n,
		Mean:  s.sum / time.Duration(s.n),
		P50:   s.quantile(0.50),
		P90:   s.quantile(0.90),
		P99:   s.quantile(0.99),
		P999:  s.quantile(0.999),
		Max:   s.max,
	}
}
