package share

import (
	"errors"
	"fmt"
	"math"
)

// maxStages is the longest chain that is computed; a longer one is refused.
const maxStages = 64

// Stage is one server on the way of a request, and the way from it to the next.
type Stage struct {
	// Arrival and Service are its rates per second, of all that queue there.
	Arrival, Service float64
	// ArrivalCV2 and ServiceCV2 are the squared coefficients of variation of the
	// times between arrivals and of the service times. 0 is 1, exponential;
	// negative is 0, always the same.
	ArrivalCV2, ServiceCV2 float64
	// Patience of the callers that wait there; nil waits for ever. It takes Poisson
	// arrivals and exponential service for granted.
	Patience Patience
	// Transfer is the mean time on the network after this stage, in seconds, and
	// TransferSD its standard deviation. A normal time, cut off at 0.
	Transfer, TransferSD float64
}

// Chain is the stages in the order of a request.
type Chain []Stage

// Check returns every mistake in c.
func (c Chain) Check() error {
	var errs []error
	if len(c) == 0 || len(c) > maxStages {
		errs = append(errs, fmt.Errorf("share: a chain has %d stages, expected 1 to %d", len(c), maxStages))
	}
	for i, s := range c {
		if !nonNegative(s.Arrival) || !positive(s.Service) {
			errs = append(errs, fmt.Errorf("share: stage %d has rates %v and %v, expected arrivals of 0 or more and service above 0 per second", i, s.Arrival, s.Service))
		}
		if math.IsNaN(s.ArrivalCV2) || math.IsInf(s.ArrivalCV2, 0) || math.IsNaN(s.ServiceCV2) || math.IsInf(s.ServiceCV2, 0) {
			errs = append(errs, fmt.Errorf("share: stage %d has variations %v and %v, expected finite ones", i, s.ArrivalCV2, s.ServiceCV2))
		}
		if !nonNegative(s.Transfer) || !nonNegative(s.TransferSD) {
			errs = append(errs, fmt.Errorf("share: stage %d has a transfer of %v ± %v, expected 0 or more seconds", i, s.Transfer, s.TransferSD))
		}
		if err := s.Patience.Check(); err != nil {
			errs = append(errs, fmt.Errorf("share: stage %d: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// Mean returns the mean latency in seconds, +Inf if a stage cannot keep up or c
// has mistakes.
func (c Chain) Mean() float64 {
	if c.Check() != nil {
		return math.Inf(1)
	}
	sum := 0.0
	for _, s := range c {
		wait, _ := s.wait()
		sum += wait + 1/s.Service + s.transfer()
	}
	return sum
}

// Distribution returns the distribution of the latency, or false where Mean is
// infinite. The waits of the stages count as independent, which they are in a
// chain of M/M/1 queues, and each as none with the probability of an empty server
// and else as exponential, which is exact there as well. Service times are given
// by one or several exponentials with the right mean and variation. It costs some
// ten passes over the grid for each stage.
func (c Chain) Distribution() (*Distribution, bool) {
	mean := c.Mean()
	if math.IsInf(mean, 1) {
		return nil, false
	}
	variance := 0.0
	for _, s := range c {
		wait, busy := s.wait()
		if busy > 0 {
			variance += wait * wait * (2/busy - 1)
		}
		variance += cv2(s.ServiceCV2)/(s.Service*s.Service) + s.TransferSD*s.TransferSD
	}
	d := newDistribution(1.25*mean + 16*math.Sqrt(variance))
	for _, s := range c {
		if wait, busy := s.wait(); wait > 0 && busy > 0 {
			d.exponential(busy/wait, busy)
		}
		d.service(s.Service, cv2(s.ServiceCV2))
		if s.Transfer > 0 || s.TransferSD > 0 {
			d.Gaussian(s.Transfer, s.TransferSD)
		}
	}
	return d, true
}

// wait returns a stage's mean wait and the probability of having to.
func (s Stage) wait() (mean, busy float64) {
	if len(s.Patience) > 0 {
		q, ok := ImpatientQueue(s.Arrival, s.Service, s.Patience)
		if !ok {
			return math.Inf(1), 1
		}
		return q.Wait, 1 - q.Idle
	}
	return kingmanWait(s.Arrival, s.Service, cv2(s.ArrivalCV2), cv2(s.ServiceCV2)), min(s.Arrival/s.Service, 1)
}

// transfer is the mean of the transfer time once it is cut off at 0.
func (s Stage) transfer() float64 {
	if s.TransferSD == 0 {
		return s.Transfer
	}
	z := s.Transfer / s.TransferSD
	return s.Transfer + s.TransferSD*math.Exp(-z*z/2)/math.Sqrt(2*math.Pi)/normalTail(-z)
}

// cv2 is a variation with its zero value filled in.
func cv2(x float64) float64 {
	switch {
	case x == 0:
		return 1
	case x < 0:
		return 0
	}
	return x
}

// mostPhases is how many exponentials in a row stand for a service time: less
// varied ones are constant and this much of a tail is lost.
const mostPhases = 32

// service adds a service time: exponentials in a row if it varies less than one,
// a choice of two if it varies more.
func (d *Distribution) service(rate, variation float64) {
	switch {
	case variation*mostPhases < 1:
		d.Constant(1 / rate)
	case variation < 1:
		// A constant and n exponentials have the variation exactly.
		n := math.Ceil(1 / variation)
		each := math.Sqrt(variation/n) / rate
		d.Constant(max(1/rate-n*each, 0))
		for range int(n) {
			d.Exponential(1 / each)
		}
	case variation == 1:
		d.Exponential(rate)
	default:
		// Two exponentials that carry half of the work each.
		p := (1 + math.Sqrt((variation-1)/(variation+1))) / 2
		d.either(2*p*rate, 2*(1-p)*rate, p)
	}
}

// either adds an exponential time with rate a, with probability p, or else with
// rate b.
func (d *Distribution) either(a, b, p float64) {
	other := newDistribution(d.step * (gridPoints - 1))
	copy(other.mass, d.mass)
	d.Exponential(a)
	other.Exponential(b)
	for i := range d.mass {
		d.mass[i] = p*d.mass[i] + (1-p)*other.mass[i]
	}
	d.beyond = p*d.beyond + (1-p)*other.beyond
}
