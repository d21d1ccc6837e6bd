package node

import (
	"testing"
	"time"
)

// Nothing within the objective in a whole window puts it out of reach, a quarter of one
// brings it back, and both are said once.
func TestReach(t *testing.T) {
	const ms = time.Millisecond
	var r reach
	window := func(met int, alone time.Duration) (changes int) {
		for i := range reachSample {
			took := time.Duration(300+i) * ms
			if i < met {
				took = 100 * ms
			}
			if r.add(took, 100*ms, alone) {
				changes++
			}
		}
		return changes
	}
	for i, step := range []struct {
		met     int
		alone   time.Duration
		changes int
		out     bool
	}{
		{0, 20 * ms, 0, false}, // a queue behind the slots: alone they take 20 ms
		{1, 300 * ms, 0, false},
		{0, 300 * ms, 1, true},
		{0, 300 * ms, 0, true},
		{7, 300 * ms, 0, true},
		{8, 300 * ms, 1, false},
		{1, 300 * ms, 0, false},
		{0, 51 * ms, 1, true}, // an estimate that is bounded by part of the objective
		{32, 20 * ms, 1, false},
	} {
		if got := window(step.met, step.alone); got != step.changes || r.out != step.out {
			t.Errorf("window %d: %d changes, out of reach %v, expected %d and %v", i, got, r.out, step.changes, step.out)
		}
		want := 300 * ms
		if step.met > 0 {
			want = 100 * ms
		}
		if r.known != want {
			t.Errorf("window %d: the least is %v, expected %v", i, r.known, want)
		}
	}
}
