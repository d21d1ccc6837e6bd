package vegas

import (
	"math"
	"strings"
	"testing"
	"time"
)

// Each row is one sample after the shortest time is known to be 10 ms; l is 1 at
// a limit of 20 and 2 at 100.
func TestOracle(t *testing.T) {
	for _, c := range []struct {
		what     string
		limit    int
		rtt      time.Duration
		inflight int
		dropped  bool
		want     int
	}{
		{"no queue: + 6·l", 20, 10 * time.Millisecond, 20, false, 26},
		{"no queue: + 6·l, l = 2", 100, 10 * time.Millisecond, 100, false, 112},
		{"queue 2 of 20: + l", 20, 11 * time.Millisecond, 20, false, 21},
		{"queue 4 of 20: stay", 20, 12500 * time.Microsecond, 20, false, 20},
		{"queue 10 of 20: − l", 20, 20 * time.Millisecond, 20, false, 19},
		{"queue 50 of 100: − l, l = 2", 100, 20 * time.Millisecond, 100, false, 98},
		{"dropped: − l", 20, 10 * time.Millisecond, 1, true, 19},
		{"under half used: stay", 20, 10 * time.Millisecond, 9, false, 20},
		{"at the most", 1000, 10 * time.Millisecond, 1000, false, 1000},
		{"at the least", 1, time.Second, 1, true, 1},
	} {
		a, err := NewAlgorithm(Config{InitialLimit: c.limit, Probe: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		a.Sample(10*time.Millisecond, c.inflight, false) // the shortest
		a.Sample(c.rtt, c.inflight, c.dropped)
		if a.Limit() != c.want {
			t.Errorf("%s: limit %d, want %d", c.what, a.Limit(), c.want)
		}
	}
}

// The known defect: forgotten under load, the shortest time becomes the loaded
// one, and the limit grows although nothing got faster.
func TestProbeUnderLoadTakesTheQueueForService(t *testing.T) {
	a, _ := NewAlgorithm(Config{Seed: 1})
	a.Sample(time.Millisecond, 20, false)
	for range 10 {
		a.Sample(10*time.Millisecond, 20, false)
	}
	low := a.Limit()
	for range 30 * 20 {
		a.Sample(10*time.Millisecond, 20, false)
	}
	if a.Limit() <= low {
		t.Errorf("limit %d, want it grown from %d after the probe", a.Limit(), low)
	}
}

func TestSameSeedSameLimits(t *testing.T) {
	run := func(seed uint64) (limits []int) {
		a, _ := NewAlgorithm(Config{Seed: seed})
		for i := range 3000 {
			a.Sample(time.Duration(1+i%7)*time.Millisecond, 1000, false)
			limits = append(limits, a.Limit())
		}
		return limits
	}
	one, again, other := run(1), run(1), run(2)
	differs := false
	for i := range one {
		if one[i] != again[i] {
			t.Fatalf("sample %d: limits %d and %d from the same seed", i, one[i], again[i])
		}
		differs = differs || one[i] != other[i]
	}
	if !differs {
		t.Error("the seed changes nothing")
	}
}

func TestConfigNamesEveryMistake(t *testing.T) {
	_, err := New(Config{Probe: -3, Smoothing: math.NaN(), Window: -1})
	for _, want := range []string{"-3", "Smoothing is NaN", "Window is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

// What VegasLimit.Builder and WindowedLimit.Builder say when nobody sets anything, and
// Log10RootFunction at the edges of its steps.
func TestDefaultsAreItsAuthors(t *testing.T) {
	a, err := NewAlgorithm(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := a.cfg, (Config{InitialLimit: 20, MaxLimit: 1000, Smoothing: 1, Probe: 30}); got != want {
		t.Errorf("defaults %+v, want %+v", got, want)
	}
	if a.Limit() != 20 || Window != time.Second {
		t.Errorf("first limit %d and window %v, want 20 and 1 s", a.Limit(), Window)
	}
	for limit, want := range map[float64]float64{1: 1, 9: 1, 99.9: 1, 100: 2, 999: 2, 1000: 3} {
		if got := log10(limit); got != want {
			t.Errorf("the root of %v is %v, want %v", limit, got, want)
		}
	}
}
