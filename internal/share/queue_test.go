package share

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// near reports whether got, rounded to the digits that an oracle prints, is it.
func near(got, want float64, digits int) bool {
	return math.Abs(got-want) <= 0.5000001*math.Pow(10, -float64(digits))
}

var mixed = Patience{{Weight: 0.7, Rate: 0.05}, {Weight: 0.3, Rate: 0.5}}

// TestQueuesWithPatience checks both ways to compute a queue with patience
// against values that a third one gave.
func TestQueuesWithPatience(t *testing.T) {
	tests := []struct {
		arrival          float64
		patience         Patience
		idle, lost, wait float64
	}{
		{0.8, Patience{{1, 0.1}}, 0.304519, 0.130648, 1.306483},
		{0.95, Patience{{1, 0.1}}, 0.213758, 0.172377, 1.723767},
		{1.2, Patience{{1, 0.1}}, 0.103393, 0.252828, 2.528277},
		{1.2, Patience{{1, 0.5}}, 0.239445, 0.366204, 0.732408},
		{1, Patience{{1, 1}}, 0.367879, 0.367879, 0.367879},
		{2, Patience{{1, 1}}, 0.135335, 0.567668, 0.567668},
		{0.8, mixed, 0.323107, 0.153883, 1.130524},
		{0.95, mixed, 0.234891, 0.194622, 1.477650},
		{1.2, mixed, 0.123156, 0.269297, 2.175187},
	}
	check := func(how string, i int, q Queue, ok bool) {
		want := tests[i]
		if !ok || !near(q.Idle, want.idle, 6) || !near(q.Lost, want.lost, 6) || !near(q.Wait, want.wait, 6) {
			t.Errorf("%s, arrival %v, patience %v: idle %.6f, lost %.6f, wait %.6f (%v), want %.6f, %.6f, %.6f",
				how, want.arrival, want.patience, q.Idle, q.Lost, q.Wait, ok, want.idle, want.lost, want.wait)
		}
	}
	for i, tt := range tests {
		q, ok := ImpatientQueue(tt.arrival, 1, tt.patience)
		check("integral", i, q, ok)
		if len(tt.patience) == 1 {
			q, ok = MarkovQueue(tt.arrival, 1, tt.patience[0].Rate)
			check("sum", i, q, ok)
		}
	}
}

// TestMeanRateIsNotEnough: taking the mixture for callers who give up at its mean
// rate is the mistake that the integral avoids.
func TestMeanRateIsNotEnough(t *testing.T) {
	q, _ := ImpatientQueue(1.2, 1, mixed)
	wrong, _ := MarkovQueue(1.2, 1, 0.7*0.05+0.3*0.5)
	if wrong.Wait > 0.8*q.Wait {
		t.Errorf("wait with the mean rate is %.3f, with the mixture %.3f; expected a gap", wrong.Wait, q.Wait)
	}
}

// TestQueueExtremes: where the terms overflow, the queue is a million long, or
// nobody ever gives up.
func TestQueueExtremes(t *testing.T) {
	q, ok := MarkovQueue(0.8, 1, 0)
	if !ok || !near(q.Idle, 0.2, 9) || !near(q.Wait, 4, 9) || q.Lost != 0 {
		t.Errorf("M/M/1 at 0.8: %+v", q)
	}
	q, ok = ImpatientQueue(0.8, 1, nil)
	if !ok || !near(q.Idle, 0.2, 8) || !near(q.Wait, 4, 8) || q.Lost > 1e-9 {
		t.Errorf("M/M/1 at 0.8 by the integral: %+v", q)
	}
	for _, rate := range []float64{1e-3, 1e-6, 1e-9, 1e-12} {
		// Far over capacity the queue is as long as it takes for the excess to leave.
		q, ok := MarkovQueue(2, 1, rate)
		if want := 0.5 / rate; !ok || math.Abs(q.Lost-0.5) > 1e-3 || math.Abs(q.Wait/want-1) > 1e-3 {
			t.Errorf("abandon %v: %+v, want half lost after %v s", rate, q, want)
		}
	}
	q, ok = ImpatientQueue(1000, 1, Patience{{0.5, 1e6}, {0.4, 1e-3}, {0.1, 1}})
	if !ok || !(q.Lost > 0.99 && q.Lost < 1) || !(q.Wait > 0) {
		t.Errorf("rates nine powers apart: %+v", q)
	}
	if q, ok := MarkovQueue(0, 1, 1); !ok || q.Idle != 1 || q.Wait != 0 {
		t.Errorf("no arrivals: %+v", q)
	}
	for _, bad := range [][3]float64{{-1, 1, 1}, {1, 0, 1}, {1, 1, -1}, {math.NaN(), 1, 1}, {1, math.NaN(), 1}, {1, 1, math.NaN()}, {math.Inf(1), 1, 1}, {1, 1, 0}, {2, 1, 0}} {
		if q, ok := MarkovQueue(bad[0], bad[1], bad[2]); ok {
			t.Errorf("MarkovQueue%v = %+v, want refused", bad, q)
		}
	}
	if q, ok := ImpatientQueue(2, 1, Patience{{0.6, 0}, {0.4, 1}}); ok {
		t.Errorf("more endless callers than capacity: %+v, want refused", q)
	}
}

