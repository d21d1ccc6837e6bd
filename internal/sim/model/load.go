package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Load is what a group of clients means to send: Poisson arrivals at a rate that
// changes in steps, or the instants of a trace.
type Load struct {
	// Steps are in order of time; the first rate holds from the start, the last
	// to the end.
	Steps []Step
	// Trace, instead of Steps, lists the times from the start at which the
	// group means to send a request, ascending; clients take turns.
	Trace []time.Duration
}

// Step sets a rate, in requests per second of all clients together.
type Step struct {
	At   time.Duration
	Rate float64
}

// Constant is the load of one rate.
func Constant(rate float64) Load { return Load{Steps: []Step{{0, rate}}} }

func (l Load) check() error {
	if len(l.Steps) > 0 && len(l.Trace) > 0 {
		return fmt.Errorf("Load has both Steps and a Trace, expected one of them")
	}
	for i, s := range l.Steps {
		if s.At < 0 || !(s.Rate >= 0) || math.IsInf(s.Rate, 0) || i > 0 && s.At < l.Steps[i-1].At {
			return fmt.Errorf("step %d is %v at %v, expected a rate of 0 or more at ascending times", i, s.Rate, s.At)
		}
	}
	for i, at := range l.Trace {
		if at < 0 || i > 0 && at < l.Trace[i-1] {
			return fmt.Errorf("trace entry %d is %v, expected ascending times", i, at)
		}
	}
	return nil
}

// arrivals walks one client's part of a load.
type arrivals struct {
	load  *Load
	share float64 // of the rate: 1/clients
	step  int
	at    float64 // ns from the start of the last arrival
	index int     // into the trace
	turn  int     // stride through the trace
	rng   *rand.Rand
}

// next returns the time from the start of the client's next request.
func (a *arrivals) next() (time.Duration, bool) {
	if a.load.Trace != nil {
		if a.index >= len(a.load.Trace) {
			return 0, false
		}
		at := a.load.Trace[a.index]
		a.index += a.turn
		return at, true
	}
	// A unit exponential is used up at the rate of each step that it crosses.
	left := a.rng.ExpFloat64()
	for a.step < len(a.load.Steps) {
		rate := a.load.Steps[a.step].Rate * a.share / 1e9
		end := math.Inf(1)
		if a.step+1 < len(a.load.Steps) {
			end = float64(a.load.Steps[a.step+1].At)
		}
		if room := (end - a.at) * rate; rate > 0 && left <= room {
			a.at += left / rate
			return time.Duration(a.at), true
		} else if rate > 0 {
			left -= room
		}
		a.at = math.Max(a.at, end)
		a.step++
	}
	return 0, false
}

// Shape is a family of service time distributions.
type Shape uint8

const (
	// Exponential has the coefficient of variation 1.
	Exponential Shape = iota
	// Fixed is always the mean.
	Fixed
	// Bimodal is 4 times the mean for one request in five, else a quarter of
	// it (Breakwater §5).
	Bimodal
	// Rare is half the mean for 99 requests in 100, and 50 times it for the other.
	Rare
	// Pareto has the index 1.5: a third of the mean at least, no variance.
	Pareto
)

// String names s as results do.
func (s Shape) String() string {
	switch s {
	case Exponential:
		return "exponential"
	case Fixed:
		return "constant"
	case Bimodal:
		return "bimodal"
	case Rare:
		return "rare"
	case Pareto:
		return "pareto"
	}
	return "unknown"
}

// Service is the distribution of the work of a request.
type Service struct {
	Mean  time.Duration
	Shape Shape
}

// draw returns the work of one request in nanoseconds at nominal speed.
func (s Service) draw(rng *rand.Rand) float64 {
	mean := float64(s.Mean)
	switch s.Shape {
	case Fixed:
		return mean
	case Bimodal:
		if rng.Float64() < 0.2 {
			return 4 * mean
		}
		return mean / 4
	case Rare:
		if rng.Float64() < 0.01 {
			return 50.5 * mean
		}
		return mean / 2
	case Pareto:
		return mean / 3 * math.Pow(1-rng.Float64(), -1/1.5)
	}
	return mean * rng.ExpFloat64()
}
