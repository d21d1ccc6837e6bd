package placement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*math.Abs(want) {
		t.Errorf("%s is %v, expected %v within %v", what, got, want, within)
	}
}

// The table of srtm: 10,000 messages a second, r = 1.1 times as much, b = 26, even split.
func TestEvenSplit(t *testing.T) {
	for _, tt := range []struct {
		k             int
		delayed, mean float64 // exact, µs
		p99           float64 // ms
	}{
		{1, .0086, 4.2, 0}, {2, .0988, 96, 2.22}, {3, .223, 324, 4.51}, {4, .335, 648, 6.80}, {5, .427, 1034, 9.10}, {6, .503, 1460, 11.4},
	} {
		d := Bucket{11_000, 26}.Split(1 / float64(tt.k)).Delays(10_000 / float64(tt.k))
		name := fmt.Sprintf("k = %d: ", tt.k)
		near(t, name+"delayed", d.Delayed, tt.delayed, .006)
		near(t, name+"mean", d.Mean*1e6, tt.mean, .02)
		near(t, name+"p99", d.P99*1e3, tt.p99, .006)
	}
	for k, want := range []float64{0, .33, .76, 1.13, 1.52, 1.88} {
		k := float64(k + 1)
		near(t, fmt.Sprintf("60,000/s, k = %v: p99", k), Bucket{66_000, 26}.Split(1/k).Delays(60_000/k).P99*1e3, want, .15)
	}
}

func TestSmallestBurst(t *testing.T) {
	for load, want := range map[float64]float64{1 / 1.1: 26, .95: 46, .99: 231} {
		if got := SmallestBurst(load, P99); got != want {
			t.Errorf("load %v: %v, expected %v", load, got, want)
		}
		c, eta := Queue{load}.Decay()
		near(t, "formula", math.Ceil(1+math.Log(100*c)/eta), want, 0)
	}
}

// The three forms of the tail agree where they meet.
func TestTailForms(t *testing.T) {
	for _, load := range []float64{.05, .2, .5, .8, .89} {
		q := Queue{load}
		c, eta := q.Decay()
		near(t, fmt.Sprintf("asymptote at %v", load), c*math.Exp(-eta*steadyFrom), q.above(steadyFrom), 1e-6)
		near(t, fmt.Sprintf("P(U>0) at %v", load), q.Tail(0), load, 1e-6)
		near(t, fmt.Sprintf("E[U] at %v", load), q.Above(0), load/(2*(1-load)), 1e-5)
	}
	for _, load := range []float64{.9, .95} {
		for _, x := range []float64{0, .5, 1, 2.25, 4.999} {
			near(t, fmt.Sprintf("P(U>%v) at %v", x, load), Queue{load}.below(x), 1-Queue{load}.above(x), 1e-6)
		}
		c, eta := Queue{load}.Decay()
		near(t, fmt.Sprintf("asymptote at %v", load), c*math.Exp(-eta*heavyFrom), Queue{load}.above(heavyFrom), 1e-6)
		near(t, fmt.Sprintf("E[U] at %v", load), Queue{load}.Above(0), load/(2*(1-load)), 1e-5)
	}
}

// Mean and tail are within 1 % of a simulation for every load and burst that the simulation can tell them for. What is played is the
// walk whose highest point is the backlog that an arrival finds: a message adds 1, the time until the next takes its length. Backlogs
// that are rarer than a simulation sees are had by shorter times, under which the walk always gets there, and weights for those
// (importance sampling with the η of Decay, which comes from one equation; C, the sums and the integral do not).
func TestQueueSimulated(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, load := range []float64{.1, .5, .8, 1 / 1.1, .95} {
		q := Queue{load}
		_, eta := q.Decay()
		for _, b := range []float64{1, 1.5, 2, 4, 8.67, 26, 100, 1000, 10_000} {
			x := b - 1
			if eta*x > 300 { // the squares of the weights are 0 from 350 on
				if tail := q.Tail(x); tail > 1e-130 {
					t.Errorf("P(U>%v) at %v is %v", x, load, tail)
				}
				continue
			}
			tail := simulated(func() float64 { return math.Exp(-eta * reached(rng, load, eta, x)) })
			near(t, fmt.Sprintf("P(U>%v) at %v", x, load), q.Tail(x), tail, .01)
			// The integral of the tail from x on, at a place by chance.
			above := simulated(func() float64 {
				far := rng.ExpFloat64() / eta
				return math.Exp(eta*(far-reached(rng, load, eta, x+far))) / eta
			})
			near(t, fmt.Sprintf("E[(U-%v)+] at %v", x, load), q.Above(x), above, .01)
		}
	}
}

