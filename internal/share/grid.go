package share

import "math"

// gridPoints is the number of points of a Distribution.
const gridPoints = 8192

// Distribution is the distribution of a sum of independent times, on a grid of
// gridPoints points from 0 to a horizon. Sums of exponentials have a closed form,
// but its terms blow up and cancel where two rates are nearly equal, which in a
// chain of like servers is the rule; on the grid nothing does.
//
// Each time is spread over the points so that its mean is kept exactly, and the
// error of a probability falls with the square of the step. What would lie beyond
// the horizon is lumped together there. A Distribution takes 64 KiB.
type Distribution struct {
	step   float64
	mass   []float64
	beyond float64
	// scratch holds the result of a convolution while it is computed.
	scratch []float64
}

// newDistribution returns the distribution of a sum of nothing, 0, with room up
// to horizon, in seconds. Something like the mean and ten standard deviations of
// the sum to come is right: larger costs resolution, smaller cuts the tail. A
// horizon that is not above 0 counts as 1 s.
func newDistribution(horizon float64) *Distribution {
	if !positive(horizon) {
		horizon = 1
	}
	d := &Distribution{
		step:    horizon / (gridPoints - 1),
		mass:    make([]float64, gridPoints),
		scratch: make([]float64, gridPoints),
	}
	d.mass[0] = 1
	return d
}

// Exponential adds an exponential time with this rate per second, above 0.
// Anything else is not a time and adds nothing.
func (d *Distribution) Exponential(rate float64) { d.exponential(rate, 1) }

// exponential adds an exponential time with this probability, else 0. It takes one
// pass: past the first point the spread of an exponential is geometric.
func (d *Distribution) exponential(rate, probability float64) {
	if !positive(rate) || !(probability > 0) {
		return
	}
	probability = min(probability, 1)
	x := rate * d.step
	keep := math.Exp(-x)
	// Second differences of ∫P(T > t)dt, per step: see spread.
	first := 1 + math.Expm1(-x)/x
	later := math.Expm1(-x) * math.Expm1(-x) / x // mass of point 1
	carry, total := 0.0, 0.0
	for i, m := range d.mass {
		// carry is what earlier points put here.
		out := m*(1-probability) + probability*(m*first+carry)
		carry = carry*keep + m*later
		d.mass[i] = out
		total += out
	}
	d.lump(total)
}

// Constant adds a time that is always the same, 0 or more seconds.
func (d *Distribution) Constant(time float64) {
	if nonNegative(time) {
		d.spread(func(x float64) float64 { return max(time-x, 0) }, time, time)
	}
}

// Gaussian adds a normal time cut off at 0, with the mean and the standard
// deviation, in seconds, that it has before the cut. A deviation of 0 is a
// constant.
func (d *Distribution) Gaussian(mean, deviation float64) {
	if math.IsNaN(mean) || math.IsInf(mean, 0) || !nonNegative(deviation) {
		return
	}
	if deviation == 0 {
		d.Constant(max(mean, 0))
		return
	}
	above := normalTail(-mean / deviation) // the part that the cut leaves
	if !(above > 1e-12) {
		return // all of it is cut: no time
	}
	excess := func(x float64) float64 {
		z := (x - mean) / deviation
		return deviation * (math.Exp(-z*z/2)/math.Sqrt(2*math.Pi) - z*normalTail(z)) / above
	}
	d.spread(func(x float64) float64 { return max(excess(x), 0) }, max(mean-9*deviation, 0), mean+9*deviation)
}

// spread adds a time T given by excess(x) = E max(T−x, 0), which lies between low
// and high. A mass between two points goes to both in inverse proportion to the
// distance, which are the second differences of excess.
func (d *Distribution) spread(excess func(float64) float64, low, high float64) {
	from := int(min(max(math.Floor(low/d.step)-1, 0), gridPoints))
	to := int(min(math.Ceil(high/d.step)+1, gridPoints-1))
	clear(d.scratch)
	total := 0.0
	for k := from; k <= to; k++ {
		x := float64(k) * d.step
		share := (excess(x+d.step) - excess(x)) / d.step
		if k == 0 {
			share++
		} else {
			share -= (excess(x) - excess(x-d.step)) / d.step
		}
		if share <= 0 {
			continue
		}
		for i, m := range d.mass[:gridPoints-k] {
			d.scratch[i+k] += m * share
		}
	}
	for _, m := range d.scratch {
		total += m
	}
	d.mass, d.scratch = d.scratch, d.mass
	d.lump(total)
}

func (d *Distribution) lump(total float64) { d.beyond = max(1-total, 0) }

// Tail returns the probability of more than x seconds; for x beyond the horizon, that
// of more than the horizon.
func (d *Distribution) Tail(x float64) float64 {
	at := min(max(x, 0)/d.step, gridPoints-1)
	k := int(at)
	above := d.beyond
	for _, m := range d.mass[min(k+1, gridPoints):] {
		above += m
	}
	// Half of a point's mass lies above it; at 0 nothing lies below.
	here := above + d.mass[k]/2
	if k == 0 {
		here = above + d.mass[0]
	}
	if k+1 >= gridPoints {
		return here
	}
	next := above - d.mass[k+1]/2
	return here + (at-float64(k))*(next-here)
}

// Quantile returns the time, in seconds, that is exceeded with probability 1−q;
// the horizon if that is beyond it, 0 if q is not above 0.
func (d *Distribution) Quantile(q float64) float64 {
	left := 1 - q
	if !(q > 0) {
		return 0
	}
	above := d.beyond
	next := above
	for k := gridPoints - 1; k >= 0; k-- {
		here := above + d.mass[k]/2
		if here >= left {
			if k == gridPoints-1 || here <= next {
				return float64(k) * d.step
			}
			return (float64(k) + (here-left)/(here-next)) * d.step
		}
		above += d.mass[k]
		next = here
	}
	return 0
}

// normalTail returns the probability that a standard normal variable is above z.
func normalTail(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }
