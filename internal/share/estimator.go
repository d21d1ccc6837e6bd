package share

import (
	"math"
	"time"
)

const (
	// trimGain is the weight of one measured latency in the trim of an Estimator:
	// some 250 of them move it most of the way.
	trimGain = 1.0 / 128
	// trimMost bounds a trim and its inverse: a model further off is wrong.
	trimMost = 16
	// mostLoad is the utilization at which models of a queue that cannot empty are
	// evaluated, because they know no answer beyond. The trim does the rest.
	mostLoad = 0.97
	// tailShare is the share of requests beyond what is called the tail.
	tailShare = 0.05
)

// Estimator predicts the latency of a request over a chain: a model says at once
// what new rates will do, and measured latencies correct it slowly for what the
// model does not know. An integral alone would be as late as the latencies
// are; a model alone would stay wrong.
type Estimator struct {
	chain      Chain
	mean, tail float64 // of the model, seconds
	trimMean   float64
	trimTail   float64
}

// NewEstimator returns an estimator for a chain, or every mistake in it.
func NewEstimator(c Chain) (*Estimator, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	e := &Estimator{chain: append(Chain(nil), c...), trimMean: 1, trimTail: 1}
	e.model()
	return e, nil
}

// Update replaces the chain, usually for newly measured rates and transfer times,
// and keeps what was learned. It computes the distribution anew, about a
// millisecond, so once a second is enough. It returns every mistake in c, and then
// changes nothing.
func (e *Estimator) Update(c Chain) error {
	if err := c.Check(); err != nil {
		return err
	}
	e.chain = append(e.chain[:0], c...)
	e.model()
	return nil
}

func (e *Estimator) model() {
	for i := range e.chain {
		if s := &e.chain[i]; len(s.Patience) == 0 {
			s.Arrival = min(s.Arrival, mostLoad*s.Service)
		}
	}
	d, ok := e.chain.Distribution()
	if !ok {
		return // callers who never give up overload a stage: keep the last model
	}
	e.mean, e.tail = e.chain.Mean(), d.Quantile(1-tailShare)
}

// OnLatency takes the measured latency of a request that took the chain's way, was
// admitted and completed.
func (e *Estimator) OnLatency(latency time.Duration) {
	mean, tail := e.Estimate()
	x := max(latency, 0).Seconds()
	if !(mean > 0) || !(tail > 0) {
		return
	}
	// Single outliers are cut off at many means, or one stuck request would count
	// for a thousand.
	e.trimMean = trimmed(e.trimMean * (1 + trimGain*(min(x/mean, 2*trimMost)-1)))
	beyond := 0.0
	if x > tail {
		beyond = 1
	}
	e.trimTail = trimmed(e.trimTail * math.Exp(4*trimGain*(beyond-tailShare)))
}

func trimmed(x float64) float64 { return min(max(x, 1.0/trimMost), trimMost) }

// Estimate returns the mean and the 95th percentile of the latency, in seconds.
func (e *Estimator) Estimate() (mean, p95 float64) {
	return e.mean * e.trimMean, e.tail * e.trimTail
}

// Trim returns what measured latencies made of the model's, as factors; 1 is a
// model that is right.
func (e *Estimator) Trim() (mean, p95 float64) { return e.trimMean, e.trimTail }
