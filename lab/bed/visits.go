package bed

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/internal/work"
)

// visits notes what a proxy logs of each request that it let through. It handles the log
// of a proxy that has as many slots as its server has workers.
type visits struct {
	mu  sync.Mutex
	all []visit
}

// visit is one request's passage through the slots of a proxy.
type visit struct {
	passage
	class work.Class
}

// Enabled implements slog.Handler.
func (v *visits) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler. The proxy logs requests without any.
func (v *visits) WithAttrs([]slog.Attr) slog.Handler { return v }

// WithGroup implements slog.Handler. The proxy logs requests without any.
func (v *visits) WithGroup(string) slog.Handler { return v }

// Handle implements slog.Handler.
func (v *visits) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "request" {
		return nil
	}
	one := visit{passage: passage{ended: r.Time}}
	var queued, served time.Duration
	var err error
	admitted := false
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "decision":
			admitted = a.Value.String() == "admit"
		case "class":
			one.class, err = classify.ParseClass(a.Value.String())
		case "queued":
			queued = max(a.Value.Duration(), 0)
		case "service":
			served = max(a.Value.Duration(), 0)
		}
		return true
	})
	if !admitted || err != nil {
		return err
	}
	one.started = one.ended.Add(-served)
	one.arrived = one.started.Add(-queued)
	v.mu.Lock()
	v.all = append(v.all, one)
	v.mu.Unlock()
	return nil
}

// replay says what the visits so far waited, and what they would have in order of arrival:
// workers take the same arrivals up for as long as they were taken up in turn.
func (v *visits) replay(workers int) *Law {
	v.mu.Lock()
	defer v.mu.Unlock()
	arrivals := slices.SortedFunc(slices.Values(v.all), func(a, b visit) int { return a.arrived.Compare(b.arrived) })
	starts := slices.SortedFunc(slices.Values(v.all), func(a, b visit) int {
		return cmp.Or(a.started.Compare(b.started), a.arrived.Compare(b.arrived))
	})
	l := newLedger(workers)
	for _, s := range starts {
		for len(arrivals) > 0 && !arrivals[0].arrived.After(s.started) {
			l.arrive(arrivals[0].arrived, arrivals[0].class)
			arrivals = arrivals[1:]
		}
		l.start(s.class, s.waited(), s.service())
	}
	l.law.Finished = len(v.all)
	return &l.law
}
