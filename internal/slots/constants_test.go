package slots

import (
	"math"
	"testing"
	"time"
)

// What a Limit assumes follows from the objective, of which Slack is a tenth.
func TestDefaultsFollowFromTheObjective(t *testing.T) {
	cfg, err := Config{Slack: time.Millisecond}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if want := (Config{Slack: time.Millisecond, Initial: 64, Min: 1, Max: 100_000}); cfg != want {
		t.Errorf("defaults are %+v, want %+v", cfg, want)
	}
	if half*2 != whole {
		t.Errorf("half of the objective is %d Slacks, and all of it %d", half, whole)
	}
}

// A stage downwards halves what runs: by Little's law a queue of one half shows in a
// residence of half the length. With three quarters it hardly does (tuning/core: 39 %).
func TestATrialHalvesWhatRuns(t *testing.T) {
	l, err := New(Config{Slack: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ runs, want float64 }{{16, 8}, {100, 50}, {5, 2}, {2, 1}} {
		if got := l.lower(point{concurrency: c.runs}); got != c.want {
			t.Errorf("with %v running the next stage has %v, want %v", c.runs, got, c.want)
		}
	}
	// Of 64 that take three objectives as many go on as take half of one, if the others wait for them.
	p := point{concurrency: 64, limit: 64, residence: 3 * whole * 1e6, order: order{count: enoughRanks, top: 63}}
	if got := l.lower(p); got != 10 {
		t.Errorf("with 64 that take three objectives the next stage has %v, want 10", got)
	}
	if p.order.top = 8; l.lower(p) != 32 {
		t.Errorf("with 64 that take three objectives behind 8 the next stage has %v, want 32", l.lower(p))
	}
}

// A level halves what it remembers at every fifth window, so that it holds six to ten of them:
// with half as many chance moves the limit (tuning/core: 1.3 % over all worlds).
func TestALevelRemembersEightWindows(t *testing.T) {
	var v level
	least, most := 1e9, 0.0
	for i := range 200 {
		v.add(&window{done: 10}, 1)
		if i >= 50 {
			least, most = min(least, v.length), max(most, v.length)
		}
	}
	if math.Round(least) != 6 || math.Round(most) != 10 {
		t.Errorf("a level holds %v to %v windows, want 6 to 10", least, most)
	}
}
