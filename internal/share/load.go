package share

import "math"

// Load is two classes of Poisson arrivals at servers with exponential service
// and one queue each. An interactive request visits Hops servers one after the
// other; a default request visits one. It is a value for models and tests: the
// [Controller] works from what it measures.
type Load struct {
	// Interactive and Default are arrivals per second at each server, Service is
	// what a server completes per second.
	Interactive, Default, Service float64
	// Hops is how many servers an interactive request visits, 1 or more.
	Hops int
	// Transfer is the time an interactive request spends between servers, in
	// seconds, all hops together.
	Transfer float64
}

// Latency is the mean response time of each class, in seconds, over all its hops.
type Latency struct{ Interactive, Default float64 }

// utilization returns the share of a server that each class takes, and false
// unless every number is in range and the server can keep up.
func (l Load) utilization() (interactive, standard float64, ok bool) {
	if !nonNegative(l.Interactive) || !nonNegative(l.Default) || !positive(l.Service) || !nonNegative(l.Transfer) || l.Hops < 1 {
		return 0, 0, false
	}
	interactive, standard = l.Interactive/l.Service, l.Default/l.Service
	return interactive, standard, interactive+standard < 1
}

// FIFO returns the latencies with one queue in order of arrival. As everywhere in
// this file, the result is false for numbers out of range and for a load that
// the servers cannot keep up with.
func (l Load) FIFO() (Latency, bool) {
	if _, _, ok := l.utilization(); !ok {
		return Latency{}, false
	}
	spare := l.Service - l.Interactive - l.Default
	return Latency{float64(l.Hops)/spare + l.Transfer, 1 / spare}, true
}

// Priority returns the latencies when interactive requests go first, without
// interrupting the one in service (Cobham 1954). No weight does better for
// them: it is the floor of what a controller can ask for. Arrivals at the
// later hops are taken for Poisson, which they nearly are.
func (l Load) Priority() (Latency, bool) {
	r, d, ok := l.utilization()
	if !ok {
		return Latency{}, false
	}
	s := station{r, d, (r + d) / (1 - r - d) / l.Service}
	return l.latency(s.first(), s.defaultAt(1)), true
}

// Weighted returns about what the latencies are when a server with both queues
// filled takes the interactive one with probability weight. See [station.position]
// for how good the approximation is.
func (l Load) Weighted(weight float64) (Latency, bool) {
	r, d, ok := l.utilization()
	if !ok || !(weight >= 0 && weight <= 1) {
		return Latency{}, false
	}
	s := station{r, d, (r + d) / (1 - r - d) / l.Service}
	at := s.position(weight)
	return l.latency(s.interactiveAt(at), s.defaultAt(at)), true
}

// Separate returns the share of every server that interactive requests must have
// for equal latencies when each class has its part for itself and cannot use
// what the other leaves idle, which is D3G's adjustment taken literally; and
// that latency. It is larger than both latencies of FIFO when there is no
// transfer time, (Hops+1)/Hops times what FIFO gives interactive requests.
//
// With x the spare rate of the interactive part, Hops/x + Transfer = 1/(spare−x).
func (l Load) Separate() (share, both float64, ok bool) {
	if _, _, ok := l.utilization(); !ok {
		return 0, 0, false
	}
	k, d, spare := float64(l.Hops), l.Transfer, l.Service-l.Interactive-l.Default
	// The root of dx² − bx − k·spare, in the form that holds for d = 0 too.
	b := d*spare - k - 1
	root := math.Sqrt(b*b + 4*d*k*spare)
	x := 2 * k * spare / (root - b)
	if b > 0 {
		x = (b + root) / (2 * d)
	}
	return (x + l.Interactive) / l.Service, 1 / (spare - x), true
}

// latency adds service and transfer to the waits at a server.
func (l Load) latency(interactive, standard float64) Latency {
	service := 1 / l.Service
	return Latency{float64(l.Hops)*(interactive+service) + l.Transfer, standard + service}
}
