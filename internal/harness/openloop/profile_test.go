package openloop

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/spillgate/spillgate/internal/seeded"
)

func collect(t testing.TB, a Arrivals) []time.Duration {
	t.Helper()
	var out []time.Duration
	for {
		at, ok := a.Next()
		if !ok {
			if _, again := a.Next(); again {
				t.Fatal("Next returned false and then true")
			}
			return out
		}
		if len(out) > 0 && at < out[len(out)-1] {
			t.Fatalf("arrival %d at %v is before %v", len(out), at, out[len(out)-1])
		}
		out = append(out, at)
	}
}

func mustPoisson(t testing.TB, p Profile, seed uint64) Arrivals {
	t.Helper()
	a, err := Poisson(p, seed)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Gaps of a Poisson process have a coefficient of variation of 1, and counts
// have an index of dispersion of 1.
func TestPoissonStatistics(t *testing.T) {
	const rate, seconds = 1000, 100
	got := collect(t, mustPoisson(t, Steady(rate, seconds*time.Second), 7))
	var sum, squares, last float64
	counts := make([]float64, seconds*10)
	for _, at := range got {
		gap := at.Seconds() - last
		last = at.Seconds()
		sum += gap
		squares += gap * gap
		counts[int(at/(100*time.Millisecond))]++
	}
	n := float64(len(got))
	if want := float64(rate * seconds); math.Abs(n-want) > 4*math.Sqrt(want) {
		t.Errorf("%v arrivals, want %v within 4 standard deviations", n, want)
	}
	mean := sum / n
	if cv := math.Sqrt(squares/n-mean*mean) / mean; math.Abs(cv-1) > 0.02 {
		t.Errorf("CV of gaps %.3f, want 1", cv)
	}
	var m, v float64
	for _, c := range counts {
		m += c / float64(len(counts))
	}
	for _, c := range counts {
		v += (c - m) * (c - m) / float64(len(counts))
	}
	if d := v / m; math.Abs(d-1) > 0.2 { // standard error sqrt(2/1000)
		t.Errorf("index of dispersion %.3f, want 1", d)
	}
}

func TestSeedDecidesAll(t *testing.T) {
	p := Steady(500, time.Second)
	a, b, c := collect(t, mustPoisson(t, p, 1)), collect(t, mustPoisson(t, p, 1)), collect(t, mustPoisson(t, p, 2))
	same := func(x, y []time.Duration) bool {
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if x[i] != y[i] {
				return false
			}
		}
		return true
	}
	if !same(a, b) {
		t.Error("equal seeds gave different arrivals")
	}
	if same(a, c) {
		t.Error("different seeds gave equal arrivals")
	}
}

// Each step of a profile gets its own share of a Poisson process.
func TestPoissonFollowsTheSteps(t *testing.T) {
	p := Profile{{1400, 10 * time.Second}, {5000, 10 * time.Second}, {0, 5 * time.Second}, {1400, 10 * time.Second}}
	got := collect(t, mustPoisson(t, p, 11))
	var begun time.Duration
	for i, s := range p {
		n := 0
		for _, at := range got {
			if at >= begun && at < begun+s.For {
				n++
			}
		}
		want := s.Rate * s.For.Seconds()
		if math.Abs(float64(n)-want) > 4*math.Sqrt(want) {
			t.Errorf("step %d: %d arrivals, want %v within 4 standard deviations", i, n, want)
		}
		begun += s.For
	}
}

// evenly returns evenly spaced arrivals: the k-th request (from 0) leaves where
// the profile has called for k+½ of them.
func evenly(p Profile) Arrivals {
	gap := 0.5
	return &walk{profile: p, gap: func() float64 {
		now := gap
		gap = 1
		return now
	}}
}

// Evenly spaced arrivals integrate the profile: at any instant, the number so
// far is within one of the expected number.
func TestArrivalsIntegrateTheProfile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Profile
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			p = append(p, Step{
				Rate: rapid.SampledFrom([]float64{0, 0.3, 1, 17, 250, 4000}).Draw(t, "rate"),
				For:  time.Duration(rapid.IntRange(1, 2000).Draw(t, "ms")) * time.Millisecond,
			})
		}
		a := evenly(p)
		n := 0
		for {
			at, ok := a.Next()
			if !ok {
				break
			}
			if want := float64(n) + 0.5; math.Abs(expectedBy(p, at)-want) > 1e-3 {
				t.Fatalf("arrival %d at %v, where the profile has called for %v", n, at, expectedBy(p, at))
			}
			n++
		}
		if want := expectedBy(p, p.Duration()); math.Abs(float64(n)-want) > 0.501 {
			t.Fatalf("%d arrivals, the profile calls for %v", n, want)
		}
	})
}

func expectedBy(p Profile, at time.Duration) float64 {
	var n float64
	for _, s := range p {
		d := min(at, s.For)
		n += s.Rate * d.Seconds()
		at -= d
	}
	return n
}

func TestProfileReportsEveryMistake(t *testing.T) {
	bad := Profile{{-1, time.Second}, {math.NaN(), 0}, {math.Inf(1), time.Second}}
	_, err := Poisson(bad, 1)
	for _, want := range []string{"step 0: rate is -1", "step 1: rate is NaN", "step 1: lasts 0s", "step 2: rate is +Inf"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	if _, err := Poisson(nil, 1); err == nil {
		t.Error("a profile without steps was accepted")
	}
}
