package admission

import "github.com/spillgate/spillgate/internal/mono"

// silence is the evidence that departures have become rarer while every slot was taken: the
// CUSUM test (Page 1954) for a Poisson process whose rate falls. Time in which nothing departs
// counts while it passes. The mean of departures learns of a server that became 20 times slower
// only when a dozen have come, after 300 ms where they were 1 ms apart, and lets the queue grow
// meanwhile. This takes 30 ms. The zero silence knows nothing.
type silence struct {
	odds  float64   // logarithm of the likelihood ratio, from 0
	spent float64   // ns since the odds were 0
	count float64   // departures in them
	last  mono.Time // up to when time is counted
	full  bool      // every slot is taken: time counts
}

const (
	// rarer is how many times rarer the departures are that the test looks for, and perEnd its
	// logarithm. Those of a server that became four times slower are enough after 35 of the old gaps.
	// At 0.6 of the old rate the odds stay where they are, so that chance decides: the gap that is
	// then taken is the one that was seen.
	rarer  = 3
	perEnd = 1.0986
	// clear is the evidence that is enough: ln 10⁶, at random departures a chance of one in a million.
	clear = 13.8
	// rounds is how many residences the evidence must span: requests that take equally long and
	// began together leave together, one residence after the others.
	rounds = 2
)

// pass counts the time up to now. A mean time between departures that is hardly known yet
// tells nothing.
func (s *silence) pass(now mono.Time, gap *mean) {
	if dt := float64(now.Sub(s.last)); dt > 0 && s.full && gap.count > quickMemory {
		s.spent += dt
		s.odds += dt / gap.value * (1 - 1.0/rarer)
	}
	s.last = max(s.last, now)
}

// leave counts a departure.
func (s *silence) leave() {
	s.count++
	if s.odds -= perEnd; s.odds <= 0 {
		s.odds, s.spent, s.count = 0, 0, 0
	}
}

// gap returns the mean time between departures that the evidence tells of, in ns, if it is
// clear and spans a few residences; else 0.
func (s *silence) gap(residence float64) float64 {
	if s.odds < clear || s.spent < rounds*residence {
		return 0
	}
	return s.spent / (s.count + 1)
}
