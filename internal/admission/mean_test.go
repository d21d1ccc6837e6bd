package admission

import (
	"math/rand/v2"
	"testing"
)

// TestMeanFollowsAChange: what has changed is known to a factor of 2.5 after so many values, in the
// worst of 50 cases.
// The larger the change, the fewer; no value counts for more than eight means, so three are the
// least.
func TestMeanFollowsAChange(t *testing.T) {
	for _, tt := range []struct{ factor, within float64 }{{20, 16}, {10, 16}, {5, 20}, {3, 32}, {1.0 / 4, 40}, {1.0 / 20, 32}} {
		worst := 0.0
		for seed := range uint64(50) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var m mean
			for range 1000 {
				m.add(rng.ExpFloat64())
			}
			n := 0.0
			for ; m.value < tt.factor/2.5 || m.value > tt.factor*2.5; n++ {
				m.add(rng.ExpFloat64() * tt.factor)
			}
			worst = max(worst, n)
		}
		if worst > tt.within {
			t.Errorf("a change by %.2f took up to %.0f values, want %.0f at most", tt.factor, worst, tt.within)
		}
	}
}

// TestMeanStaysWithoutAChange: random times alone are hardly ever taken for a change, and two
// long ones never.
func TestMeanStaysWithoutAChange(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var m mean
	restarts := 0
	for i := range 300_000 {
		before := m.count
		m.add(rng.ExpFloat64())
		if i > meanMemory && m.count < before {
			restarts++
		}
	}
	if restarts > 3 {
		t.Errorf("%d changes seen in 300,000 exponential times, want 3 at most", restarts)
	}
	m = mean{}
	for range 100 {
		m.add(1)
	}
	m.add(100)
	m.add(100)
	if m.count < 100 {
		t.Errorf("two long values were taken for a change: the mean is %.1f of %.0f", m.value, m.count)
	}
}

// TestMeanStaysWithTwoKindsOfTimes: one time in five is sixteen times as long as the others. A run of
// short ones is no change.
func TestMeanStaysWithTwoKindsOfTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var m mean
	restarts := 0
	for i := range 300_000 {
		x := 0.25
		if rng.IntN(5) == 0 {
			x = 4
		}
		before := m.count
		if m.add(x); i > 10*variationMemory && m.count < before {
			restarts++
		}
	}
	if restarts > 10 { // each is followed by one the other way round
		t.Errorf("%d changes seen in 300,000 times, want 10 at most: it is 700 where the variation does not count", restarts)
	}
}
