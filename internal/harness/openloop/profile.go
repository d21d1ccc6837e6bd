package openloop

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// MaxRate is the highest rate of a Step, in requests per second. One request
// costs a generator about half a microsecond, so more cannot be sent.
const MaxRate = 2e6

// Arrivals is a sequence of instants at which requests are to leave, counted
// from the start of a run and never decreasing. It is used by one goroutine.
type Arrivals interface {
	// Next returns the next instant, or false when there are no more.
	Next() (time.Duration, bool)
}

// Step is a stretch of constant load.
type Step struct {
	Rate float64       // requests per second, 0 to MaxRate
	For  time.Duration // how long, above 0
}

// Profile is a load that changes in steps, such as 0.7x, 2.5x and 0.7x of a
// capacity.
type Profile []Step

// Steady is a load of rate requests per second for a time.
func Steady(rate float64, d time.Duration) Profile { return Profile{{Rate: rate, For: d}} }

// Duration returns how long the profile lasts.
func (p Profile) Duration() time.Duration {
	var d time.Duration
	for _, s := range p {
		d += s.For
	}
	return d
}

// Validate reports every mistake in the profile.
func (p Profile) Validate() error {
	var errs []error
	if len(p) == 0 {
		errs = append(errs, errors.New("the profile has no steps, want at least one"))
	}
	for i, s := range p {
		if !(s.Rate >= 0 && s.Rate <= MaxRate) { // also catches NaN
			errs = append(errs, fmt.Errorf("step %d: rate is %v requests/s, must be 0 to %g", i, s.Rate, float64(MaxRate)))
		}
		if s.For <= 0 {
			errs = append(errs, fmt.Errorf("step %d: lasts %v, must be above 0", i, s.For))
		}
	}
	return errors.Join(errs...)
}

// Poisson returns the arrivals of a Poisson process that follows the profile:
// independent requests, as from very many users. The seed decides all of them.
func Poisson(p Profile, seed uint64) (Arrivals, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("openloop: %w", err)
	}
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	return &walk{profile: p, gap: rng.ExpFloat64}, nil
}

// walk turns gaps measured in expected requests into instants. A gap that
// crosses a step's border goes on at the next step's rate, which makes unit
// exponential gaps an exact Poisson process of changing rate.
//
//	rate │   ┌────┐           the area under the line
//	     │───┘    └─────      between two arrivals is one gap
//	     └─┴───┴┴┴┴──┴───▶ t
type walk struct {
	profile Profile
	gap     func() float64
	begun   time.Duration // where the current step begins
	into    float64       // seconds gone of the current step
}

func (w *walk) Next() (time.Duration, bool) {
	gap := w.gap()
	for len(w.profile) > 0 {
		s := w.profile[0]
		left := s.For.Seconds() - w.into
		if s.Rate > 0 && gap < left*s.Rate {
			w.into += gap / s.Rate
			at := time.Duration(math.Round(w.into * float64(time.Second)))
			return w.begun + min(at, s.For), true
		}
		gap -= max(left, 0) * s.Rate
		w.begun += s.For
		w.into = 0
		w.profile = w.profile[1:]
	}
	return 0, false
}
