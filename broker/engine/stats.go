package engine

import (
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/signal"
)

// statsWindow is the time over which quantiles and rates are told: the last full
// one.
const statsWindow = 10 * time.Second

// Delays are quantiles of a delay.
type Delays struct {
	P50, P95, P99 time.Duration
}

// Stats are those of one limit, or of all topics without one.
type Stats struct {
	// Limit is the limit, with its defaults; its Filter is empty for the topics
	// without one.
	Limit Limit
	// Topics is how many topics it covers now.
	Topics int
	// Released counts the messages that were delivered, Waited those of them that had
	// to wait, Refused those that were not, by verdict.
	Released, Waited uint64
	Refused          map[string]uint64
	// Rate is the released messages a second in the last full window of 10 s; before the
	// first one is full, up to now.
	Rate float64
	// Backlog and BacklogBytes are what waits now.
	Backlog, BacklogBytes int
	// Access is the wait for tokens, and Processing all other time from the arrival
	// of a message until the kernel has it for its subscribers, in the last window.
	Access, Processing Delays
}

// stats collects. Its methods may be called from any goroutine.
type stats struct {
	mu               sync.Mutex
	released, waited uint64
	refused          [numVerdicts]uint64

	access, processing signal.Sketch // of the window that runs
	inWindow           uint64
	began              mono.Time
	full               bool // a window is over
	last               window
}

// window is what is told of a window that is over.
type window struct {
	rate               float64
	access, processing Delays
}

// enter adds what a batch delivered: took is the time since its arrival, late that
// since it began.
func (s *stats) enter(t *tally, took, late time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := uint64(t.direct) + uint64(len(t.waits))
	s.released += n
	s.inWindow += n
	s.waited += uint64(len(t.waits))
	for v, n := range t.refused {
		s.refused[v] += uint64(n)
	}
	s.access.AddN(0, t.direct)
	s.processing.AddN(took, t.direct)
	for _, w := range t.waits {
		s.access.Add(w.access)
		s.processing.Add(w.late + late)
	}
}

// turn ends the window if it is over. The first one is told before it is.
func (s *stats) turn(now mono.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	length := now.Sub(s.began)
	over := length >= statsWindow
	if length > 0 && (over || !s.full) {
		s.last = window{float64(s.inWindow) / length.Seconds(), delays(&s.access), delays(&s.processing)}
	}
	if over {
		s.full = true
		s.access.Reset()
		s.processing.Reset()
		s.inWindow, s.began = 0, now
	}
}

func delays(s *signal.Sketch) Delays {
	return Delays{s.Quantile(0.5), s.Quantile(0.95), s.Quantile(0.99)}
}

// p99 returns those of the last window.
func (s *stats) p99() (access, processing time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.access.P99, s.last.processing.P99
}

// told returns what is known, without backlog and topics.
func (s *stats) told() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Stats{Released: s.released, Waited: s.waited, Refused: map[string]uint64{}, Rate: s.last.rate,
		Access: s.last.access, Processing: s.last.processing}
	for _, v := range [...]Verdict{OverRate, QueueFull} {
		out.Refused[v.String()] = s.refused[v]
	}
	return out
}
