package engine

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// The first window is told before it is full, later ones when they are.
func TestWindows(t *testing.T) {
	s := &stats{}
	at := func(d time.Duration) mono.Time { return mono.Time(0).Add(d) }
	enter := func(n int, access time.Duration) {
		var all tally
		for range n {
			all.wait(access, 0)
		}
		s.enter(&all, 0, 0)
	}
	enter(20, time.Second)
	for _, step := range []struct {
		at   time.Duration
		rate float64
		p99  time.Duration
	}{
		{0, 0, 0},
		{2 * time.Second, 10, time.Second},
		{5 * time.Second, 4, time.Second},
		{statsWindow, 2, time.Second},
		{statsWindow + time.Second, 2, time.Second}, // nothing came since, which is not told yet
		{2 * statsWindow, 0, 0},
		{2*statsWindow + time.Second, 0, 0},
	} {
		s.turn(at(step.at))
		got := s.told()
		if off := float64(got.Access.P99-step.p99) / float64(time.Second); got.Rate != step.rate || off > 0.05 || off < -0.05 {
			t.Errorf("after %v: %v/s and a p99 of %v, want %v/s and %v", step.at, got.Rate, got.Access.P99, step.rate, step.p99)
		}
	}
}
