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

// Late bursts one after the other are one piece of evidence; the same number of them apart from each other is as many.
func TestRoundOfRuns(t *testing.T) {
	const bursts, late, of = 400, 40, 100 // a tenth of the bursts is late, by half
	play := func(run int) (met, sure bool) {
		var r Round
		every := bursts / late * run
		for i := range bursts {
			n := 0
			if i%every >= every-run { // the last ones of each stretch, so that a run is open at the end
				n = of / 2
			}
			r.Burst(of, n)
		}
		return r.Verdict()
	}
	if met, sure := play(1); met || !sure {
		t.Errorf("%d late bursts: met %v, sure %v", late, met, sure)
	}
	if met, sure := play(late / 2); met || sure {
		t.Errorf("2 runs of %d: met %v, sure %v", late/2, met, sure)
	}
}

// Times at which every second burst is late are seldom taken for proof of a miss where there are few of them.
func TestRoundOfBusyTimes(t *testing.T) {
	for _, busy := range []int{20, 40} { // bursts of such a time; eight in a thousand messages are late
		wrong := 0
		const plays = 400
		for seed := range uint64(plays) {
			rng := rand.New(rand.NewPCG(seed, 12))
			var r Round
			left := 0
			for i := 1; ; i++ {
				if left--; left < 0 && rng.IntN(15*busy) == 0 {
					left = busy
				}
				late := 0
				if left > 0 && rng.IntN(2) == 0 {
					late = 25
				}
				r.Burst(100, late)
				if i%200 > 0 { // as a driver asks
					continue
				}
				if met, sure := r.Verdict(); sure || i == 20_000 {
					if !met {
						wrong++
					}
					break
				}
			}
		}
		if wrong > plays/25 {
			t.Errorf("busy times of %d bursts: %d of %d verdicts are wrong", busy, wrong, plays)
		}
	}
}
