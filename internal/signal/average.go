package signal

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Average is an exponentially weighted mean by count: every sample moves it by
// the same share of the distance. The zero Average has no memory and is the last
// sample; make one with NewAverage.
type Average struct {
	keep  float64 // weight of the past
	value float64
	any   bool
}

// NewAverage returns a mean in which a new sample weighs weight, above 0 and at
// most 1; the first weighs all. A weight of 2/(n+1) remembers about n samples.
// Weights out of range are moved into it.
func NewAverage(weight float64) Average {
	if !(weight > 0) {
		weight = math.SmallestNonzeroFloat64
	}
	return Average{keep: 1 - min(weight, 1)}
}

// Add takes a sample and returns the mean.
func (a *Average) Add(x float64) float64 {
	switch {
	case x != x:
	case !a.any:
		a.value, a.any = x, true
	default:
		a.value = a.keep*a.value + (1-a.keep)*x
	}
	return a.value
}

// Value returns the mean, and false before the first sample.
func (a *Average) Value() (mean float64, ok bool) { return a.value, a.any }

// Decay is an exponentially weighted mean by time, for samples that come at
// irregular instants: what lies one time constant back weighs 1/e. It is the
// mean of a signal that keeps each sample's value until the next one.
type Decay struct {
	tau   float64 // ns
	value float64
	held  float64
	last  mono.Time
	any   bool
}

// NewDecay returns a mean over about the last tau, at least 1 ns.
func NewDecay(tau time.Duration) Decay { return Decay{tau: float64(max(tau, 1))} }

// Set says that the signal is x from now on and returns the mean up to now. An
// instant before the last one counts as that one.
func (d *Decay) Set(now mono.Time, x float64) float64 {
	if x != x {
		return d.At(now)
	}
	if !d.any {
		d.value, d.held, d.last, d.any = x, x, now, true
		return x
	}
	d.value = d.At(now)
	d.last = max(d.last, now)
	d.held = x
	return d.value
}

// At returns the mean at now, if the signal has kept its last value until then.
func (d *Decay) At(now mono.Time) float64 {
	if now <= d.last {
		return d.value
	}
	keep := math.Exp(-float64(now.Sub(d.last)) / d.tau)
	return d.held + (d.value-d.held)*keep
}
