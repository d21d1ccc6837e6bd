package sim

import (
	"math/bits"
	"time"
)

// sub is the number of buckets per doubling, as a power of two: quantiles are
// at most 1/64 too high.
const sub = 6

// Histogram counts durations in buckets of constant relative width. The zero
// Histogram is empty.
type Histogram struct {
	counts []uint32
	n      uint64
	sum    float64
	max    time.Duration
}

// Add counts d; negative durations count as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	i := bucket(uint64(d))
	for i >= len(h.counts) {
		h.counts = append(h.counts, make([]uint32, 128)...)
	}
	h.counts[i]++
	h.n++
	h.sum += float64(d)
	h.max = max(h.max, d)
}

// Mean returns their mean, 0 if there are none.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.n))
}

// Max returns the largest.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns a duration that a share q of those counted do not exceed, 0
// if there are none. It is exact to 1/64 and never too low.
func (h *Histogram) Quantile(q float64) time.Duration {
	need := uint64(q * float64(h.n))
	var seen uint64
	for i, c := range h.counts {
		seen += uint64(c)
		if c > 0 && seen >= need {
			return min(upper(i), h.max)
		}
	}
	return h.max
}

// Within returns the share of durations up to d, to the width of a bucket.
func (h *Histogram) Within(d time.Duration) float64 {
	if h.n == 0 {
		return 0
	}
	var seen uint64
	for i, c := range h.counts {
		if upper(i) > d {
			break
		}
		seen += uint64(c)
	}
	return float64(seen) / float64(h.n)
}

// Merge adds what o counted.
func (h *Histogram) Merge(o *Histogram) {
	for len(h.counts) < len(o.counts) {
		h.counts = append(h.counts, 0)
	}
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

func bucket(v uint64) int {
	if v < 2<<sub {
		return int(v)
	}
	shift := bits.Len64(v) - sub - 1
	return shift<<sub + int(v>>shift)
}

// upper is the largest duration of a bucket.
func upper(i int) time.Duration {
	if i < 2<<sub {
		return time.Duration(i)
	}
	shift := i>>sub - 1
	return time.Duration(uint64(i-shift<<sub+1)<<shift - 1)
}
