package bed

import (
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/world"
)

// arrivals returns the instants at which group i means to send, nil if it is a closed
// loop.
func (p *plan) arrivals(i int, seed uint64) (openloop.Arrivals, error) {
	switch g := &p.Clients[i]; {
	case g.Load.Users > 0:
		return nil, nil
	case len(g.Load.Arrivals) > 0:
		return &replay{trace: g.Load.Arrivals, until: p.Length}, nil
	default:
		return openloop.Poisson(profile(g.Load.Steps, p.Length, p.Capacity(i)), seed)
	}
}

// profile returns rates over time: steps, of which some hold only now and then.
func profile(steps []world.Rate, length time.Duration, capacity float64) openloop.Profile {
	edges := []time.Duration{0, length}
	for i, s := range steps {
		edges = append(edges, s.At)
		for from := range bursts(steps, i, length) {
			edges = append(edges, from, min(from+s.For, length))
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	var p openloop.Profile
	for i, from := range edges[:len(edges)-1] {
		if from >= length {
			break
		}
		p = append(p, openloop.Step{Rate: rateAt(steps, from, capacity), For: min(edges[i+1], length) - from})
	}
	return p
}

// bursts yields the instants at which step i begins to hold: one, or, if it is a burst,
// all until the next step that is none.
func bursts(steps []world.Rate, i int, length time.Duration) func(yield func(time.Duration) bool) {
	end := length
	for _, later := range steps[i+1:] {
		if later.Every == 0 {
			end = min(end, later.At)
			break
		}
	}
	return func(yield func(time.Duration) bool) {
		for at := steps[i].At; at < end && yield(at) && steps[i].Every > 0; at += steps[i].Every {
		}
	}
}

// rateAt returns the rate at t: that of the last step that holds then.
func rateAt(steps []world.Rate, t time.Duration, capacity float64) float64 {
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		if s.At > t || s.Every > 0 && (t-s.At)%s.Every >= s.For {
			continue
		}
		if s.PerSecond > 0 || s.Times == 0 {
			return s.PerSecond
		}
		return s.Times * capacity
	}
	return 0
}

// replay repeats a trace until an instant, each time a mean gap after its last one.
type replay struct {
	trace []time.Duration
	until time.Duration
	i     int
	base  time.Duration
}

func (r *replay) Next() (time.Duration, bool) {
	if r.i == len(r.trace) {
		last, n := r.trace[len(r.trace)-1], time.Duration(len(r.trace))
		r.i, r.base = 0, r.base+max(last+last/n, 1)
	}
	at := r.base + r.trace[r.i]
	r.i++
	return at, at < r.until
}
