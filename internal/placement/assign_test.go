package placement

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestQuotas(t *testing.T) {
	rooms := func(loads ...float64) (all []Broker) {
		for _, l := range loads {
			all = append(all, Broker{Capacity: 100, Load: l})
		}
		return all
	}
	for _, tt := range []struct {
		name    string
		brokers []Broker
		rate    float64
		least   int
		want    []float64
		rest    float64
	}{
		{"the one with most room", rooms(10, 40, 5, 50), 80, 0, []float64{0, 0, 80, 0}, 0},
		{"two share evenly", rooms(10, 40, 5, 50), 100, 0, []float64{50, 0, 50, 0}, 0},
		{"a small one takes what it can, the others an equal part", rooms(0, 0, 90), 205, 0, []float64{97.5, 97.5, 10}, 0},
		{"too much", rooms(50, 60), 100, 0, []float64{50, 40}, 10},
		{"nothing to give", rooms(0, 0), 0, 0, []float64{0, 0}, 0},
		{"more brokers than the rate needs", rooms(10, 40, 5, 50), 60, 3, []float64{20, 20, 20, 0}, 0},
		{"full ones are left out", []Broker{{Capacity: 100, Load: 0, Full: true}, {Capacity: 100, Load: 50}}, 60, 0, []float64{0, 50}, 10},
		{"nobody", nil, 5, 2, []float64{}, 5},
	} {
		got, rest := Quotas(tt.brokers, tt.rate, tt.least)
		if !slices.EqualFunc(got, tt.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) || math.Abs(rest-tt.rest) > 1e-9 {
			t.Errorf("%s: %v and %v left, expected %v and %v", tt.name, got, rest, tt.want, tt.rest)
		}
	}
}

// No other division has a larger smallest share, and no room is exceeded.
func TestQuotasAreMaxMin(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2_000 {
		brokers := make([]Broker, 1+rng.IntN(8))
		for i := range brokers {
			brokers[i] = Broker{Capacity: 100, Load: 120 * rng.Float64(), Full: rng.IntN(10) == 0}
		}
		rate := 400 * rng.Float64()
		quotas, rest := Quotas(brokers, rate, 0)
		sum, least, fullest := rest, math.Inf(1), 0.0
		for i, q := range quotas {
			if q < 0 || q > brokers[i].Residual()+1e-9 {
				t.Fatalf("%v of %v", q, brokers[i].Residual())
			}
			if sum += q; q == 0 {
				continue
			}
			if q < brokers[i].Residual()-1e-9 { // could have more: then nobody has more than it
				least = min(least, q)
			}
			fullest = max(fullest, q)
		}
		if math.Abs(sum-rate) > 1e-9*rate {
			t.Fatalf("%v given of %v", sum, rate)
		}
		if fullest > least+1e-9 {
			t.Fatalf("one has %v, another with room %v", fullest, least)
		}
	}
}

// Each broker gets its quota, and its part of each group, up to a publisher.
func TestAssign(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 500 {
		publishers := make([]Publisher, 1+rng.IntN(400))
		groups := 1 + rng.IntN(20)
		size := make([]int, groups+1)
		for i := range publishers {
			g := rng.IntN(groups + 1)
			publishers[i] = Publisher{10, uint32(g)}
			size[g]++
		}
		quotas := make([]float64, 1+rng.IntN(6))
		sum := 0.0
		for i := range quotas {
			quotas[i] = rng.Float64()
			sum += quotas[i]
		}
		total := 10 * float64(len(publishers))
		fits := 0.5 + rng.Float64()
		for i := range quotas {
			quotas[i] *= total * fits / sum
		}
		at := Assign(publishers, quotas)
		given := make([]float64, len(quotas))
		parts := make([][]int, len(quotas))
		for b := range parts {
			parts[b] = make([]int, groups+1)
		}
		for i, b := range at {
			if b == Nowhere {
				if fits > 1.0001 {
					t.Fatalf("publisher %d has no place although there is room", i)
				}
				continue
			}
			given[b] += publishers[i].Rate
			parts[b][publishers[i].Group]++
		}
		for b := range quotas {
			share := quotas[b] / max(total, total*fits)
			if math.Abs(given[b]-share*total) > 2*10 {
				t.Fatalf("broker %d has %v/s of a quota of %v", b, given[b], share*total)
			}
			for g, n := range size {
				if want := share * float64(n); math.Abs(float64(parts[b][g])-want) > 2 {
					t.Fatalf("broker %d has %d of the %d in group %d, expected %v", b, parts[b][g], n, g, want)
				}
			}
		}
	}
	if got := Assign([]Publisher{{1, 0}}, nil); got[0] != Nowhere {
		t.Error("without brokers there is no place")
	}
}
