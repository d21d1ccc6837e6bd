package culprit

import (
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// The worked examples of the paper, section 3.5, and those of the dominance rule.
func TestDominates(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b []float64
		want bool
	}{
		{"X and Y of the paper: neither", []float64{3, 0}, []float64{2, 2}, false},
		{"Y and X of the paper: neither", []float64{2, 2}, []float64{3, 0}, false},
		{"(5,2) dominates (4,1)", []float64{5, 2}, []float64{4, 1}, true},
		{"and not the other way round", []float64{4, 1}, []float64{5, 2}, false},
		{"equal in one, better in one", []float64{5, 1}, []float64{4, 1}, true},
		{"equal tasks do not dominate each other", []float64{4, 1}, []float64{4, 1}, false},
	} {
		if got := dominates(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// With C = (0.6, 0.4), A(3,1) has 2.2 and B(2,2) has 2.0.
func TestScalar(t *testing.T) {
	c := []float64{0.6, 0.4}
	for _, tt := range []struct {
		gains []float64
		want  float64
	}{{[]float64{3, 1}, 2.2}, {[]float64{2, 2}, 2.0}} {
		if got := scalar(c, tt.gains); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", tt.gains, got, tt.want)
		}
	}
}

// ahead is (1−p)/p. p = 0.4 → 1.5; unknown → prior 0.5 → 1; k ≥ N proves N wrong.
func TestAhead(t *testing.T) {
	for _, tt := range []struct {
		k, n uint64
		want float64
	}{{4, 10, 1.5}, {9, 10, 1.0 / 9}, {10, 10, 1}, {11, 10, 1}, {0, 0, 1}, {7, 0, 1}, {1, 100, 99}, {0, 100, 99}, {math.MaxUint64, math.MaxUint64, 1}} {
		if got := ahead(tt.k, tt.n); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("ahead(%d, %d) = %v, want %v", tt.k, tt.n, got, tt.want)
		}
	}
}

// The table of section 3.4: what cancelling a task frees, by kind of resource.
func TestUse(t *testing.T) {
	at := mono.Time(10 * time.Second)
	began := func(ago time.Duration) mono.Time { return at.Add(-ago) }
	for _, tt := range []struct {
		name string
		kind Kind
		task Task
		hold Hold
		got  uint64
		want usage
	}{
		{"a lock held for 1 s, 40 % done: 1.5 s to come", Lock, Task{Started: began(2 * time.Second), Done: 4, Total: 10},
			Hold{HeldSince: began(time.Second), WaitingSince: Unset}, 0, usage{now: 1, sofar: 1, gain: 1.5, remain: 1.5}},
		{"a lock held twice", Lock, Task{Started: began(2 * time.Second)},
			Hold{HoldTime: time.Second, HeldSince: began(500 * time.Millisecond), WaitingSince: Unset}, 0, usage{now: 1, sofar: 1.5, gain: 1.5, remain: 1.5}},
		{"a lock waited for", Lock, Task{Started: began(2 * time.Second)},
			Hold{HeldSince: Unset, WaitingSince: began(time.Second)}, 0, usage{}},
		{"200 pages taken, 50 given back, 25 % done: 450 to come", Memory, Task{Started: began(time.Second), Done: 1, Total: 4},
			Hold{Gets: 200, Frees: 50, HeldSince: Unset, WaitingSince: Unset}, 0, usage{now: 150, sofar: 150, gain: 450, remain: 3}},
		{"pages counted by the source", Memory, Task{Started: began(time.Second)},
			Hold{Gets: 200, Used: 30, HeldSince: Unset, WaitingSince: Unset}, 0, usage{now: 30, sofar: 30, gain: 30, remain: 1}},
		{"two slots for 1 s after 3 s of thread time: 5 s to come", Queue, Task{Started: began(4 * time.Second)},
			Hold{HoldTime: 3 * time.Second, Used: 2, HeldSince: began(time.Second), WaitingSince: Unset}, 0, usage{now: 2, sofar: 5, gain: 5, remain: 4}},
		{"a queue waited in", Queue, Task{Started: began(time.Second)},
			Hold{HeldSince: Unset, WaitingSince: began(time.Second)}, 0, usage{remain: 1}},
		{"600 units in the last 0.5 s, 20 % of 2 s done: 1,200/s for 8 s", System, Task{Started: began(2 * time.Second), Done: 2, Total: 10},
			Hold{Gets: 1000, HeldSince: Unset, WaitingSince: Unset}, 400, usage{now: 1200, sofar: 1000, gain: 9600, remain: 8}},
	} {
		got := use(tt.kind, &tt.hold, at, at.Sub(tt.task.Started).Seconds(), ahead(tt.task.Done, tt.task.Total), tt.got, 0.5)
		for _, pair := range [][2]float64{{got.now, tt.want.now}, {got.sofar, tt.want.sofar}, {got.gain, tt.want.gain}, {got.remain, tt.want.remain}} {
			if math.Abs(pair[0]-pair[1]) > 1e-9*max(1, pair[1]) {
				t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
				break
			}
		}
	}
}

// The contention levels of section 3.4.
func TestLevel(t *testing.T) {
	at := mono.Time(10 * time.Second)
	ago := func(d time.Duration) mono.Time { return at.Add(-d) }
	for _, tt := range []struct {
		name  string
		kind  Kind
		holds []Hold
		want  float64
	}{
		{"two wait 1 s for a lock held for 0.5 s", Lock, []Hold{{HeldSince: ago(500 * time.Millisecond), WaitingSince: Unset},
			{HeldSince: Unset, WaitingSince: ago(time.Second)}, {HeldSince: Unset, WaitingSince: ago(time.Second)}}, 4},
		{"1 s in the queue, 0.1 s of execution: 10", Queue, []Hold{{WaitTime: time.Second, HoldTime: 100 * time.Millisecond, HeldSince: Unset, WaitingSince: Unset}}, 10},
		{"30 evictions, 120 pages: ΣE ÷ ΣM", Memory, []Hold{{Gets: 100, Waits: 30, HeldSince: Unset, WaitingSince: Unset}, {Gets: 20, HeldSince: Unset, WaitingSince: Unset}}, 0.25},
		{"0.5 of 2 s lost to the processor", System, []Hold{{WaitTime: 500 * time.Millisecond, HeldSince: Unset, WaitingSince: Unset}}, 1.0 / 3},
		{"nothing used", Lock, []Hold{{HeldSince: Unset, WaitingSince: ago(time.Second)}}, 0},
	} {
		var l level
		for i := range tt.holds {
			l.add(tt.kind, &tt.holds[i], at, 2, (tt.holds[i].WaitTime + since(at, tt.holds[i].WaitingSince)).Seconds())
		}
		if got := l.value(); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
