package rates

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestQuantile(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{[]float64{100, 75}, 0, 75},
		{[]float64{100, 75}, 0.25, 81.25},
		{[]float64{100, 75}, 0.5, 87.5},
		{[]float64{100, 75}, 0.75, 93.75},
		{[]float64{100, 75}, 1, 100},
		// R: quantile(c(1, 2, 4, 8, 16), .3, type = 7)
		{[]float64{16, 1, 8, 2, 4}, 0.3, 2.4},
		{[]float64{16, 1, 8, 2, 4}, 0.9, 12.8},
		{[]float64{3}, 0.7, 3},
		{[]float64{1, 2}, -4, 1},
		{[]float64{1, 2}, 7, 2},
		{[]float64{1, 2}, math.NaN(), 1},
	} {
		if got := Quantile(slices.Clone(tt.values), tt.q); !near(got, tt.want) {
			t.Errorf("Quantile(%v, %v) = %v, want %v", tt.values, tt.q, got, tt.want)
		}
	}
	if got := Quantile(nil, 0.5); got == got {
		t.Errorf("of nothing: %v, want not a number", got)
	}
}

func TestQuantileIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 20).Draw(t, "values")
		p, q := rapid.Float64Range(0, 1).Draw(t, "p"), rapid.Float64Range(0, 1).Draw(t, "q")
		if p > q {
			p, q = q, p
		}
		if lo, hi := Quantile(values, p), Quantile(values, q); lo > hi+1e-9 {
			t.Fatalf("the %v-quantile is %v, the %v-quantile %v", p, lo, q, hi)
		}
	})
}

func TestBestQuantile(t *testing.T) {
	for _, tt := range []struct{ cost, want float64 }{
		{1.0 / 3, 0.25}, {1, 0.5}, {3, 0.75}, {0, 0}, {-1, 0}, {math.NaN(), 0}, {math.Inf(1), 1},
	} {
		if got := bestQuantile(tt.cost); !near(got, tt.want) {
			t.Errorf("BestQuantile(%v) = %v, want %v", tt.cost, got, tt.want)
		}
	}
}

// newsvendor is the cost of a rate at processes that can take so much each:
// what is refused, and idleCost times what is left unused.
func newsvendor(rate, idleCost float64, rates []float64) float64 {
	cost := 0.0
	for _, r := range rates {
		cost += math.Max(rate-r, 0) + idleCost*math.Max(r-rate, 0)
	}
	return cost
}

// TestBestQuantileIsBest: no other quantile of 101 rates costs less.
func TestBestQuantileIsBest(t *testing.T) {
	rates := make([]float64, 101)
	for i := range rates {
		rates[i] = 50 + 10*math.Sqrt(float64(i))
	}
	for _, idleCost := range []float64{1.0 / 3, 1, 3} {
		best := newsvendor(Quantile(rates, bestQuantile(idleCost)), idleCost, rates)
		for q := 0.0; q <= 1; q += 0.01 {
			if c := newsvendor(Quantile(rates, q), idleCost, rates); c < best-1e-9 {
				t.Errorf("idleCost %v: quantile %.2f costs %v, the best %v", idleCost, q, c, best)
			}
		}
	}
}

// TestSearchFindsTheBestQuantile starts the search far off and shows it nothing
// but the cost of the quantile it asks for.
func TestSearchFindsTheBestQuantile(t *testing.T) {
	rates := make([]float64, 41)
	for i := range rates {
		rates[i] = 50 + 2.5*float64(i)
	}
	for _, idleCost := range []float64{1.0 / 3, 1, 3} {
		for _, start := range []float64{0, 0.5, 1} {
			var s search
			q := start
			for range 60 * searchWindow {
				q = s.add(newsvendor(Quantile(rates, q), idleCost, rates), q)
			}
			if want := bestQuantile(idleCost); math.Abs(q-want) > 2*minStep {
				t.Errorf("idleCost %v from %v: at %.3f after 60 windows, want about %.2f", idleCost, start, q, want)
			}
		}
	}
}

// Quantile is the oracle of quantiles. It returns the q-quantile of values, which it sorts: by linear
// interpolation between the order statistics around 1 + (n−1)q, type 7 of
// Hyndman and Fan, The American Statistician 50(4), 1996. q is moved into 0 to
// 1; of no values it is not a number.
func Quantile(values []float64, q float64) float64 {
	slices.Sort(values)
	lo, part := rank(len(values), q)
	switch {
	case lo < 0:
		return math.NaN()
	case part == 0:
		return values[lo]
	}
	return values[lo] + part*(values[lo+1]-values[lo])
}
