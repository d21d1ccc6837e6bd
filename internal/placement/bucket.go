package placement

import (
	"math"
	"slices"
)

// P99 is the quantile that objectives are about: the share of messages that may be later.
const P99 = 0.01

// Bucket is a token bucket, or what one broker has of a topic's.
type Bucket struct {
	// Rate is in messages a second, above 0.
	Rate float64
	// Burst is in messages. It is no whole number where a topic is split: cutting off the
	// fraction costs 3 to 4 % of the p99.
	Burst float64
}

// Split returns the share of a bucket, from 0 to 1. Shares that add up to 1 add up to the
// bucket.
func (b Bucket) Split(share float64) Bucket { return Bucket{b.Rate * share, b.Burst * share} }

// Delays describes how long messages wait for their tokens.
type Delays struct {
	// Delayed is the share of messages that wait at all.
	Delayed float64
	// Mean and P99 are in seconds, over all messages.
	Mean, P99 float64
}

// Delays returns what Poisson arrivals of a rate, in messages a second, meet. Publishers
// that send batches of several messages at once are a process of batches: divide rate
// and bucket by the size of a batch. From the rate of the bucket on the delay grows
// without end; it is infinite then.
func (b Bucket) Delays(rate float64) Delays {
	if rate <= 0 {
		return Delays{}
	}
	if rate >= b.Rate {
		return Delays{Delayed: 1, Mean: math.Inf(1), P99: math.Inf(1)}
	}
	q, x := Queue{rate / b.Rate}, b.Burst-1
	return Delays{
		Delayed: q.Tail(x),
		Mean:    q.Above(x) / b.Rate,
		P99:     max(0, q.Quantile(P99)-x) / b.Rate,
	}
}

// SmallestBurst returns the least whole burst at which no more than the share late of a
// Poisson process waits, for a load, the arrival rate over that of the bucket, between 0 and 1.
func SmallestBurst(load, late float64) float64 {
	return math.Ceil(1 + Queue{load}.Quantile(late) - 1e-9)
}

// Need returns the burst at which no more than the share late of the messages of a trace
// waits longer than delay, in seconds, behind a bucket of a rate in messages a second.
// arrivals are instants in seconds in ascending order; it is 0 for none.
//
// No search is needed: the backlog of the queue behind a bucket does not depend on the burst,
// so each message tells the burst that would have let it through at once, and the answer
// is a quantile of those.
func Need(arrivals []float64, rate, late, delay float64) float64 {
	if len(arrivals) == 0 {
		return 0
	}
	needs := make([]float64, len(arrivals))
	backlog, last := 0.0, arrivals[0]
	for i, at := range arrivals {
		backlog = max(0, backlog-rate*(at-last)) + 1
		last, needs[i] = at, backlog
	}
	slices.Sort(needs)
	over := int(late * float64(len(needs))) // so many may wait longer
	return max(needs[max(len(needs)-1-over, 0)]-rate*delay, 1)
}
