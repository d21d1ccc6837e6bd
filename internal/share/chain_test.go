package share

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/spillgate/spillgate/internal/seeded"
)

func TestErlang(t *testing.T) {
	// Four M/M/1 servers in a row, each with 40/s to spare.
	stage := Stage{Arrival: 60, Service: 100}
	c := Chain{stage, stage, stage, stage}
	if got := c.Mean(); !near(got, 0.100, 9) {
		t.Errorf("mean %v, want 0.100", got)
	}
	d, ok := c.Distribution()
	if !ok {
		t.Fatal("refused")
	}
	if got := d.Tail(0.2); !near(got, 0.04238, 5) {
		t.Errorf("P(> 0.2 s) = %.7f, want 0.04238", got)
	}
	if got := d.Quantile(0.99); !near(got, 0.2511, 4) {
		t.Errorf("p99 = %.6f, want 0.2511", got)
	}
	// Nearly equal rates, where partial fractions lose every digit.
	plain, alike := newDistribution(1), newDistribution(1)
	for i := range 4 {
		plain.Exponential(40)
		alike.Exponential(40 * (1 + float64(i)*1e-9))
	}
	if a, b := plain.Tail(0.2), alike.Tail(0.2); !near(a, 0.04238, 5) || math.Abs(a-b) > 1e-8 {
		t.Errorf("equal rates %v, nearly equal %v", a, b)
	}
}

func TestExponentialAndGaussian(t *testing.T) {
	d := newDistribution(0.5)
	d.Exponential(40)
	d.Gaussian(0.005, 0.001)
	if got := d.Tail(0.05); !near(got, 0.165431, 6) {
		t.Errorf("P(> 50 ms) = %.8f, want 0.165431", got)
	}
	// The order does not matter.
	e := newDistribution(0.5)
	e.Gaussian(0.005, 0.001)
	e.Exponential(40)
	for _, x := range []float64{0, 0.001, 0.02, 0.3} {
		if a, b := d.Tail(x), e.Tail(x); math.Abs(a-b) > 1e-9 {
			t.Errorf("P(> %v) = %v one way, %v the other", x, a, b)
		}
	}
}

// TestCutGaussian: no time is negative, and the mean is that of what remains.
func TestCutGaussian(t *testing.T) {
	d := newDistribution(10)
	d.Gaussian(0, 1)
	want := math.Sqrt(2 / math.Pi)
	if got := mean(d); !near(got, want, 4) {
		t.Errorf("mean of the upper half of a normal variable %v, want %v", got, want)
	}
	if got := d.Tail(1); !near(got, 2*normalTail(1), 4) {
		t.Errorf("P(> 1) = %v, want %v", got, 2*normalTail(1))
	}
	s := Stage{Arrival: 1, Service: 2, Transfer: 0, TransferSD: 1}
	if got := s.transfer(); !near(got, want, 9) {
		t.Errorf("transfer %v, want %v", got, want)
	}
	d = newDistribution(1)
	d.Gaussian(-100, 1) // all of it is cut
	if got := mean(d); got != 0 {
		t.Errorf("mean %v, want 0", got)
	}
}

func mean(d *Distribution) float64 {
	sum := 0.0
	for i, m := range d.mass {
		sum += float64(i) * d.step * m
	}
	return sum + d.beyond*d.step*gridPoints
}

// TestChainKinds checks one stage of each kind against what is known of it.
func TestChainKinds(t *testing.T) {
	tests := []struct {
		name  string
		stage Stage
		mean  float64
		x     float64
		tail  float64 // P(> x); NaN: unknown
	}{
		{"M/M/1", Stage{Arrival: 80, Service: 100}, 0.05, 0.1, math.Exp(-2)},
		{"idle, constant service", Stage{Arrival: 0, Service: 100, ServiceCV2: -1}, 0.01, 0.02, 0},
		{"M/D/1", Stage{Arrival: 80, Service: 100, ServiceCV2: -1}, 0.03, 0.005, 1},
		{"idle, Erlang-4 service", Stage{Arrival: 0, Service: 10, ServiceCV2: 0.25}, 0.1, 0.2, 0.04238},
		{"idle, two kinds", Stage{Arrival: 0, Service: 10, ServiceCV2: 4}, 0.1, 0.5, math.NaN()},
		{"patience", Stage{Arrival: 1.2, Service: 1, Patience: mixed}, 3.175187, 0.5, math.NaN()},
		{"transfer", Stage{Arrival: 60, Service: 100, Transfer: 0.005, TransferSD: 0.001}, 0.03, 0.05, 0.165431},
	}
	for _, tt := range tests {
		c := Chain{tt.stage}
		if got := c.Mean(); !near(got, tt.mean, 6) {
			t.Errorf("%s: mean %v, want %v", tt.name, got, tt.mean)
		}
		d, ok := c.Distribution()
		if !ok {
			t.Fatalf("%s: refused", tt.name)
		}
		if got := mean(d); !within(got, tt.mean, 1e-3) {
			t.Errorf("%s: mean of the distribution %v, want %v", tt.name, got, tt.mean)
		}
		if got := d.Tail(tt.x); !math.IsNaN(tt.tail) && !near(got, tt.tail, 4) {
			t.Errorf("%s: P(> %v) = %.6f, want %.6f", tt.name, tt.x, got, tt.tail)
		}
	}
	for _, bad := range []Chain{nil, make(Chain, 65), {{Arrival: 2, Service: 1}}, {{Arrival: math.NaN(), Service: 1}}, {{Arrival: 1, Service: 2, Transfer: -1}}, {{Arrival: 1, Service: 2, ServiceCV2: math.NaN()}}} {
		if got := bad.Mean(); !math.IsInf(got, 1) {
			t.Errorf("%v: mean %v, want +Inf", bad, got)
		}
		if _, ok := bad.Distribution(); ok {
			t.Errorf("%v: has a distribution", bad)
		}
	}
}

// TestDistributionProperties: the tail falls, starts at 1 and turns into the
// quantile; a sum's mean is the sum of the means.
func TestDistributionProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, d := 0.0, newDistribution(100)
		for range rapid.IntRange(1, 5).Draw(t, "times") {
			x := rapid.Float64Range(0.2, 2).Draw(t, "mean")
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				d.Exponential(1 / x)
			case 1:
				d.Constant(x)
			case 2:
				d.Gaussian(x, x/10)
			}
			want += x
		}
		if got := mean(d); !within(got, want, 1e-6) {
			t.Fatalf("mean %v, want %v", got, want)
		}
		q := rapid.Float64Range(0.05, 0.999).Draw(t, "q")
		x := d.Quantile(q)
		if d.Tail(x+2*d.step) > 1-q+1e-9 || d.Tail(x-2*d.step) < 1-q-1e-9 {
			t.Fatalf("quantile %v is %v, where the tail is %v", q, x, d.Tail(x))
		}
		if a, b := d.Tail(x), d.Tail(x+0.01); b > a+1e-12 || a > 1+1e-9 {
			t.Fatalf("tail rises from %v to %v", a, b)
		}
	})
}
