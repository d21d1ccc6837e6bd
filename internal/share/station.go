package share

import "math"

// station is what order can do at one server. All work-conserving orders that do
// not look at service times share one law: interactive·W + standard·W' =
// (interactive+standard)·wait. So the pair of mean waits moves on a line
// between the two priorities, and one number tells where it is, the position:
// 0, the default class goes first; 1, the interactive one.
type station struct {
	// interactive and standard are the utilizations of the classes, together
	// below 1. wait is the mean wait of all under FIFO.
	interactive, standard, wait float64
}

// first returns the interactive class's wait if it goes first, last if it goes
// last.
func (s station) first() float64 {
	return s.wait * (1 - s.interactive - s.standard) / (1 - s.interactive)
}
func (s station) last() float64 { return s.wait / (1 - s.standard) }

// swapped returns the station with the classes' roles exchanged.
func (s station) swapped() station { return station{s.standard, s.interactive, s.wait} }

// interactiveAt and defaultAt return the mean waits at a position.
func (s station) interactiveAt(position float64) float64 {
	return s.last() + position*(s.first()-s.last())
}
func (s station) defaultAt(position float64) float64 {
	return s.swapped().interactiveAt(1 - position)
}

// fifo returns the position at which both wait as long as in one FIFO queue:
// interactive and standard enter as 1−standard to 1−interactive.
func (s station) fifo() float64 {
	first, last := s.first(), s.last()
	if !(last > first) {
		return 0.5
	}
	return (last - s.wait) / (last - first)
}

// position returns where a weight puts the waits when an order with that weight
// picks a class at random whenever both wait. There is no closed form. As a
// logarithm of odds the position runs parallel to the weight near 0 and near 1,
// at different offsets, and steeper between, where the classes wait for each
// other more the fuller the server is. The offsets were read off exact
// solutions of the Markov chain; for utilizations of 0.3 to 0.9 and all mixes the
// result is within 0.1 of them, within 0.05 where neither class is under a
// quarter of the load (TestPositionAgainstExactChain).
func (s station) position(weight float64) float64 {
	switch {
	case !(weight > 0):
		return 0
	case weight >= 1:
		return 1
	case !(s.interactive > 0) || !(s.standard > 0):
		return weight
	}
	high, low := s.offset(), -s.swapped().offset()
	load := s.interactive + s.standard
	steep := 1 / math.Sqrt(1-load*load)
	odds := logit(weight)
	middle := logistic(steep * (odds - math.Log(s.interactive/s.standard)))
	return logistic(odds + low + (high-low)*middle)
}

// offset is how far the odds of the position lie above those of a weight near 1.
func (s station) offset() float64 {
	rest := 1 - s.interactive
	return math.Log(rest * rest / ((1 - s.interactive - s.standard) * (1 - s.standard)))
}

// weight is the inverse of position with the odds of the position raised by
// shift, which is what the model is found to be wrong by.
func (s station) weight(position, shift float64) float64 {
	low, high := 0.0, 1.0
	for range 50 {
		mid := (low + high) / 2
		if s.shifted(mid, shift) < position {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// shifted is position with its odds raised by shift.
func (s station) shifted(weight, shift float64) float64 {
	at := s.position(weight)
	if !(at > 0) || at >= 1 {
		return at
	}
	return logistic(logit(at) + shift)
}

func logit(p float64) float64    { return math.Log(p / (1 - p)) }
func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