// TestQueueProperties: what is served is what the server does; the two ways agree;
// more load means a longer wait, more impatience a shorter one.
func TestQueueProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arrival := rapid.Float64Range(0.01, 4).Draw(t, "arrival")
		service := rapid.Float64Range(0.1, 3).Draw(t, "service")
		abandon := math.Exp(rapid.Float64Range(-9, 5).Draw(t, "log abandon"))
		a, ok := MarkovQueue(arrival, service, abandon)
		b, ok2 := ImpatientQueue(arrival, service, Patience{{0.25, abandon}, {0.75, abandon}})
		if !ok || !ok2 {
			t.Fatalf("refused: %v, %v", ok, ok2)
		}
		same := func(x, y float64) bool { return math.Abs(x-y) <= 1e-7*math.Max(1e-3, math.Abs(x)) }
		if !same(a.Idle, b.Idle) || !same(a.Lost, b.Lost) || !same(a.Wait, b.Wait) {
			t.Fatalf("sum %+v, integral %+v", a, b)
		}
		if served, done := arrival*(1-a.Lost), service*(1-a.Idle); math.Abs(served-done) > 1e-9*service {
			t.Fatalf("arrivals served %v, work done %v", served, done)
		}
		if more, _ := MarkovQueue(arrival*1.1, service, abandon); more.Wait < a.Wait {
			t.Fatalf("wait fell from %v to %v with more arrivals", a.Wait, more.Wait)
		}
		if less, _ := MarkovQueue(arrival, service, abandon*1.1); less.Wait > a.Wait*(1+1e-12) {
			t.Fatalf("wait grew from %v to %v with less patience", a.Wait, less.Wait)
		}
	})
}

func TestKingman(t *testing.T) {
	for _, tt := range []struct{ arrival, service, ca, cs, want float64 }{
		{80, 100, 1, 1, 0.04}, // M/M/1
		{80, 100, 1, 0, 0.02}, // M/D/1: half
		{80, 100, 0, 0, 0},    // a clock feeds a machine
		{80, 100, 1, 4, 0.1},
		{100, 100, 1, 1, math.Inf(1)},
		{math.NaN(), 100, 1, 1, math.Inf(1)},
	} {
		if got := kingmanWait(tt.arrival, tt.service, tt.ca, tt.cs); !(got == tt.want || math.Abs(got-tt.want) < 1e-12) {
			t.Errorf("KingmanWait(%v, %v, %v, %v) = %v, want %v", tt.arrival, tt.service, tt.ca, tt.cs, got, tt.want)
		}
	}
}

func TestPatience(t *testing.T) {
	if got := mixed.Outlasts(2); !near(got, 0.7*math.Exp(-0.1)+0.3*math.Exp(-1), 12) {
		t.Errorf("Outlasts(2) = %v", got)
	}
	if got := mixed.Lost(2); !near(got, 0.7*0.1/1.1+0.3*0.5, 12) {
		t.Errorf("Lost(2) = %v", got)
	}
	if Patience(nil).Outlasts(1e9) != 1 || Patience(nil).Lost(1e9) != 0 {
		t.Error("without branches patience ends, want never")
	}
	for _, bad := range []Patience{{{0.5, 1}}, {{1, -1}}, {{1, math.NaN()}}, {{math.NaN(), 1}}, {{2, 1}, {-1, 1}}, make(Patience, 9)} {
		if bad.Check() == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}
