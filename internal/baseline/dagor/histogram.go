package dagor

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/signal"
	"github.com/spillgate/spillgate/internal/work"
)

// The original's constants, SoCC'18 section 4.2: how much is given up in
// overload, as a share of the admitted, and taken back, as a share of all.
const (
	giveUp   = 0.05
	takeBack = 0.01
)

// histogram is the original's law. A window's mean waiting time decides, and the
// counts by priority tell how far the level must move to change the admitted
// requests by the wanted share.
type histogram struct {
	threshold time.Duration
	requests  int
	level     int
	waits     signal.Meter
	counts    [levels]int
	total     int
	admitted  int
}

func newHistogram(cfg Config) *histogram {
	return &histogram{threshold: cfg.Threshold, requests: cfg.Requests, level: levels - 1, waits: signal.NewMeter(cfg.Window, 0)}
}

func (h *histogram) get() int { return h.level }

func (h *histogram) onArrival(now mono.Time, p work.Priority, admitted bool) {
	h.counts[min(int(p), levels-1)]++
	h.total++
	if admitted {
		h.admitted++
	}
	if h.total >= h.requests || h.waits.Due(now) {
		h.endWindow(now)
	}
}

func (h *histogram) onStart(now mono.Time, waited time.Duration) { h.waits.Add(now, waited) }

func (h *histogram) wake() mono.Time {
	if h.total == 0 && h.level == levels-1 {
		return mono.Never // nothing to learn, nothing to take back
	}
	return h.waits.Wake()
}

func (h *histogram) onWake(now mono.Time, _ time.Duration) {
	if h.waits.Due(now) {
		h.endWindow(now)
	}
}

func (h *histogram) endWindow(now mono.Time) {
	h.move(h.waits.End(now).Mean > h.threshold)
	h.counts, h.total, h.admitted = [levels]int{}, 0, 0
}

// move is algorithm 1 of the paper.
func (h *histogram) move(overloaded bool) {
	admitted := float64(h.admitted)
	if overloaded {
		want := (1 - giveUp) * admitted
		for admitted > want && h.level > 0 {
			admitted -= float64(h.counts[h.level])
			h.level--
		}
		return
	}
	want := admitted + takeBack*float64(h.total)
	for admitted < want && h.level < levels-1 {
		h.level++
		admitted += float64(h.counts[h.level])
	}
}
