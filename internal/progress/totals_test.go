package progress

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newTotals(t testing.TB, cfg TotalsConfig) *Totals {
	t.Helper()
	totals, err := NewTotals(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return totals
}

func TestTotalsIsAMeanOfWeightATenth(t *testing.T) {
	totals := newTotals(t, TotalsConfig{})
	if _, _, ok := totals.Expect("w"); ok {
		t.Error("something is expected of a workflow that never completed")
	}
	totals.OnDone(0, "w", 100*ms, 200*ms)
	totals.OnDone(0, "w", 200*ms, 100*ms) // its work is raised to its service
	totals.OnDone(0, "other", 7*ms, 7*ms)
	if s, w, ok := totals.Expect("w"); !ok || s != 110*ms || w != 200*ms {
		t.Errorf("after 100 and 200 ms: %v, %v, %v, want 110ms, 200ms", s, w, ok)
	}
	for range 100 {
		totals.OnDone(0, "w", 50*ms, 60*ms)
	}
	if s, w, _ := totals.Expect("w"); s.Round(ms) != 50*ms || w.Round(ms) != 60*ms {
		t.Errorf("after 100 of 50 and 60 ms: %v and %v", s, w)
	}
}

// A flood of names does not push out what is known, and gets a place only when
// one was silent.
func TestTotalsKeepsItsPlaces(t *testing.T) {
	totals := newTotals(t, TotalsConfig{Workflows: 2, Keep: time.Second})
	totals.OnDone(at(0), "a", ms, ms)
	totals.OnDone(at(100*ms), "b", 2*ms, 2*ms)
	totals.OnDone(at(500*ms), "a", ms, ms) // b is now the one silent longest
	for i := range 1000 {
		totals.OnDone(at(1099*ms), fmt.Sprint("flood", i), ms, ms)
	}
	if totals.Len() != 2 {
		t.Errorf("%d places, want 2", totals.Len())
	}
	totals.OnDone(at(1100*ms), "c", 3*ms, 3*ms)
	for name, want := range map[string]time.Duration{"a": ms, "b": 0, "c": 3 * ms} {
		if s, _, ok := totals.Expect(name); s != want || ok != (want != 0) {
			t.Errorf("%s: %v, %v, want %v", name, s, ok, want)
		}
	}
}

func TestTotalsAgainstALineOfNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const places = 3
		totals, err := NewTotals(TotalsConfig{Workflows: places, Keep: 10, Weight: 1})
		if err != nil {
			t.Fatal(err)
		}
		type entry struct {
			name  string
			heard int64
			last  time.Duration
		}
		var line []entry // plain: the one silent longest first
		now := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now += rapid.Int64Range(0, 8).Draw(t, "step")
			name := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e"}).Draw(t, "name")
			d := time.Duration(rapid.Int64Range(-5, 1000).Draw(t, "service"))
			totals.OnDone(at(time.Duration(now)), name, d, math.MinInt64)
			found := false
			for i, e := range line {
				if e.name == name {
					line, found = append(line[:i:i], line[i+1:]...), true
					break
				}
			}
			if !found && len(line) == places && now-line[0].heard >= 10 {
				line = line[1:]
			}
			if len(line) < places {
				line = append(line, entry{name, now, max(d, 0)})
			}
		}
		if totals.Len() != len(line) {
			t.Fatalf("%d places, want %d", totals.Len(), len(line))
		}
		for _, e := range line {
			if s, w, ok := totals.Expect(e.name); !ok || s != e.last || w != e.last {
				t.Fatalf("%q: %v, %v, %v, want %v", e.name, s, w, ok, e.last)
			}
		}
	})
}

func TestTotalsSurvivesTheLongest(t *testing.T) {
	totals := newTotals(t, TotalsConfig{})
	for range 10 {
		totals.OnDone(0, "w", math.MaxInt64, math.MaxInt64)
	}
	if s, w, ok := totals.Expect("w"); !ok || s < 100*365*24*time.Hour || w < s {
		t.Errorf("%v, %v, %v", s, w, ok)
	}
	totals.OnDone(0, "v", math.MinInt64, math.MinInt64)
	if s, w, ok := totals.Expect("v"); !ok || s != 0 || w != 0 {
		t.Errorf("%v, %v, %v, want zeros", s, w, ok)
	}
}

func TestTotalsConfig(t *testing.T) {
	_, err := NewTotals(TotalsConfig{Weight: math.NaN(), Workflows: -1, Keep: -1})
	for _, part := range []string{"Weight is NaN", "Workflows is -1", "Keep is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

func TestTotalsDoesNotAllocateForAKnownWorkflow(t *testing.T) {
	totals := newTotals(t, TotalsConfig{})
	totals.OnDone(0, "w", ms, ms)
	if n := testing.AllocsPerRun(100, func() {
		totals.OnDone(0, "w", ms, ms)
		totals.Expect("w")
		totals.Expect("unknown")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRemaining(t *testing.T) {
	for _, tt := range []struct{ total, elapsed, want time.Duration }{
		{10, 3, 7}, {10, 10, 0}, {10, 11, 0}, {0, 5, 0}, {10, -5, 10}, {-1, math.MinInt64, 0},
		{math.MaxInt64, math.MinInt64, math.MaxInt64},
	} {
		if got := Remaining(tt.total, tt.elapsed); got != tt.want {
			t.Errorf("Remaining(%d, %d) = %d, want %d", tt.total, tt.elapsed, got, tt.want)
		}
	}
}
