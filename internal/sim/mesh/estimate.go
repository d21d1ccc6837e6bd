package mesh

import (
	"math"
	"time"
)

// manyThreads is the threads per worker of a service that only calls others.
const manyThreads = 1000

// threads returns about how many calls keep the workers of a service busy.
func (w *World) threads(service int32) int {
	most := 1.0
	for i, st := range w.program.stages {
		if st.service != service {
			continue
		}
		work := 0.0
		for _, s := range w.program.steps[st.first:st.last] {
			if s.timed() {
				work += s.mean
			}
		}
		most = math.Max(most, math.Min(w.estimates[i]/math.Max(work, 1), manyThreads))
	}
	return int(math.Ceil(most)) * w.cfg.Services[service].Resources[0].Capacity
}

// objectives fills in the objectives of services that have none.
func (w *World) objectives() {
	estimates := make([]float64, len(w.program.stages))
	for i := len(estimates) - 1; i >= 0; i-- { // callees come after callers
		estimates[i] = w.estimate(i, estimates)
	}
	for si := range w.cfg.Services {
		s := &w.cfg.Services[si]
		if s.Objective > 0 {
			continue
		}
		most := 0.0
		for i, st := range w.program.stages {
			if int(st.service) == si {
				most = math.Max(most, estimates[i])
			}
		}
		if most == 0 {
			most = float64(time.Millisecond)
		}
		s.Objective = max(durationOf(w.cfg.Headroom*most), time.Microsecond)
	}
	w.estimates = estimates
}

// estimate returns about how long a stage takes alone, in nanoseconds, given the
// estimates of the stages that it calls.
func (w *World) estimate(stage int, of []float64) float64 {
	st := w.program.stages[stage]
	sum := 0.0
	for _, s := range w.program.steps[st.first:st.last] {
		if s.timed() {
			sum += s.mean
		}
		if s.kind != stepCalls {
			continue
		}
		longest := 0.0
		for _, k := range w.program.calls[s.first:s.last] {
			n := float64(k.least+k.most) / 2 * (1 - k.skip)
			one := of[k.stage] + 2*float64(w.cfg.Network.Delay)
			if !s.parallel {
				sum += n * one
				continue
			}
			callee := &w.cfg.Services[k.service]
			units := float64(callee.Processes * callee.Resources[0].Capacity)
			longest = math.Max(longest, one*(1+math.Max(n-1, 0)/units))
		}
		sum += longest
	}
	return sum
}
