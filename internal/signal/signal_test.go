package signal

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	_ "github.com/spillgate/spillgate/internal/seeded"
)

func TestAverageOracle(t *testing.T) {
	a := NewAverage(0.2) // 0.8 of the past, 0.2 of the sample: DAGOR's delay
	if _, ok := a.Value(); ok {
		t.Error("a mean before the first sample")
	}
	for i, c := range []struct{ x, want float64 }{
		{10, 10}, {20, 12}, {math.NaN(), 12}, {2, 10}, {10, 10},
	} {
		if got := a.Add(c.x); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("sample %d: %v, want %v", i, got, c.want)
		}
	}
	last := NewAverage(7) // out of range: no memory
	last.Add(1)
	if got := last.Add(5); got != 5 {
		t.Errorf("weight above 1: %v, want the last sample", got)
	}
}

// A Least is at least the smallest sample of the whole window and at most that of
// seven eighths of it.
func TestLeastAgainstAllSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = 800
		least := NewLeast(window)
		type sample struct {
			at mono.Time
			x  float64
		}
		var all []sample
		now := mono.Time(rapid.Int64Range(-5000, 5000).Draw(t, "start"))
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			now += mono.Time(rapid.Int64Range(0, 400).Draw(t, "dt"))
			x := rapid.Float64Range(-100, 100).Draw(t, "x")
			least.Add(now, x)
			all = append(all, sample{now, x})
			later := now + mono.Time(rapid.Int64Range(0, 1000).Draw(t, "look"))
			ahead := least // a copy: looking ahead forgets
			got, ok := ahead.At(later)
			inner, outer := []float64{}, []float64{}
			for _, s := range all {
				age := later - s.at
				if age < window*7/8 {
					inner = append(inner, s.x)
				}
				if age < window {
					outer = append(outer, s.x)
				}
			}
			if len(inner) > 0 && !ok || len(outer) == 0 && ok {
				t.Fatalf("samples in the window: inner %d, outer %d; found %v", len(inner), len(outer), ok)
			}
			if len(inner) > 0 && got > slices.Min(inner) {
				t.Fatalf("%v misses recent %v", got, inner)
			}
			if ok && got < slices.Min(outer) {
				t.Fatalf("%v remembers more than %v", got, outer)
			}
		}
	})
}

func TestSketchKeepsItsError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Int64Range(0, math.MaxInt64), 1, 200).Draw(t, "samples")
		var s Sketch
		for _, d := range samples {
			s.Add(time.Duration(d))
		}
		slices.Sort(samples)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		rank := min(max(int(math.Ceil(q*float64(len(samples)))), 1), len(samples))
		exact, got := float64(samples[rank-1]), float64(s.Quantile(q))
		if math.Abs(got-exact) > exact*relativeError*(1+1e-12) {
			t.Fatalf("quantile %v is %v, want %v ± %v of it", q, got, exact, relativeError)
		}
	})
}

func TestSketchEdges(t *testing.T) {
	var s Sketch
	if got := s.Quantile(0.5); got != 0 {
		t.Errorf("empty: %v", got)
	}
	s.Add(-5)
	s.Add(math.MaxInt64)
	if got := s.Quantile(0); got != 0 {
		t.Errorf("least: %v, want 0", got)
	}
	if got := s.Quantile(2); float64(got) < math.MaxInt64*(1-relativeError) {
		t.Errorf("most: %v, want about the longest duration", got)
	}
	if got := bucketOf(math.MaxInt64); got >= buckets {
		t.Errorf("the longest duration falls into bucket %d of %d", got, buckets)
	}
	s.Reset()
	if s.Count() != 0 || s.Quantile(1) != 0 {
		t.Error("reset left samples")
	}
}

func TestMeter(t *testing.T) {
	m := NewMeter(time.Second, 3)
	if m.Due(5) || m.Wake() != 5+mono.Time(time.Second) {
		t.Error("the first interval did not start with the first look")
	}
	m.Add(5, 10)
	m.Add(6, 40)
	if m.Due(7) {
		t.Error("due after two of three samples")
	}
	m.Add(7, 40)
	if !m.Due(7) {
		t.Error("not due with the third sample")
	}
	got := m.End(10)
	if want := (Summary{Count: 3, Least: 10, Mean: 30, Most: 40, Length: 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if m.Due(10+mono.Time(time.Second)-1) || !m.Due(10+mono.Time(time.Second)) {
		t.Error("the second interval does not end a second after it began")
	}
	if got := m.End(10 + mono.Time(time.Second)); got != (Summary{Length: time.Second}) {
		t.Errorf("empty interval: %+v", got)
	}
}

func TestUpdatesDoNotAllocate(t *testing.T) {
	a, l, m := NewAverage(0.1), NewLeast(time.Second), NewMeter(time.Second, 10)
	var s Sketch
	now := mono.Time(0)
	if n := testing.AllocsPerRun(100, func() {
		now += 1e7
		a.Add(1)
		l.Add(now, 1)
		l.At(now)
		s.Add(123456)
		m.Add(now, 7)
		if m.Due(now) {
			m.End(now)
		}
	}); n != 0 {
		t.Errorf("%v allocations a round, want 0", n)
	}
}

func BenchmarkAverage(b *testing.B) {
	a := NewAverage(0.1)
	for b.Loop() {
		a.Add(3)
	}
}

func BenchmarkLeast(b *testing.B) {
	l := NewLeast(time.Second)
	now := mono.Time(0)
	for b.Loop() {
		now += 1000
		l.Add(now, 3)
	}
}

func BenchmarkSketchAdd(b *testing.B) {
	var s Sketch
	d := time.Duration(1)
	for b.Loop() {
		d = d*3%1_000_003 + 1
		s.Add(d)
	}
}

func BenchmarkSketchQuantile(b *testing.B) {
	var s Sketch
	for d := range time.Duration(100_000) {
		s.Add(d * 17)
	}
	for b.Loop() {
		s.Quantile(0.99)
	}
}
