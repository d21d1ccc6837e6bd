package culpritsim

import (
	"testing"
)

// What the engine must not lose again: in every case the culprit and nobody else is
// cancelled, in time, and throughput and tail are those without it.
func TestScenesHold(t *testing.T) {
	for _, s := range append(scenes(), choices()...) {
		for seed := uint64(1); seed <= 3; seed++ {
			all, err := playScene(s, seed)
			if err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			o := all[len(all)-1]
			if o.rate < rateFloor || o.tail > tailCeiling || o.dropped > dropCeiling || o.wrong > 0 || !o.first || o.decided < 0 || o.decided > decideWithin {
				t.Errorf("%s, seed %d: throughput %.3f, p99 %.2f, dropped %.4f, %d wrong cancels, decided after %v", s.name, seed, o.rate, o.tail, o.dropped, o.wrong, o.decided)
			}
			if none := all[0]; none.rate > 0.99 && none.tail < 1.3 {
				t.Errorf("%s, seed %d: without control throughput is %.3f and p99 %.2f: the culprit does no harm", s.name, seed, none.rate, none.tail)
			}
		}
	}
}

// Random applications: nobody is cancelled without a culprit, nor beside one.
func TestRandomHolds(t *testing.T) {
	right := 0
	for seed := uint64(1); seed <= 25; seed++ {
		for _, hog := range []bool{false, true} {
			f, err := playRandom(&trialRun{seed, hog})
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range f.broken {
				t.Errorf("seed %d, hog %v: %s", seed, hog, text)
			}
			if f.wrong > 0 {
				t.Errorf("seed %d, hog %v: %d wrong cancels", seed, hog, f.wrong)
			}
			if f.right > 0 {
				right++
			}
		}
	}
	if right < 20 {
		t.Errorf("%d of 25 hogs found, want 20 at least", right)
	}
}
