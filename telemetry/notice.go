package telemetry

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// Notice is the least time between two log lines about the refusals of one
// gate: at ten seconds a day of overload is 8,640 lines, not one a request.
const Notice = 10 * time.Second

// notice sums up refusals for the log.
type notice struct {
	log    *slog.Logger
	gate   string
	counts [work.NumReasons]atomic.Int64
	// last is when the last line was written, in nanoseconds since the Unix
	// epoch, 0 before the first.
	last atomic.Int64
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

// refused counts a refusal, and logs what was counted since the last line if
// that is long ago. Concurrent calls write one line between them.
func (n *notice) refused(r work.Reason) {
	if n.log == nil {
		return
	}
	n.counts[r].Add(1)
	now, last := time.Now(), n.last.Load()
	since := now.Sub(time.Unix(0, last))
	if last != 0 && since < Notice || !n.last.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	attrs := []any{slog.String("gate", n.gate)}
	total := int64(0)
	for r := range n.counts {
		if c := n.counts[r].Swap(0); c > 0 {
			total += c
			attrs = append(attrs, slog.Int64(work.Reason(r).String(), c))
		}
	}
	attrs = append(attrs, slog.Int64("refused", total))
	if last != 0 {
		attrs = append(attrs, slog.Duration("since", since.Round(time.Millisecond)))
	}
	n.log.Warn("overload: requests refused", attrs...)
}
