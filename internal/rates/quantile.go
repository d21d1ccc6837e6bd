package rates

import "math"

// rank returns between which order statistics, lo and lo+1, and how far from the
// first, the q-quantile of n values lies.
func rank(n int, q float64) (lo int, part float64) {
	if !(q > 0) {
		q = 0
	}
	at := float64(n-1) * min(q, 1)
	lo = int(math.Floor(at))
	return lo, at - math.Floor(at)
}

// bestQuantile returns the quantile that minimises refused requests plus
// idleCost times unused capacity, if processes announce rates independently of
// one another: the newsvendor's idleCost/(1+idleCost) (Wisp §4.1.3).
func bestQuantile(idleCost float64) float64 {
	switch {
	case !(idleCost > 0):
		return 0
	case math.IsInf(idleCost, 1):
		return 1
	}
	return idleCost / (1 + idleCost)
}

const (
	// searchWindow is how many periods one quantile is tried for: long enough for
	// the rates to follow and for the smoothing to forget the last one.
	searchWindow = 50
	// The step of the search starts at its largest. It is halved where the search
	// turns around, and doubled when searchRun steps in a row went well: then the
	// best quantile has moved away.
	maxStep, minStep = 1.0 / 8, 1.0 / 64
	searchRun        = 3
)

// search looks for the quantile with the least cost by moving it to and fro: the
// paper's "line search at a slow time scale", without dice. The zero search
// starts upwards.
type search struct {
	cost    float64 // sum over the window
	periods int
	last    float64 // mean cost of the window before
	tried   bool
	step    float64 // signed
	run     int     // steps that went well in a row
}

// add takes the cost of one period at the quantile q and returns the quantile to
// use from now on.
func (s *search) add(cost, q float64) float64 {
	s.cost += cost
	s.periods++
	// The first half of a window still shows the last quantile.
	if s.periods <= searchWindow/2 {
		s.cost = 0
		return q
	}
	if s.periods < searchWindow {
		return q
	}
	mean := s.cost / (searchWindow - searchWindow/2)
	switch {
	case !s.tried:
		s.step = maxStep
	case mean < s.last:
		if s.run++; s.run%searchRun == 0 {
			s.step = math.Copysign(min(math.Abs(s.step)*2, maxStep), s.step)
		}
	default:
		s.run = 0
		s.step = -math.Copysign(max(math.Abs(s.step)/2, minStep), s.step)
	}
	s.last, s.tried, s.cost, s.periods = mean, true, 0, 0
	if q+s.step > 1 || q+s.step < 0 {
		s.step = -s.step
	}
	return min(max(q+s.step, 0), 1)
}
