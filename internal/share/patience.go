package share

import (
	"errors"
	"fmt"
	"math"
)

// maxBranches is the most exponentials a Patience may be a mixture of; more are
// a mistake in the configuration.
const maxBranches = 8

// Patience is how long callers wait before they give up: a mixture of
// exponentials, as a weighted sum of exponentials in D3G. A Patience without
// branches is endless.
type Patience []Branch

// Branch is one kind of caller.
type Branch struct {
	// Weight is the share of callers of this kind, 0 to 1. The weights of a
	// Patience add up to 1.
	Weight float64
	// Rate is how often such a caller gives up, per second of waiting; 0 never
	// does.
	Rate float64
}

// Check returns every mistake in p.
func (p Patience) Check() error {
	if len(p) == 0 {
		return nil
	}
	var errs []error
	if len(p) > maxBranches {
		errs = append(errs, fmt.Errorf("share: a patience has %d branches, expected at most %d", len(p), maxBranches))
	}
	sum := 0.0
	for i, b := range p {
		if !(b.Weight >= 0 && b.Weight <= 1) {
			errs = append(errs, fmt.Errorf("share: weight of patience branch %d is %v, expected 0 to 1", i, b.Weight))
		}
		if !nonNegative(b.Rate) {
			errs = append(errs, fmt.Errorf("share: rate of patience branch %d is %v, expected 0 or more per second", i, b.Rate))
		}
		sum += b.Weight
	}
	if !(math.Abs(sum-1) <= 1e-6) {
		errs = append(errs, fmt.Errorf("share: weights of a patience add up to %v, expected 1", sum))
	}
	return errors.Join(errs...)
}

// Outlasts returns the share of callers that are still there after x seconds.
func (p Patience) Outlasts(x float64) float64 {
	if len(p) == 0 {
		return 1
	}
	sum := 0.0
	for _, b := range p {
		sum += b.Weight * math.Exp(-b.Rate*max(x, 0))
	}
	return sum
}

// Lost returns the share of callers whose patience is shorter than an exponential
// wait with this mean, in seconds, drawn anew for each.
func (p Patience) Lost(mean float64) float64 {
	sum := 0.0
	for _, b := range p {
		if y := b.Rate * max(mean, 0); y > 0 {
			sum += b.Weight / (1 + 1/y)
		}
	}
	return sum
}

// A caller has to wait with probability busy, and then is asked to for an
// exponential time. lostAsked returns the share of callers who give up if the mean
// of that is asked, in seconds.
func (p Patience) lostAsked(asked, busy float64) float64 { return busy * p.Lost(asked) }

// stays returns the mean wait of the callers that stay.
func (p Patience) stays(asked, busy float64) float64 {
	sum := 0.0
	for _, b := range p {
		sum += b.Weight * asked / ((1 + b.Rate*asked) * (1 + b.Rate*asked))
	}
	return busy * sum / (1 - p.lostAsked(asked, busy))
}

// asked returns what was asked where those who stayed waited for that long in the
// mean. It is the more above it the more give up, up to the point from which on
// so many do that the others' wait says nothing; beyond, that point and as much
// as the wait is above it.
func (p Patience) asked(stayed, busy float64) float64 {
	if !(stayed > 0) || !(busy > 0) {
		return 0
	}
	low, high := 0.0, stayed/busy
	for range 60 {
		most := p.stays(high, busy)
		if most >= stayed {
			break
		}
		if most <= p.stays(low, busy) {
			return low + (stayed-p.stays(low, busy))/busy
		}
		low, high = high, 1.1*high
	}
	for range 40 {
		mid := (low + high) / 2
		if p.stays(mid, busy) < stayed {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// waited is the mean time that callers stay if nobody comes within x seconds:
// the integral of Outlasts.
func (p Patience) waited(x float64) float64 {
	if len(p) == 0 {
		return x
	}
	sum := 0.0
	for _, b := range p {
		if b.Rate*x < 1e-12 {
			sum += b.Weight * x
		} else {
			sum += b.Weight * -math.Expm1(-b.Rate*x) / b.Rate
		}
	}
	return sum
}

func positive(x float64) bool    { return x > 0 && !math.IsInf(x, 1) }
func nonNegative(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
