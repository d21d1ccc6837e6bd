package share

import "math"

const (
	// quickMemory and calmMemory are how many periods the two means of a steady
	// remember.
	quickMemory, calmMemory = 3, 64
	// surprise is how many standard deviations the quick mean is off until both start
	// anew: chance alone does that about once in a quarter of an hour.
	surprise = 3
)

// steady is a mean that is slow while nothing changes and quick when something
// does. A controller that follows the quick mean of Poisson arrivals follows
// chance; one that follows the slow mean is late.
type steady struct {
	quick, calm float64
	age         float64 // periods that calm is the mean of
}

// add takes what was seen in a time, in periods, and how large its standard
// deviation is by chance alone.
func (s *steady) add(x, noise, periods float64) {
	if s.age == 0 {
		s.quick, s.calm, s.age = x, x, periods
		return
	}
	s.quick += (x - s.quick) * -math.Expm1(-periods/quickMemory)
	s.age += periods
	s.calm += (x - s.calm) * max(periods/s.age, -math.Expm1(-periods/calmMemory))
	// The variance of an exponential mean over m periods is 1/2m of a period's.
	if math.Abs(s.quick-s.calm) > surprise*noise*math.Sqrt(periods/2/quickMemory) {
		s.quick, s.calm, s.age = x, x, periods
	}
}
