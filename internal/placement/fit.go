package placement

import "math"

// Tolerance is how far below the objective a p99 may be for a search to end: the broker is
// well used, and a closer answer is not worth a further round (section 6.5).
const Tolerance = 0.2

// Fit searches by measurement how many publishers a broker can hold.
type Fit struct {
	assigned   int
	held, over int     // most that met the objective, fewest that did not
	missed     float64 // the p99 of over
	try        int
	done       bool
}

// NewFit searches among 1 to assigned publishers, and begins with guess: assigned, unless
// something better is known.
func NewFit(assigned, guess int) *Fit {
	return &Fit{assigned: assigned, over: assigned + 1, try: min(max(guess, 1), assigned), done: assigned <= 0}
}

// Try returns how many publishers the broker gets in this round, and whether the
// search is over: then it is how many it can hold.
func (f *Fit) Try() (publishers int, over bool) {
	if f.done {
		return f.held, true
	}
	return f.try, false
}

// Observe ends a round: what the p99 was, in the unit of the objective. A p99 that is not a
// number counts as missed. Where a smaller share is later than a larger one, the search ends with
// what was met so far, or none.
//
// The next number is in proportion, since bursts make the p99 and are as large as the share
// is; but never more than halfway to what is known to be wrong, as delays grow faster
// than loads near the capacity.
func (f *Fit) Observe(p99, objective float64) {
	if f.done {
		return
	}
	if met := p99 <= objective; met {
		f.held = f.try
		f.done = p99 >= objective*(1-Tolerance) || f.try == f.assigned
	} else {
		// A smaller share that is later still lacks bucket, not broker: smaller ones are worse.
		f.done = f.over <= f.assigned && p99 > f.missed
		f.over, f.missed = f.try, p99
	}
	if f.done = f.done || f.over-f.held <= max(1, f.assigned/100); f.done {
		return
	}
	ratio := (1 - Tolerance/2) * objective / p99
	if !(ratio > 0) {
		ratio = 0.5
	}
	next := int(math.Round(float64(f.try) * min(max(ratio, 0.5), 2)))
	if middle := (f.held + f.over) / 2; next > f.try && f.over <= f.assigned {
		next = min(next, middle)
	} else if next < f.try && f.held > 0 {
		next = max(next, middle)
	}
	f.try = min(max(next, f.held+1), f.over-1)
}
