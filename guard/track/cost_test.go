package track

import (
	"math"
	"testing"
	"time"
)

// A statement of 1 ms of work that becomes one of 4 ms is three quarters beyond normal,
// and what is learned meanwhile is not that.
func TestCostBeyondNormal(t *testing.T) {
	const dt = 100 * time.Millisecond
	var c Cost
	if work, running := c.Beyond(Unbounded); work != 0 || running != 0 {
		t.Errorf("nothing seen: %v and %v", work, running)
	}
	for range 50 {
		c.Add(dt, 50*time.Millisecond, 1, 50, 0)
	}
	if work, running := c.Beyond(Unbounded); work != 0 || running != 0 {
		t.Errorf("as normal: %v and %v", work, running)
	}
	for i := range 100 {
		// Only after a second is it known that something makes them dear.
		held := time.Duration(i) * dt
		if held <= time.Second {
			held = 0
		}
		c.Add(dt, 200*time.Millisecond, 1, 50, held)
	}
	if work, running := c.Beyond(Unbounded); math.Abs(work-0.75) > 0.01 || running != 0 {
		t.Errorf("four times the work: %v and %v, expected 0.75 and 0", work, running)
	}
	// Nothing ends any more: all of the time is beyond normal.
	for range 100 {
		c.Add(dt, 0, 10, 0, time.Minute)
	}
	if _, running := c.Beyond(Unbounded); running < 0.99 {
		t.Errorf("a standstill: %v, expected 1", running)
	}
}

// What makes statements dear can cost each of them so much and no more: what they lose beyond that has another reason.
func TestCostOfWhatCanBe(t *testing.T) {
	const dt = 100 * time.Millisecond
	var c Cost
	for range 50 {
		c.Add(dt, 50*time.Millisecond, 1, 50, 0)
	}
	for range 50 {
		c.Add(dt, 200*time.Millisecond, 8, 50, time.Minute)
	}
	for most, want := range map[time.Duration][2]float64{Unbounded: {0.75, 0.875}, 2 * time.Millisecond: {0.5, 0.127}, 0: {0, 0}} {
		if work, running := c.Beyond(most); math.Abs(work-want[0]) > 0.02 || math.Abs(running-want[1]) > 0.01 {
			t.Errorf("at most %v each: %v and %v, expected %v", most, work, running, want)
		}
	}
}

// Noise that was seen in normal times is not beyond them.
func TestCostNoise(t *testing.T) {
	var c Cost
	for i := range 400 {
		c.Add(100*time.Millisecond, time.Duration(30+40*(i/20%2))*time.Millisecond, 1+i/20%2, 50, 0)
	}
	for i := range 40 {
		c.Add(100*time.Millisecond, time.Duration(30+40*(i/20%2))*time.Millisecond, 1+i/20%2, 50, time.Minute)
		if work, running := c.Beyond(Unbounded); work > 0.1 || running > 0.15 {
			t.Errorf("look %d: %.2f and %.2f beyond what was seen before", i, work, running)
		}
	}
}

// Versions that go with a snapshot are those that no older and no younger one keeps.
func TestMargins(t *testing.T) {
	ages := []uint64{5, 100, 5, 60, 0}
	want := []uint64{5, 40, 0, 55, 0}
	got := Margins(ages)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, expected %v", got, want)
			break
		}
	}
}

// The wait goes down by more than the load: of a load of 0.9 that loses a sixth, a third of the wait is left.
func TestDue(t *testing.T) {
	for _, tt := range []struct{ load, part, want float64 }{{0.9, 0, 0}, {0, 0.5, 0}, {0.9, 0.15, 2.0 / 3}, {0.9, 1, 1}, {0.5, 0.25, 2.0 / 3}, {1, 0.95 - 0.5, 1 - 0.05/0.95}} {
		if got := Due(tt.load, tt.part); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("load %v, of it %v: %v, expected %v", tt.load, tt.part, got, tt.want)
		}
	}
}
