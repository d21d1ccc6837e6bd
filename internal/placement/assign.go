package placement

import (
	"cmp"
	"slices"
)

// Publisher sends messages to a topic.
type Publisher struct {
	// Rate is in messages a second, above 0.
	Rate float64
	// Group is the same for publishers that fire together, as their owner says. 0 is none.
	Group uint32
}

// Nowhere stands for the broker of a publisher that found no room.
const Nowhere = -1

// Assign returns the broker of each publisher, an index into quotas, so that each broker
// gets its quota, in messages a second, and of each correlation group a part in proportion
// to it: a burst is then divided as the bucket is. Publishers beyond all quotas are
// Nowhere.
//
// Group after group, each publisher goes to the broker that is furthest behind its part.
// Any run of publishers is then divided in proportion up to one publisher a broker, and
// so is each group.
func Assign(publishers []Publisher, quotas []float64) []int {
	total := 0.0
	for _, p := range publishers {
		total += p.Rate
	}
	room := 0.0
	for _, q := range quotas {
		room += q
	}
	// What finds no room is one more place, the last.
	parts := append(slices.Clone(quotas), max(0, total-room))
	behind := make([]float64, len(parts)) // messages a second that a place lacks so far
	at := make([]int, len(publishers))
	for _, i := range byGroup(publishers) {
		best := len(parts) - 1
		for b, part := range parts {
			if part > 0 {
				behind[b] += publishers[i].Rate * part / max(total, room)
				if parts[best] == 0 || behind[b] > behind[best] {
					best = b
				}
			}
		}
		behind[best] -= publishers[i].Rate
		if at[i] = best; best == len(quotas) {
			at[i] = Nowhere
		}
	}
	return at
}

// byGroup returns the order of publishers in which those of a group follow each other;
// those of none come last, since they are what evens out the rest.
func byGroup(publishers []Publisher) []int {
	order := make([]int, len(publishers))
	for i := range order {
		order[i] = i
	}
	key := func(i int) uint32 { return publishers[i].Group - 1 } // 0 wraps to the end
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(key(a), key(b)) })
	return order
}
