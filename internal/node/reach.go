package node

import "time"

// Reach says whether a gate's objective can be met at all.
type Reach struct {
	// Objective is the gate's.
	Objective time.Duration
	// Out says that the service takes longer than that even where nothing waits, so that
	// every answer is late. Requests are served all the same.
	Out bool
	// Service is the least time that one of the last 32 requests took to be served, no
	// queue in front of it included.
	Service time.Duration
}

const (
	// reachSample is after how many executed requests the reach is judged: if half of them
	// could be in time, none of 32 is by chance once in four billion windows.
	reachSample = 32
	// reachBack is the share of a window that has to be served within the objective for it
	// to be within reach again, once it was not.
	reachBack = 1.0 / 4
)

// reach judges whether the objective can be met: not, if no request of a window was
// served within it, and the estimate of the service time without a queue does not say that
// this is a queue's doing.
type reach struct {
	out    bool
	n, met int
	least  time.Duration // of the window
	known  time.Duration // of the last whole window
}

// add takes what an executed request without an objective of its own took from its start,
// and the estimate of what it takes where nothing waits. It reports whether the judgement
// has changed.
func (r *reach) add(took, objective, alone time.Duration) (changed bool) {
	if r.n == 0 || took < r.least {
		r.least = took
	}
	if took <= objective {
		r.met++
	}
	if r.n++; r.n < reachSample {
		return false
	}
	was, met := r.out, float64(r.met)/reachSample
	r.known = r.least
	r.n, r.met = 0, 0
	switch {
	case met == 0 && alone > objective/2:
		r.out = true
	case met >= reachBack:
		r.out = false
	}
	return r.out != was
}
