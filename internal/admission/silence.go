package admission

import "github.com/spillgate/spillgate/internal/mono"

// silence is the evidence that departures have become rarer while every slot was taken: the
// CUSUM test (Page 1954) for a Poisson process whose rate falls. Time without a departure counts
// while it passes. If departures were 1 ms apart and a server becomes 20 times slower, their mean
// shows it after a dozen departures, 300 ms, and all requests that start meanwhile are late. This
// test takes three departures, 60 ms. The zero silence knows nothing.
type silence struct {
	odds  float64   // logarithm of the likelihood ratio, from 0
	since float64   // part of them that is of the time since the last departure
	spent float64   // ns since the odds were 0
	count float64   // departures in them
	last  mono.Time // up to when time is counted
	full  bool      // every slot is taken: time counts
}

const (
	// rarer is the factor by which departures become rarer that the test looks for, and perEnd its
	// logarithm. A server that became four times slower is recognized after 35 of the old gaps. At 0.6
	// of the old rate the odds stay constant, so chance decides, and the measured gap is taken.
	rarer  = 3
	perEnd = 1.0986
	// clearly is the evidence that is enough: ln 10⁶, at random departures a chance of one in a million.
	clearly = 13.8
	// each is the most that one gap counts, because a server that stops for a moment goes on as before, and
	// requests that wait may be in time. Two long gaps and a part of a third tell a slow server from that.
	each = clearly / 2
	// rounds is how many residences the evidence must span: requests that take equally long and
	// began together leave together, one residence after the others.
	rounds = 2
)

// pass counts the time up to now. A mean time between departures that is hardly known yet
// tells nothing.
func (s *silence) pass(now mono.Time, gap *mean) {
	if s.full {
		s.wait(now, gap)
	}
	s.last = now
}

// wait counts the time up to now, in which every slot was taken.
func (s *silence) wait(now mono.Time, gap *mean) {
	if dt := float64(now.Sub(s.last)); dt > 0 && gap.count > quickMemory {
		s.spent += dt
		s.since = min(s.since+dt/gap.value*(1-1.0/rarer), each)
	}
}

// clear reports whether the evidence is enough, if it also spans enough time: see gap.
func (s *silence) clear() bool { return s.odds+s.since >= clearly }

// leave counts a departure.
func (s *silence) leave() {
	s.count++
	s.odds += s.since - perEnd
	if s.since = 0; s.odds <= 0 {
		s.odds, s.spent, s.count = 0, 0, 0
	}
}

// gap returns the mean time between departures that the evidence tells of, in ns, if it is
// clear and spans a few residences; else 0.
func (s *silence) gap(residence float64) float64 {
	if !s.clear() || s.spent < rounds*residence {
		return 0
	}
	return s.spent / (s.count + 1)
}
