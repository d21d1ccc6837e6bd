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
	// counts are those of the buckets from low on: a report of many bins keeps thousands
	// of histograms, most of which span a few doublings.
	counts []uint32
	low    int
	n      uint64
	sum    float64
	max    time.Duration
}

// Add counts d; negative durations count as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	i := bucket(uint64(d))
	h.span(i, i)
	h.counts[i-h.low]++
	h.n++
	h.sum += float64(d)
	h.max = max(h.max, d)
}

// span makes room for the buckets from first to last, whole doublings at a time.
func (h *Histogram) span(first, last int) {
	const whole = 1 << sub
	if len(h.counts) == 0 {
		h.low = first &^ (whole - 1)
	}
	if first < h.low {
		low := first &^ (whole - 1)
		h.counts = append(make([]uint32, h.low-low, h.low-low+len(h.counts)), h.counts...)
		h.low = low
	}
	if last >= h.low+len(h.counts) {
		more := last&^(whole-1) + whole - h.low
		h.counts = append(make([]uint32, 0, more), h.counts...)[:more]
	}
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
			return min(upper(h.low+i), h.max)
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
		if upper(h.low+i) > d {
			break
		}
		seen += uint64(c)
	}
	return float64(seen) / float64(h.n)
}

// Merge adds what o counted.
func (h *Histogram) Merge(o *Histogram) {
	if len(o.counts) > 0 {
		h.span(o.low, o.low+len(o.counts)-1)
	}
	for i, c := range o.counts {
		h.counts[o.low-h.low+i] += c
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
