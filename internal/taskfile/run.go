package taskfile

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
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
	// Clock is the period of the coarse clock while tasks begin too seldom to move it. Default: a quarter of
	// Objective while tasks end well in time and nothing waits, an 8th otherwise; 1 to 10 ms. Shorter makes
	// instants more exact and costs more: each tick wakes a thread, which a virtual machine
	// pays with 25 to 110 µs of a processor.
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
	rate := newClockRate(l)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := e.keepClock(ctx, rate); err != nil {
			cancel(err)
		}
	}()
	defer func() {
		cancel(nil)
		<-stopped
	}()
	ticker := time.NewTicker(l.Period)
	defer ticker.Stop()
	for reclaimed, looked, moves := time.Now(), time.Now(), e.moves(); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		look, err := e.Look(l.Objective)
		if err != nil {
			return err
		}
		rate.follow(look, l.Objective)
		n, since := e.moves(), time.Since(looked)
		e.hand(rate, n-moves, since)
		looked, moves = looked.Add(since), n
		l.See(look)
		if time.Since(reclaimed) >= reclaimEvery {
			reclaimed = time.Now()
			if _, err := e.Reclaim(); err != nil {
				return err
			}
		}
	}
}

// movedEvery is how often tracers must move the clock, on average, for the engine to leave it to them until the next look. They
// move it when it is 1 ms old and a task begins: if tasks begin at random, 1 ms later on average, it is more than 10 ms
// old once in 8,000 moves, e^-9.
const movedEvery = 2 * time.Millisecond

// hand leaves the clock to the tracers, which have moved it n times in a while, or takes it back. Nobody has moved it often
// who has not moved it at all, however short the while: after a look that took long the next one comes at once.
func (e *Engine) hand(rate *clockRate, n uint64, over time.Duration) {
	kept := n > uint64(max(over-1, 0)/movedEvery)
	if rate.kept.Swap(kept) && !kept {
		e.turn()
	}
}

// clockRate is how fast the coarse clock ticks.
type clockRate struct {
	fine, rough time.Duration
	calm        int          // looks in a row that saw nothing late
	period      atomic.Int64 // at present
	kept        atomic.Bool  // tracers move the clock
}

// hurriedLooks is for how many looks the clock stays fine after the last that saw a reason.
const hurriedLooks = 10

// newClockRate returns the rate for a loop, fine at first. An age is off by a period at most; the
// counters of latencies are up to an 8th of the age wide, so a finer clock would hardly tell
// late tasks better, and with a quarter a task in time by more than a quarter is still told from
// a late one. Waits and holds are off by as much, in either direction, so their sums are not.
// Of more than 10 ms FORMAT.md allows nothing; less than 1 ms costs more than mode precise.
func newClockRate(l Loop) *clockRate {
	part := func(n time.Duration) time.Duration {
		if l.Clock > 0 {
			return l.Clock
		}
		return min(max(l.Objective/n, time.Millisecond), 10*time.Millisecond)
	}
	c := &clockRate{fine: part(8), rough: part(4)}
	c.period.Store(int64(c.fine))
	return c
}

// follow takes what a look saw.
func (c *clockRate) follow(look *Look, objective time.Duration) {
	if c.calm++; exact(look, objective) {
		c.calm = 0
	}
	c.period.Store(int64(c.fine))
	if c.calm >= hurriedLooks {
		c.period.Store(int64(c.rough))
	}
}

// exact reports whether a look gives a reason to measure exactly: a task ended late or
// runs for half the objective, or something waits.
func exact(look *Look, objective time.Duration) bool {
	s := &look.Sample
	if s.Finished.Late > 0 {
		return true
	}
	for i := range s.Tasks {
		if t := &s.Tasks[i]; !t.Background && s.At.Sub(t.Started) > objective/2 {
			return true
		}
	}
	for i := range s.Holds {
		if h := &s.Holds[i]; h.WaitingSince != culprit.Unset {
			return true
		}
	}
	return false
}

// slowClock is the time between two ticks while no tracer reads the clock, in modes
// off and precise, or tracers keep it. A change of that ends it.
const slowClock = time.Second

// keepClock ticks until ctx ends.
func (e *Engine) keepClock(ctx context.Context, rate *clockRate) error {
	timer := time.NewTimer(rate.fine)
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
		next := time.Duration(rate.period.Load())
		if rate.kept.Load() || e.Mode() != Coarse {
			next = max(next, slowClock)
		}
		timer.Reset(next)
	}
}
