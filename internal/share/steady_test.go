package share

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestSteady: a rate seen through Poisson counts. In the long run the mean wavers
// by a few per cent, where a mean over three periods would by six; after a step it
// is there within a few periods, and stays.
func TestSteady(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	poisson := func(rate float64) float64 {
		n := -1
		for at := 0.0; at < 1; at += rng.ExpFloat64() / rate {
			n++
		}
		return float64(n)
	}
	const runs = 200
	var waver, quick, five, ten float64
	for range runs {
		var s steady
		add := func(rate float64) {
			x := poisson(rate)
			s.add(x, math.Sqrt(max(s.calm, x)), 1)
		}
		for range 200 {
			add(40)
		}
		waver += (s.calm - 40) * (s.calm - 40) / runs
		quick += (s.quick - 40) * (s.quick - 40) / runs
		for range 5 {
			add(80)
		}
		five += s.calm / runs
		for range 5 {
			add(80)
		}
		ten += s.calm / runs
	}
	if sd := math.Sqrt(waver) / 40; sd > 0.03 || math.Sqrt(quick)/40 < 2*sd {
		t.Errorf("wavers by %.3f, the quick mean by %.3f; want under 0.03 and half of that", sd, math.Sqrt(quick)/40)
	}
	if five < 65 || math.Abs(ten/80-1) > 0.05 {
		t.Errorf("after a step from 40 to 80: %.1f in 5 periods, %.1f in 10; want most of the way, and there", five, ten)
	}
}

// TestSteadyEdges: the first value is believed, nothing seen changes nothing, and a
// long period counts as so many.
func TestSteadyEdges(t *testing.T) {
	var s steady
	s.add(7, 1, 1)
	if s.calm != 7 {
		t.Errorf("first: %v", s.calm)
	}
	s.add(7, 0, 1)
	if s.calm != 7 {
		t.Errorf("the same without noise: %v", s.calm)
	}
	s.add(9, 0, 1)
	if s.calm != 9 {
		t.Errorf("a change without noise: %v, want to start anew", s.calm)
	}
	for range 10 {
		s.add(100, 1, 50)
	}
	if math.Abs(s.calm-100) > 0.1 {
		t.Errorf("long periods: %v", s.calm)
	}
}
