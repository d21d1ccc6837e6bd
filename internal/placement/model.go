package placement

import "math"

// Model predicts the p99 of a share of a topic at a broker, so that a search by measurement
// starts next to its answer. It is a queue of bursts: what fires together is one arrival
// whose service takes as long as all its messages.
type Model struct {
	// Cost is the time of the broker that a message takes, in seconds; the inverse of the
	// most messages a second it serves.
	Cost float64
	// Correction is what measurements were of predictions so far; 0 stands for 1.
	Correction float64
}

// Share is what of a topic is at one broker.
type Share struct {
	Bucket
	// Arriving is in messages a second.
	Arriving float64
	// Together is how many messages arrive at once, 1 for single ones: publishers in step times
	// what each sends in one go.
	Together float64
	// Steady is the part of Together that the bucket is sized for, up to 1: traffic at even
	// distances meets a smaller queue there than bursts by chance.
	Steady float64
	// Beside is the share of the broker's time that others take.
	Beside float64
}

// P99 returns the predicted p99 from the arrival of a message to the end of its service,
// in seconds. It is infinite where more arrives than can be served or let through.
func (m Model) P99(s Share) float64 {
	if s.Arriving <= 0 {
		return 0
	}
	if s.Arriving >= s.Rate {
		return math.Inf(1)
	}
	bucket := burstP99(s.Arriving/s.Rate, max(s.Together, 1)*s.Steady/s.Rate, s.Burst/s.Rate)
	// One of the two is narrower; behind it the other one's queue is short.
	return max(m.processing(s), bucket+m.Cost)
}

// processing returns the part of the p99 that is the broker's.
func (m Model) processing(s Share) float64 {
	free := 1 - s.Beside
	if free <= 0 {
		return math.Inf(1)
	}
	cost := m.Cost / free // what is served besides takes its part of every second
	correction := m.Correction
	if correction == 0 {
		correction = 1
	}
	return correction * burstP99(s.Arriving*cost, cost*max(s.Together, 1), 0)
}

// busyP99 is processing by the asymptote of the queue, for brokers that are so busy that it is near:
// a thousand times as fast.
func (m Model) busyP99(s Share) float64 {
	free := 1 - s.Beside
	if free <= 0 {
		return math.Inf(1)
	}
	cost, correction := m.Cost/free, m.Correction
	if correction == 0 {
		correction = 1
	}
	load := s.Arriving * cost
	if load >= 1 {
		return math.Inf(1)
	}
	// ∫ C·e^(−ηu) du over [x−1, x] is C·e^(−ηx)/ρ, since ρ(e^η−1) = η.
	c, eta := Queue{load}.Decay()
	return correction * cost * max(s.Together, 1) * max(1, math.Log(c/(load*P99))/eta)
}

// burstP99 returns the p99 of a queue of a load whose arrivals are bursts of a length, both
// in seconds of service, for messages that are spread over the burst, less what is
// forgiven: P(delay > t) = ∫ P(U > t/length − u) du over the places u in the burst.
func burstP99(load, length, forgiven float64) float64 {
	if load >= 1 {
		return math.Inf(1)
	}
	if length <= 0 {
		return 0
	}
	q := Queue{load}.decayed()
	over := func(t float64) float64 {
		x := t / length
		return max(0, 1-x) + q.between(max(0, x-1), x) // the integral of the tail over [x−1, x]
	}
	low, high := 0.0, length*(2+max(0, math.Log(q.c/P99)/q.eta))
	for over(high) > P99 {
		high *= 2
	}
	for high-low > 1e-5*high {
		if middle := (low + high) / 2; over(middle) > P99 {
			low = middle
		} else {
			high = middle
		}
	}
	return max(0, high-forgiven)
}

// Corrected returns the model after the p99 of a share's processing was measured: half of the way towards what
// was measured, by ratio, since one measurement has its noise. What could not be predicted, or measured,
// corrects nothing.
func (m Model) Corrected(s Share, measured float64) Model { return m.towards(s, measured, 0.5) }

// matching returns the model whose prediction for a share is what was measured.
func (m Model) matching(s Share, measured float64) Model { return m.towards(s, measured, 1) }

// towards is Corrected by a part of the way.
func (m Model) towards(s Share, measured, part float64) Model {
	predicted := m.processing(s)
	if !(predicted > 0) || math.IsInf(predicted, 1) || !(measured > 0) || math.IsInf(measured, 1) {
		return m
	}
	if m.Correction == 0 {
		m.Correction = 1
	}
	m.Correction *= math.Pow(measured/predicted, part)
	return m
}
