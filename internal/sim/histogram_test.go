package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A histogram says what a sorted list of the same times does, to the width of a bucket,
// in whichever order they come and however they are merged.
func TestHistogramIsASortedList(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var whole, merged Histogram
		parts := make([]Histogram, 3)
		var all []time.Duration
		for range 1 + rng.IntN(300) {
			d := time.Duration(rng.Int64N(1 << (1 + rng.IntN(40))))
			all = append(all, d)
			whole.Add(d)
			parts[rng.IntN(len(parts))].Add(d)
		}
		for i := range parts {
			merged.Merge(&parts[i])
		}
		slices.Sort(all)
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			exact := all[max(int(q*float64(len(all))), 1)-1]
			for _, h := range []*Histogram{&whole, &merged} {
				if got := h.Quantile(q); got < exact || float64(got) > float64(exact)*(1+1.0/64)+1 {
					t.Fatalf("seed %d: quantile %v is %v, in the list %v", seed, q, got, exact)
				}
			}
		}
		if whole.Mean() != merged.Mean() || merged.Max() != all[len(all)-1] || merged.Within(merged.Max()) != whole.Within(whole.Max()) {
			t.Errorf("seed %d: merged %v, %v; whole %v, %v", seed, merged.Mean(), merged.Max(), whole.Mean(), whole.Max())
		}
	}
}
