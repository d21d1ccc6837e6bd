// Package limiter is a Door that refuses what exceeds an adaptive limit on
// running requests, as the limiters of Netflix's concurrency-limits do, and
// feeds the algorithm that moves the limit.
//
//	Arrive ──▶ running < limit? ──▶ Run ──▶ Leave ──▶ Algorithm.Sample ──▶ limit
//	       └─▶ else ─────────────▶ Shed
//
// Invariants: a request that ran is one sample, unless its outcome was Ignored.
//
// What this package does not do: it queues nothing, and it holds no algorithm.
//
// Source: github.com/Netflix/concurrency-limits, AbstractLimiter, SimpleLimiter
// and WindowedLimit.
package limiter

import (
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// Algorithm moves the limit.
type Algorithm interface {
	// Sample takes one completion: its time from start to end, the requests that
	// ran when it started, itself included, and whether it was dropped.
	Sample(rtt time.Duration, inflight int, dropped bool)
	// Limit returns the most requests that may run.
	Limit() int
}

// Door is a limiter. It is not safe for concurrent use.
type Door struct {
	baseline.NoClients
	baseline.NoTimer
	baseline.NoQueue
	algorithm Algorithm
	running   int
	window    *window // nil: every completion is a sample
}

// New returns a door over an algorithm. A window above 0 sums the completions of
// that time up into one sample, their mean, as WindowedLimit does.
func New(a Algorithm, length time.Duration) *Door {
	d := &Door{algorithm: a}
	if length > 0 {
		d.window = &window{length: length}
	}
	return d
}

// Limit returns the most requests that may run.
func (d *Door) Limit() int { return d.algorithm.Limit() }

// Running returns the requests that run.
func (d *Door) Running() int { return d.running }

// Arrive runs t or sheds it.
func (d *Door) Arrive(now mono.Time, t *admission.Ticket) admission.Verdict {
	t.Begin(now)
	if d.running >= d.algorithm.Limit() {
		return t.Refuse(now, work.QueueFull)
	}
	d.running++
	t.Mark = d.running
	return t.Start(now)
}

// Leave ends t and feeds the algorithm.
func (d *Door) Leave(now mono.Time, t *admission.Ticket, o work.Outcome) {
	if !t.End() {
		return
	}
	d.running--
	if o == work.Ignored {
		return
	}
	rtt := max(now.Sub(t.Started()), 1)
	if d.window == nil {
		d.algorithm.Sample(rtt, t.Mark, o == work.Dropped)
		return
	}
	if w, ok := d.window.add(now, rtt, t.Mark, o == work.Dropped); ok {
		d.algorithm.Sample(w.sum/time.Duration(w.count), w.inflight, w.dropped)
	}
}

// minSamples and minRTT are WindowedLimit's: a window needs ten samples, and
// those under 100 µs are left out.
const (
	minSamples = 10
	minRTT     = 100 * time.Microsecond
)

type window struct {
	length   time.Duration
	end      mono.Time
	sum      time.Duration
	count    int
	inflight int
	dropped  bool
}

// add takes a completion and returns the window it ended, if that has enough.
func (w *window) add(now mono.Time, rtt time.Duration, inflight int, dropped bool) (window, bool) {
	if rtt < minRTT {
		return window{}, false
	}
	w.sum += rtt
	w.count++
	w.inflight = max(w.inflight, inflight)
	w.dropped = w.dropped || dropped
	if now <= w.end {
		return window{}, false
	}
	done := *w
	*w = window{length: w.length, end: now.Add(w.length)}
	return done, done.count >= minSamples
}
