package taskfile

import (
	"context"
	"time"
)

const (
	// clockEvery is the period of the coarse clock.
	clockEvery = time.Millisecond
	// reclaimEvery is how often slots of the dead are freed. Looks leave them
	// out anyway.
	reclaimEvery = time.Second
)

// Run keeps the clock, looks at the file each period, hands the look to see, and
// frees what the dead left, until ctx ends or the file is gone; its error says
// which. See calls Cancel and SetMode as it decides. Periods of 50 to 500 ms are
// usual. The caller sets the mode first: with Off the clock stands still.
func (e *Engine) Run(ctx context.Context, period, objective time.Duration, see func(*Look)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := e.keepClock(ctx); err != nil {
			cancel(err)
		}
	}()
	defer func() {
		cancel(nil)
		<-stopped
	}()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for reclaimed := time.Now(); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		look, err := e.Look(objective)
		if err != nil {
			return err
		}
		see(look)
		if time.Since(reclaimed) >= reclaimEvery {
			reclaimed = time.Now()
			if _, err := e.Reclaim(); err != nil {
				return err
			}
		}
	}
}

// keepClock ticks until ctx ends.
func (e *Engine) keepClock(ctx context.Context) error {
	ticker := time.NewTicker(clockEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := e.Tick(); err != nil {
				return err
			}
		}
	}
}
