package topics

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/spillgate/spillgate/internal/placement"
)

// traffic is what the publishers of a topic send.
type traffic struct {
	publishers int
	rate       float64 // messages a second, each
	batch      int     // messages that one sends in one go
	periodic   bool    // at even distances from a phase by chance, instead of Poisson
	group      int     // publishers that fire together; 0 and 1: none do
	spread     float64 // seconds over which those of a group are spread
	phases     uint64  // periodic ones keep the phase that this seed gave them
}

// burst is a batch of a publisher.
type burst struct {
	at        float64 // seconds
	publisher int
}

// total returns messages a second.
func (t traffic) total() float64 { return float64(t.publishers) * t.rate }

// list returns the publishers with their groups.
func (t traffic) list() []placement.Publisher {
	all := make([]placement.Publisher, t.publishers)
	for i := range all {
		all[i].Rate = t.rate
		if t.group > 1 {
			all[i].Group = uint32(1 + i/t.group)
		}
	}
	return all
}

// play returns the batches of some seconds in ascending order.
func (t traffic) play(rng *rand.Rand, seconds float64) []burst {
	group, every := max(t.group, 1), float64(t.batch)/t.rate
	phases := chance(t.phases, 0x7068)
	all := make([]burst, 0, int(1.02*seconds/every*float64(t.publishers))+t.publishers)
	for first := 0; first < t.publishers; first += group {
		last := min(first+group, t.publishers)
		next := func() float64 { return every * rng.ExpFloat64() }
		at := next()
		if t.periodic {
			at, next = every*phases.Float64(), func() float64 { return every }
		}
		for ; at < seconds; at += next() {
			for p := first; p < last; p++ {
				all = append(all, burst{at + t.spread*rng.Float64(), p})
			}
		}
	}
	return inOrder(all, seconds)
}

// inSlot is about how many batches there are in each slot of inOrder.
const inSlot = 8

// inOrder returns batches of some seconds in ascending order. They are spread evenly over time, so each is put into its slot of time first:
// of ten million, this takes a third of the time of sorting.
func inOrder(all []burst, seconds float64) []burst {
	from := make([]int, len(all)/inSlot+2)
	slot := func(b burst) int { return min(int(b.at/seconds*float64(len(from)-1)), len(from)-2) }
	for _, b := range all {
		from[slot(b)+1]++
	}
	for i := 1; i < len(from); i++ {
		from[i] += from[i-1]
	}
	next, out := slices.Clone(from), make([]burst, len(all))
	for _, b := range all {
		s := slot(b)
		out[next[s]] = b
		next[s]++
	}
	for i := range len(from) - 1 {
		slices.SortFunc(out[from[i]:from[i+1]], func(a, b burst) int { return cmp.Compare(a.at, b.at) })
	}
	return out
}

// late is the share of messages that waits behind the whole bucket. Half of what the objective allows: waits come
// in clusters seconds long, so that a bucket with exactly one in a hundred misses its p99 in every other window.
const late = placement.P99 / 2

// bucket returns the topic's: a tenth more rate than it sends, and the smallest burst at which no
// more than late waits. Poisson groups are one queue whose messages are the bursts of whole groups, of which no
// trace of some minutes holds enough; periodic ones repeat themselves, so a trace of a few periods has all.
//
// judged is what placements are judged on: its burst is enough for that too, as in the paper, whose undivided buckets delay nothing
// (section 6). Else, by a rare cluster of bursts, messages may be late wherever they are placed.
func (t traffic) bucket(rng *rand.Rand, judged []burst) placement.Bucket {
	rate := 1.1 * t.total()
	need := t.need(judged, rate)
	if !t.periodic {
		size := float64(t.batch * max(t.group, 1))
		return placement.Bucket{Rate: rate, Burst: max(need, size*placement.SmallestBurst(1/1.1, late)+rate*t.spread)}
	}
	return placement.Bucket{Rate: rate, Burst: max(need, t.need(t.play(rng, 20*float64(t.batch)/t.rate), rate))}
}

// need returns the smallest burst at which no more than late of some batches wait.
func (t traffic) need(batches []burst, rate float64) float64 {
	if len(batches) == 0 {
		return 1
	}
	arrivals := make([]float64, 0, len(batches)*t.batch)
	for _, b := range batches {
		for range t.batch {
			arrivals = append(arrivals, b.at)
		}
	}
	return placement.Need(arrivals, rate, late, 0)
}