// reached returns the first point above x of the walk whose times are shorter by eta.
func reached(rng *rand.Rand, load, eta, x float64) float64 {
	at := 0.0
	for at <= x {
		at += 1 - rng.ExpFloat64()/(load+eta)
	}
	return at
}

// simulated returns the mean of what is drawn, with a standard deviation of a fourth of a percent.
func simulated(draw func() float64) float64 {
	sum, square := 0.0, 0.0
	for n := 1.0; ; n++ {
		v := draw()
		sum, square = sum+v, square+v*v
		if mean := sum / n; n >= 500 && (square/n-mean*mean)/n < .0025*.0025*mean*mean {
			return mean
		}
	}
}

// delays plays arrivals through a bucket: d = max(0, U + 1 − b)/r.
func delays(arrivals []float64, b Bucket) []float64 {
	out := make([]float64, len(arrivals))
	backlog, last := 0.0, 0.0
	for i, at := range arrivals {
		backlog = max(0, backlog-b.Rate*(at-last))
		last = at
		out[i] = max(0, backlog+1-b.Burst) / b.Rate
		backlog++
	}
	return out
}

// Proposition 1: whatever the split and the arrivals, the running sum of delays behind the
// parts is never below that behind the whole.
func TestSplittingNeverHelps(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		k, n := 2+rng.IntN(5), 1+rng.IntN(60)
		whole := Bucket{math.Exp(4 * rng.NormFloat64()), 1 + 20*rng.Float64()}
		shares, sum := make([]float64, k), 0.0
		for i := range shares {
			shares[i] = rng.ExpFloat64() + 1e-3
			sum += shares[i]
		}
		arrivals, parts, part := make([]float64, n), make([][]float64, k), make([]int, n)
		at := 0.0
		for i := range arrivals {
			if rng.IntN(3) > 0 {
				at += rng.ExpFloat64() / whole.Rate
			}
			arrivals[i], part[i] = at, rng.IntN(k)
			parts[part[i]] = append(parts[part[i]], at)
		}
		all := delays(arrivals, whole)
		split := make([][]float64, k)
		for i := range split {
			split[i] = delays(parts[i], whole.Split(shares[i]/sum))
		}
		one, many := 0.0, 0.0
		for i, p := range part {
			one, many = one+all[i], many+split[p][0]
			split[p] = split[p][1:]
			if many < one-1e-9*(1+one) {
				t.Fatalf("message %d of %d: %v behind %d parts, %v behind one", i, n, many, k, one)
			}
		}
	}
}

// Need is the burst at which the trace meets its objective, and no smaller one does.
func TestNeed(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		arrivals, at := make([]float64, 200+rng.IntN(2_000)), 0.0
		for i := range arrivals {
			if rng.IntN(10) == 0 {
				at += rng.ExpFloat64()
			}
			arrivals[i] = at
		}
		rate := 1.2 * float64(len(arrivals)) / (at + 1)
		delay := rng.Float64() * 10 / rate
		need := Need(arrivals, rate, P99, delay)
		later := func(b float64) int {
			d := delays(arrivals, Bucket{rate, b})
			return len(d) - len(slices.DeleteFunc(d, func(d float64) bool { return d > delay+1e-9 }))
		}
		allowed := int(P99 * float64(len(arrivals)))
		if later(need) > allowed {
			t.Fatalf("burst %v: %d of %d wait longer than %v", need, later(need), len(arrivals), delay)
		}
		if need > 1 && later(need-.01) <= allowed {
			t.Fatalf("burst %v is enough too", need-.01)
		}
	}
	if Need(nil, 1, P99, 0) != 0 {
		t.Error("nothing needs nothing")
	}
}

func TestDelaysAtTheEdges(t *testing.T) {
	b := Bucket{100, 10}
	if d := b.Delays(0); d != (Delays{}) {
		t.Errorf("nothing arrives: %+v", d)
	}
	if d := b.Delays(100); !math.IsInf(d.Mean, 1) || !math.IsInf(d.P99, 1) {
		t.Errorf("as much as the bucket: %+v", d)
	}
	whole, part := Bucket{100, 1}.Delays(50), Bucket{100, .5}.Delays(50)
	near(t, "half a token short", part.Mean, whole.Mean+.5/100, 1e-9)
	if part.Delayed != 1 {
		t.Error("a burst below one delays all")
	}
}
