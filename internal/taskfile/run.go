package taskfile

import (
	"context"
	"fmt"
	"time"
)

// reclaimEvery is how often slots of the dead are freed. Looks leave them out
// anyway.
const reclaimEvery = time.Second

// Loop says how Engine.Run works.
type Loop struct {
	// Period is the time between looks, 50 to 500 ms. Required.
	Period time.Duration
	// Objective is the latency beyond which a task counts as late. Required.
	Objective time.Duration
	// Clock is the period of the coarse clock. Default: an 8th of Objective, 1 to
	// 10 ms. Shorter makes instants more exact and costs more: each tick wakes a
	// thread, which a virtual machine pays with 25 to 110 µs of a processor.
	Clock time.Duration
	// See is called with each look. It calls Cancel and SetMode as it decides.
	// Required.
	See func(*Look)
}

// Run keeps the clock, looks at the file each period, hands the look to l.See,
// and frees what the dead left, until ctx ends or the file is gone; its error
// says which. The caller sets the mode first.
func (e *Engine) Run(ctx context.Context, l Loop) error {
	if l.Period <= 0 || l.Objective <= 0 || l.Clock < 0 || l.See == nil {
		return fmt.Errorf("taskfile: a loop with period %v, objective %v, clock %v; expected positive durations and a function See", l.Period, l.Objective, l.Clock)
	}
	if l.Clock == 0 {
		l.Clock = clockPeriod(l.Objective)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := e.keepClock(ctx, l.Clock); err != nil {
			cancel(err)
		}
	}()
	defer func() {
		cancel(nil)
		<-stopped
	}()
	ticker := time.NewTicker(l.Period)
	defer ticker.Stop()
	for reclaimed := time.Now(); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		look, err := e.Look(l.Objective)
		if err != nil {
			return err
		}
		l.See(look)
		if time.Since(reclaimed) >= reclaimEvery {
			reclaimed = time.Now()
			if _, err := e.Reclaim(); err != nil {
				return err
			}
		}
	}
}

// clockPeriod returns the period of the clock for an objective. An age is off by a
// period at most; the counters of latencies are up to an 8th of the age wide, so a finer
// clock would hardly tell late tasks better. Waits and holds
// are off by as much, in either direction, so their sums are not. Of more than 10 ms
// FORMAT.md allows nothing; less than 1 ms costs more than mode precise.
func clockPeriod(objective time.Duration) time.Duration {
	return min(max(objective/8, time.Millisecond), 10*time.Millisecond)
}

// slowClock is the time between two ticks while no tracer reads the clock, in modes
// off and precise. A change of the mode ends it.
const slowClock = time.Second

// keepClock ticks until ctx ends.
func (e *Engine) keepClock(ctx context.Context, period time.Duration) error {
	timer := time.NewTimer(period)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.turned:
		case <-timer.C:
		}
		if err := e.Tick(); err != nil {
			return err
		}
		next := period
		if e.Mode() != Coarse {
			next = max(period, slowClock)
		}
		timer.Reset(next)
	}
}
