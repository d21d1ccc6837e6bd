package signal

import (
	"math"
	"math/bits"
	"time"
)

const (
	subBits = 5
	perStep = 1 << subBits // buckets per power of two
	buckets = (64 - subBits) * perStep
)

// relativeError is the most by which a quantile of a Sketch differs from the
// sample it stands for, as a share of that sample. Samples below 64 ns are exact.
const relativeError = 1.0 / (2 * perStep)

// Sketch answers any quantile of the durations it was given. Its buckets grow
// with the value, 32 of equal width from each power of two to the next, so
// that the error is a share of the value over the whole range of a Duration, and
// finding a bucket needs no logarithm. It takes 7.4 KiB; the zero Sketch is
// empty.
type Sketch struct {
	count  uint64
	counts [buckets]uint32
}

// Add takes a sample. A negative one counts as 0. A bucket that holds 2³²−1
// samples stays there.
func (s *Sketch) Add(d time.Duration) {
	i := bucketOf(uint64(max(d, 0)))
	if s.counts[i] < math.MaxUint32 {
		s.counts[i]++
		s.count++
	}
}

// AddN is Add of the same sample n times, in the time of one.
func (s *Sketch) AddN(d time.Duration, n uint32) {
	i := bucketOf(uint64(max(d, 0)))
	n = min(n, math.MaxUint32-s.counts[i])
	s.counts[i] += n
	s.count += uint64(n)
}

// Count returns the number of samples.
func (s *Sketch) Count() uint64 { return s.count }

// Quantile returns the sample below or at which a share q of all lies, by the
// nearest rank; q below 0 counts as 0, above 1 as 1. It returns 0 if there are
// no samples. It walks the buckets, so it is dearer than Add by two orders of magnitude.
func (s *Sketch) Quantile(q float64) time.Duration {
	if s.count == 0 {
		return 0
	}
	q = min(max(q, 0), 1)
	rank := uint64(math.Ceil(q * float64(s.count)))
	rank = min(max(rank, 1), s.count)
	for i, n := range s.counts {
		if rank <= uint64(n) {
			return middleOf(i)
		}
		rank -= uint64(n)
	}
	return middleOf(buckets - 1)
}

// Reset forgets every sample.
func (s *Sketch) Reset() { *s = Sketch{} }

// bucketOf numbers the buckets by value: the first 64 are one nanosecond wide,
// each further 32 twice as wide as the 32 before.
func bucketOf(v uint64) int {
	shift := max(bits.Len64(v)-subBits-1, 0)
	return shift*perStep + int(v>>shift)
}

func middleOf(i int) time.Duration {
	if i < 2*perStep {
		return time.Duration(i)
	}
	shift := i/perStep - 1
	low := uint64(i-shift*perStep) << shift
	return time.Duration(min(low+1<<shift/2, math.MaxInt64))
}
