package share

import "math"

// Queue is a server in steady state with callers who may give up while they wait.
type Queue struct {
	// Idle is the share of time without work.
	Idle float64
	// Lost is the share of arrivals that give up.
	Lost float64
	// Wait is the mean time in the queue, in seconds, over all arrivals, those who
	// give up included.
	Wait float64
}

const (
	// maxTerms bounds the sum over queue lengths; longer queues are computed by
	// the integral.
	maxTerms = 1 << 16
	// negligible is the share of the sum at which further terms are left out.
	negligible = 1e-15
	// depth is how far below its peak, as a logarithm, the integrand ends.
	depth = 45
)

// MarkovQueue returns an M/M/1+M queue: Poisson arrivals and exponential service
// with these rates per second, and callers who give up at rate abandon, per second,
// each while it waits. It reports false if a rate is not a rate, service is not
// above 0, or the queue would grow for ever, which takes abandon = 0.
//
// The probabilities of the queue lengths follow from each other by one
// multiplication. The closed form, an incomplete gamma function, overflows where
// this does not.
func MarkovQueue(arrival, service, abandon float64) (Queue, bool) {
	if !nonNegative(arrival) || !positive(service) || !nonNegative(abandon) {
		return Queue{}, false
	}
	if abandon == 0 && arrival >= service {
		return Queue{}, false
	}
	empty, sum, waiting, t := 1.0, 1.0, 0.0, 1.0
	for n := 1; n <= maxTerms; n++ {
		grow := arrival / (service + float64(n-1)*abandon)
		t *= grow
		sum += t
		waiting += float64(n-1) * t
		if t < negligible*sum && grow < 1 {
			q := Queue{Idle: empty / sum, Wait: 0}
			if arrival > 0 {
				q.Wait = waiting / sum / arrival
				q.Lost = min(abandon*q.Wait, 1)
			}
			return q, true
		}
		if t > 1e200 {
			empty, sum, waiting, t = empty*1e-200, sum*1e-200, waiting*1e-200, t*1e-200
		}
	}
	return ImpatientQueue(arrival, service, Patience{{Weight: 1, Rate: abandon}})
}

// ImpatientQueue returns an M/M/1+G queue, whose callers give up after a patience
// that is a mixture of exponentials. That is not the queue whose callers give up
// at the mean rate: the impatient leave early and the patient remain. It reports
// false if a number is out of range or the queue would grow for ever because
// too many callers never give up.
//
// With H(x) the integral of the patience and f(x) = arrival·H(x) − service·x,
// J = ∫exp(f), the idle share is 1/(1 + arrival·J) (Baccelli and Hebuterne 1981).
// f is concave: the integral runs as far as exp(f) matters on both sides of
// its peak, and is scaled by the peak, so that nothing overflows.
func ImpatientQueue(arrival, service float64, p Patience) (Queue, bool) {
	if !nonNegative(arrival) || !positive(service) || p.Check() != nil {
		return Queue{}, false
	}
	if arrival == 0 {
		return Queue{Idle: 1}, true
	}
	endless := 0.0 // share of callers who never give up
	for _, b := range p {
		if b.Rate == 0 {
			endless += b.Weight
		}
	}
	if len(p) == 0 {
		endless = 1
	}
	if arrival*endless >= service {
		return Queue{}, false
	}
	f := func(x float64) float64 { return arrival*p.waited(x) - service*x }

	peak := 0.0
	if arrival > service {
		peak = crossing(func(x float64) bool { return arrival*p.Outlasts(x) < service }, 0, 1/service)
	}
	top := f(peak)
	right := crossing(func(x float64) bool { return f(x) < top-depth }, peak, 1/service)
	left := 0.0
	if top > depth {
		left = crossing(func(x float64) bool { return f(x) > top-depth }, 0, peak)
	}
	if math.IsInf(right, 1) {
		return Queue{}, false
	}
	e := func(x float64) float64 { return math.Exp(f(x) - top) }
	h := func(x float64) float64 { return p.waited(x) * e(x) }
	j := integral(e, left, peak) + integral(e, peak, right)
	jh := integral(h, left, peak) + integral(h, peak, right)

	one := math.Exp(-top) // the 1 of the formulas, in the same scale
	all := one + arrival*j
	return Queue{
		Idle: one / all,
		Lost: min(max((one+(arrival-service)*j)/all, 0), 1),
		Wait: arrival * jh / all,
	}, true
}

// crossing returns where after begins to hold, looking from a point on with steps
// that double; +Inf if that is nowhere. after must not cease to hold.
func crossing(after func(float64) bool, from, step float64) float64 {
	low, high := from, from+step
	for !after(high) {
		low, step = high, 2*step
		if high += step; math.IsInf(high, 1) {
			return high
		}
	}
	for range 200 {
		mid := low + (high-low)/2
		if mid <= low || mid >= high {
			break
		}
		if after(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// panels is into how many parts an integral is cut, and zooms how often the first
// of them is halved towards its beginning: a branch of the patience fades within
// 1/rate, and rates can lie many powers apart.
const panels, zooms = 32, 40

// integral returns ∫g from a to b by Gauss's rule on parts of the interval.
func integral(g func(float64) float64, a, b float64) float64 {
	if !(b > a) {
		return 0
	}
	width := (b - a) / panels
	from, total := a, 0.0
	for k := zooms; k >= 0; k-- {
		to := a + math.Ldexp(width, -k)
		total += gauss(g, from, to)
		from = to
	}
	for i := 2; i <= panels; i++ {
		to := a + float64(i)*width
		total += gauss(g, from, to)
		from = to
	}
	return total
}

// gaussNodes and gaussWeights are Gauss and Legendre's rule with ten points, the
// half on one side of the middle.
var (
	gaussNodes   = [5]float64{0.1488743389816312, 0.4333953941292472, 0.6794095682990244, 0.8650633666889845, 0.9739065285171717}
	gaussWeights = [5]float64{0.2955242247147529, 0.2692667193099963, 0.2190863625159820, 0.1494513491505806, 0.0666713443086881}
)

func gauss(g func(float64) float64, a, b float64) float64 {
	mid, half := (a+b)/2, (b-a)/2
	sum := 0.0
	for i, x := range gaussNodes {
		sum += gaussWeights[i] * (g(mid-half*x) + g(mid+half*x))
	}
	return sum * half
}

// kingmanWait returns the mean wait at a single server, in seconds, for arrivals
// and service times with these rates per second and squared coefficients of
// variation: ρ/(1−ρ)·(Ca²+Cs²)/2 service times. It is exact for Poisson arrivals,
// and +Inf if the server cannot keep up or a number is out of range.
func kingmanWait(arrival, service, arrivalCV2, serviceCV2 float64) float64 {
	if !nonNegative(arrival) || !positive(service) || !nonNegative(arrivalCV2) || !nonNegative(serviceCV2) || arrival >= service {
		return math.Inf(1)
	}
	rho := arrival / service
	return rho / (1 - rho) * (arrivalCV2 + serviceCV2) / 2 / service
}
