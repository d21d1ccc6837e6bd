package placement

import (
	"math/rand/v2"
	"testing"
)

// A sure verdict is seldom wrong, and comes soon where the answer is clear.
func TestRound(t *testing.T) {
	for _, tt := range []struct {
		share float64 // of messages that are late
		most  int     // mean number of bursts until it is sure
	}{{0, 200}, {.002, 600}, {.02, 3000}, {.05, 400}, {.3, 60}} {
		wrong, bursts := 0, 0
		const plays = 400
		for seed := range uint64(plays) {
			rng := rand.New(rand.NewPCG(seed, 11))
			var r Round
			for i := 1; ; i++ {
				n, late := 50+rng.IntN(100), 0
				if rng.Float64() < 4*tt.share { // such a burst is late by a quarter on average
					late = rng.IntN(n/2 + 1)
				}
				r.Burst(n, late)
				if met, sure := r.Verdict(); sure || i == 10_000 {
					bursts += i
					if met != (tt.share <= P99) {
						wrong++
					}
					break
				}
			}
		}
		if wrong > plays/20 {
			t.Errorf("late %v: %d of %d verdicts are wrong", tt.share, wrong, plays)
		}
		if bursts/plays > tt.most {
			t.Errorf("late %v: %d bursts on average, expected at most %d", tt.share, bursts/plays, tt.most)
		}
	}
	if _, sure := (&Round{}).Verdict(); sure {
		t.Error("sure of nothing")
	}
}
