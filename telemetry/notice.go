package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// Notice is the least time between two log lines about the refusals of one
// gate: at ten seconds a day of overload is 8,640 lines, not one a request.
const Notice = 10 * time.Second

// notice sums up refusals for the log: the first at once, those that follow when Notice has
// passed, also if none came lately.
type notice struct {
	log    *slog.Logger
	gate   string
	counts [work.NumReasons]atomic.Int64
	// waits is true from a line until Notice has passed without a refusal.
	waits atomic.Bool
	// watched is the gate whose state a line has; nil before Gate.Watch.
	watched atomic.Pointer[live.Gate]
}

// reach logs that the objective cannot be met, or can be again.
func (n *notice) reach(r live.Reach) {
	if n.log == nil {
		return
	}
	attrs := []any{slog.String("gate", n.gate), slog.Duration("objective", r.Objective), slog.Duration("service", r.Service)}
	if r.Out {
		n.log.Warn("objective out of reach: the service takes longer although no request waits, so every answer is late", attrs...)
		return
	}
	n.log.Info("objective within reach again", attrs...)
}

// refused counts a refusal, and logs it if it is the first for a while. Concurrent calls
// write one line between them.
func (n *notice) refused(r work.Reason) {
	if n.log == nil {
		return
	}
	n.counts[r].Add(1)
	if n.waits.CompareAndSwap(false, true) {
		n.line()
		time.AfterFunc(Notice, n.again)
	}
}

// again logs what was refused since the last line, Notice ago. After a Notice without a
// refusal, the next one is logged at once.
func (n *notice) again() {
	for !n.line(slog.Duration("since", Notice)) {
		n.waits.Store(false)
		if !n.some() || !n.waits.CompareAndSwap(false, true) {
			return
		}
	}
	time.AfterFunc(Notice, n.again)
}

// some reports whether a refusal is counted that no line has.
func (n *notice) some() bool {
	for r := range n.counts {
		if n.counts[r].Load() > 0 {
			return true
		}
	}
	return false
}

// line logs what is counted, beside the state of the gate, and starts again; it reports false if nothing is counted.
func (n *notice) line(more ...any) bool {
	attrs := []any{slog.String("gate", n.gate)}
	total, drained := int64(0), int64(0)
	for r := range n.counts {
		if c := n.counts[r].Swap(0); c > 0 {
			if total += c; work.Reason(r) == work.Draining {
				drained = c
			}
			attrs = append(attrs, slog.Int64(work.Reason(r).String(), c))
		}
	}
	if total == 0 {
		return false
	}
	attrs = append(attrs, slog.Int64("refused", total))
	level, text := slog.LevelWarn, "overload: requests refused"
	if drained == total {
		level, text = slog.LevelInfo, "draining: requests refused"
	}
	attrs = append(attrs, more...)
	if gate := n.watched.Load(); gate != nil {
		// More load leaves the service time as it was; a slower service does not.
		s := gate.Stats()
		attrs = append(attrs, slog.Int("slots", s.Limit), slog.Int("running", s.Running), slog.Int("waiting", s.Waiting),
			slog.Duration("service", s.Service), slog.Duration("objective", s.Objective))
	}
	n.log.Log(context.Background(), level, text, attrs...)
	return true
}
