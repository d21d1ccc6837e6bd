package signal

import "math"

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
