// Package measure records what became of every request of a run, shows it
// while the run goes on, and decides at the end whether the run counts.
//
//	Begin(intended) ──▶ Op ── Sent(now) ── End(now, outcome)
//	      │                      │                │
//	   offered               send lag    latency or refusal time, from intended
//
// What it keeps, in windows of a tenth of a second and for the run as a whole:
// requests offered, sent, served, served within the SLO, refused and failed by
// reason; distributions of latency, time to refusal and send lag; the age of
// the oldest request in flight.
//
// Invariants:
//
//   - Every duration is counted from the intended instant, so a generator or a
//     server that falls behind makes the numbers worse, never better.
//   - Offered = NotSent + ended in any way + in flight, at every moment.
//   - Arrivals are counted in the window they were meant for, endings in the
//     window they happened in; OnTime looks back at the former.
//   - A Result is valid only if everything offered was sent and the p99 of the
//     send lag is at most a tenth of the SLO.
//
// Recording is spread over shards, each behind its own lock, and costs one
// allocation a request.
//
// What this package does not do: it reads no clock, starts no goroutine and
// sends nothing. The caller passes instants, which must carry Go's monotonic
// reading.
package measure

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxWindows is the length of the time series in windows, one hour of tenths
// of a second. What happens later is counted in the last one.
const maxWindows = 36_000

// maxDuration is the longest duration the run's histograms tell apart.
const maxDuration = 10 * time.Minute

// Config sizes a Recorder. Zero fields take the default named in their comment.
type Config struct {
	// SLO is the latency objective. Required: what is good depends on it.
	SLO time.Duration
	// Window is the resolution of the time series. Default 100 ms. Smaller
	// shows faster changes with noisier quantiles, and costs up to 3 KB a
	// window and shard. At least 1 ms.
	Window time.Duration
}

func (c Config) validate() error {
	var errs []error
	if c.SLO <= 0 {
		errs = append(errs, fmt.Errorf("SLO is %v, must be above 0", c.SLO))
	}
	if c.Window < time.Millisecond {
		errs = append(errs, fmt.Errorf("Window is %v, must be at least 1ms", c.Window))
	}
	return errors.Join(errs...)
}

// Recorder records one run. All methods are safe for concurrent use.
type Recorder struct {
	cfg     Config
	base    time.Time
	start   atomic.Int64 // start of the run, from base
	next    atomic.Uint64
	shards  []*shard // a power of two
	reasons reasons
}

// shard holds the records of a part of the requests.
type shard struct {
	mu        sync.Mutex
	total     Counts
	refusedBy tally
	failedBy  tally
	latency   *hdrhistogram.Histogram
	refusal   *hdrhistogram.Histogram
	lag       *hdrhistogram.Histogram
	oldest    time.Duration
	windows   []*window
	inFlight  int
	first     *Op // in flight, in the order of Begin
	last      *Op
	_         [64]byte
}

type window struct {
	Counts
	refusedBy tally
	failedBy  tally
	latency   *sketch
	refusal   *sketch
	oldest    time.Duration
}

// NewRecorder returns a Recorder whose run starts now; see Start.
func NewRecorder(cfg Config) (*Recorder, error) {
	if cfg.Window == 0 {
		cfg.Window = 100 * time.Millisecond
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("measure: %w", err)
	}
	r := &Recorder{cfg: cfg, base: time.Now()}
	n := 1
	for n < runtime.GOMAXPROCS(0) && n < 16 {
		n *= 2
	}
	for range n {
		r.shards = append(r.shards, &shard{latency: newHistogram(), refusal: newHistogram(), lag: newHistogram()})
	}
	return r, nil
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(maxDuration), 3)
}

// Start sets the instant from which the run's windows are counted. It must be
// called before the first Begin, if at all.
func (r *Recorder) Start(at time.Time) { r.start.Store(int64(at.Sub(r.base))) }

// since returns the time from the start of the run until t.
func (r *Recorder) since(t time.Time) time.Duration {
	return t.Sub(r.base) - time.Duration(r.start.Load())
}

func (r *Recorder) pick() *shard {
	return r.shards[r.next.Add(1)&uint64(len(r.shards)-1)]
}

