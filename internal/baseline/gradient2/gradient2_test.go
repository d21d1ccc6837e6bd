package gradient2

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestOracle(t *testing.T) {
	a, err := NewAlgorithm(Config{})
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	// Worked by hand: short = long, so gradient 1 and limit + 0.2 × 4 a sample.
	for range 5 {
		a.Sample(10*ms, 20, false)
	}
	if math.Abs(a.limit-24) > 1e-9 {
		t.Fatalf("limit %v after five samples at the long average, want 24", a.limit)
	}
	// Sixth sample twice as slow: long = 70/6, gradient 70/120.
	a.Sample(20*ms, 24, false)
	want := 24*0.8 + (24*70.0/120+4)*0.2
	if math.Abs(a.limit-want) > 1e-9 {
		t.Errorf("limit %v, want %v", a.limit, want)
	}
	// Ten times slower still: the gradient is never under a half.
	before := a.limit
	a.Sample(time.Second, 24, false)
	if want := before*0.8 + (before/2+4)*0.2; math.Abs(a.limit-math.Max(want, 20)) > 1e-9 {
		t.Errorf("limit %v, want %v or the least, 20", a.limit, want)
	}
	// Fewer than half in use: the limit stays.
	before = a.limit
	a.Sample(ms, 2, false)
	if a.limit != before {
		t.Errorf("limit moved to %v from %v while hardly used", a.limit, before)
	}
}

func TestLongAverageComesDownFast(t *testing.T) {
	a, _ := NewAlgorithm(Config{})
	for range warmupSamples {
		a.Sample(100*time.Millisecond, 1, false)
	}
	for range 12 {
		a.Sample(time.Millisecond, 1, false)
	}
	// By smoothing alone it would still be 96 ms; by tenths it is under a third.
	if got := time.Duration(a.long); got > 33*time.Millisecond {
		t.Errorf("long average %v, want under 33 ms", got)
	}
}

func TestLimitStaysInBounds(t *testing.T) {
	a, _ := NewAlgorithm(Config{MaxLimit: 50})
	for range 1000 {
		a.Sample(time.Millisecond, 1000, false)
	}
	if a.Limit() != 50 {
		t.Errorf("limit %d, want the most, 50", a.Limit())
	}
	for i := range 100 {
		a.Sample(time.Duration(i*i+1)*time.Millisecond, 1000, false)
	}
	if a.Limit() < 20 {
		t.Errorf("limit %d, want at least 20", a.Limit())
	}
}

func TestConfigNamesEveryMistake(t *testing.T) {
	_, err := New(Config{MinLimit: 30, MaxLimit: 10, Smoothing: math.NaN(), Window: -1})
	for _, want := range []string{"MinLimit is 30", "Smoothing is NaN", "Window is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

// What Gradient2Limit.Builder and WindowedLimit.Builder say when nobody sets anything.
func TestDefaultsAreItsAuthors(t *testing.T) {
	a, err := NewAlgorithm(Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := Config{InitialLimit: 20, MinLimit: 20, MaxLimit: 200, Queue: 4, Smoothing: 0.2, LongWindow: 600}
	if a.cfg != want {
		t.Errorf("defaults %+v, want %+v", a.cfg, want)
	}
	if warmupSamples != 10 || Window != time.Second {
		t.Errorf("%d samples of warm-up and a window of %v, want 10 and 1 s", warmupSamples, Window)
	}
}