// window returns the window that d falls into, making it if needed. The
// caller holds s.mu.
func (s *shard) window(r *Recorder, d time.Duration) *window {
	i := min(int(max(d, 0)/r.cfg.Window), maxWindows-1)
	for len(s.windows) <= i {
		s.windows = append(s.windows, nil)
	}
	if s.windows[i] == nil {
		s.windows[i] = &window{}
	}
	return s.windows[i]
}

// Op is one request under way. End it exactly once, Sent before that.
type Op struct {
	recorder   *Recorder
	shard      *shard
	intended   time.Duration
	sent       bool
	ended      bool
	prev, next *Op
}

// Begin counts a request that is meant to leave at the given instant.
func (r *Recorder) Begin(intended time.Time) *Op {
	s := r.pick()
	op := &Op{recorder: r, shard: s, intended: r.since(intended)}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.window(r, op.intended)
	w.Offered++
	s.total.Offered++
	s.inFlight++
	if s.first == nil {
		s.first = op
	} else {
		op.prev, s.last.next = s.last, op
		s.age(w, op.intended-s.first.intended)
	}
	s.last = op
	return op
}

// age notes that a request of the given age was seen in window w.
func (s *shard) age(w *window, age time.Duration) {
	w.oldest = max(w.oldest, age)
	s.oldest = max(s.oldest, age)
}

// Skip counts a request that should have left at the given instant and that
// the generator did not send, because it was at its own limit.
func (r *Recorder) Skip(intended time.Time) {
	s := r.pick()
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.window(r, r.since(intended))
	w.Offered++
	w.NotSent++
	s.total.Offered++
	s.total.NotSent++
}

// Sent notes that the request was handed to the code under test at now. Only
// the first call counts.
func (op *Op) Sent(now time.Time) {
	r, s := op.recorder, op.shard
	at := r.since(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if op.sent || op.ended {
		return
	}
	op.sent = true
	w := s.window(r, at)
	w.Sent++
	s.total.Sent++
	record(s.lag, at-op.intended)
}

// End notes how the request ended, at now. Only the first call counts.
func (op *Op) End(now time.Time, o Outcome) {
	r, s := op.recorder, op.shard
	at := r.since(now)
	took := at - op.intended
	reason := -1
	if o.Kind == Refused || o.Kind == Failed {
		reason = r.reasons.id(o.Reason)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if op.ended {
		return
	}
	op.ended = true
	s.unlink(op)
	w := s.window(r, at)
	s.age(w, took)
	switch o.Kind {
	case Served:
		w.Served++
		s.total.Served++
		if w.latency == nil {
			w.latency = &sketch{}
		}
		w.latency.record(took)
		record(s.latency, took)
		if took <= r.cfg.SLO {
			w.Good++
			s.total.Good++
			s.window(r, op.intended).OnTime++
			s.total.OnTime++
		}
	case Refused:
		w.Refused++
		s.total.Refused++
		w.refusedBy.inc(reason)
		s.refusedBy.inc(reason)
		if w.refusal == nil {
			w.refusal = &sketch{}
		}
		w.refusal.record(took)
		record(s.refusal, took)
	case TimedOut:
		w.TimedOut++
		s.total.TimedOut++
	case Unfinished:
		w.Unfinished++
		s.total.Unfinished++
	default:
		w.Failed++
		s.total.Failed++
		w.failedBy.inc(max(reason, 0))
		s.failedBy.inc(max(reason, 0))
	}
}

func (s *shard) unlink(op *Op) {
	s.inFlight--
	if op.prev != nil {
		op.prev.next = op.next
	} else {
		s.first = op.next
	}
	if op.next != nil {
		op.next.prev = op.prev
	} else {
		s.last = op.prev
	}
	op.prev, op.next = nil, nil
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(int64(min(max(d, 0), maxDuration))) // always in range
}

func dist(h *hdrhistogram.Histogram) Dist {
	if h.TotalCount() == 0 {
		return Dist{}
	}
	mean := h.Mean()
	if math.IsNaN(mean) {
		mean = 0
	}
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) }
	return Dist{
		Count: uint64(h.TotalCount()),
		Mean:  time.Duration(mean),
		P50:   at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Max: time.Duration(h.Max()),
	}
}
