// Package service emulates a server of known capacity inside a process.
//
//	Do ──▶ FIFO queue ──▶ k servers ──▶ returns after the service time
//	          │                │
//	          └ ctx ends: leaves, never starts
//	                           └ ctx ends: runs on to its end, and is wasted
//
// A station of k servers with mean service time m finishes k/m requests per
// second, whatever happens outside:
//
//   - A Sleep station computes each start and finish from the one before it
//     and only then waits for the instant, so late timers add some
//     microseconds to a response but take nothing from the capacity.
//   - A Spin station burns the caller's processor. Time in which the goroutine
//     did not run is not counted as work done, so its capacity is a share of the
//     processor: two spins at once on one processor take twice as long.
//
// What this package does not do: it does not refuse by policy (only at MaxQueue,
// against running out of memory) and it does not stop work that has started,
// just as most servers do not.
package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/harness/pace"
)

// Dist is a distribution of service times.
type Dist uint8

const (
	// Exponential service times have a coefficient of variation of 1.
	Exponential Dist = iota
	// Constant service times are all equal to the mean.
	Constant
	// Bimodal service times are 4 times the mean with probability 0.2 and a
	// quarter of it otherwise (Breakwater's evaluation).
	Bimodal
	dists
)

func (d Dist) String() string {
	switch d {
	case Exponential:
		return "exponential"
	case Constant:
		return "constant"
	case Bimodal:
		return "bimodal"
	}
	return fmt.Sprintf("Dist(%d)", uint8(d))
}

// draw returns a service time of the given mean.
func (d Dist) draw(rng *rand.Rand, mean time.Duration) time.Duration {
	switch d {
	case Exponential:
		return time.Duration(rng.ExpFloat64() * float64(mean))
	case Bimodal:
		if rng.Float64() < 0.2 {
			return 4 * mean
		}
		return mean / 4
	}
	return mean
}

// Kind says what a request does while it is served.
type Kind uint8

const (
	// Sleep uses no processor: the work is somewhere else.
	Sleep Kind = iota
	// Spin uses the processor of the goroutine that called Do.
	Spin
	kinds
)

func (k Kind) String() string {
	switch k {
	case Sleep:
		return "sleep"
	case Spin:
		return "spin"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Config describes a Station. Zero fields take the default named in their
// comment.
type Config struct {
	// Workers is k, the number of requests served at once. Default 0: no limit.
	// Then a Sleep station is a pure delay, and the queue of a Spin station is
	// the Go scheduler's.
	Workers int
	// Mean is the mean service time. Required.
	Mean time.Duration
	// Dist is the distribution of service times. Default Exponential.
	Dist Dist
	// Kind is what being served means. Default Sleep.
	Kind Kind
	// Seed decides the service times, in the order of arrival.
	Seed uint64
	// MaxQueue is the most requests that wait. Default 1,000,000. At it, Do
	// fails with ErrFull.
	MaxQueue int
}

func (c Config) validate() error {
	var errs []error
	if c.Workers < 0 {
		errs = append(errs, fmt.Errorf("Workers is %d, must be 0 (no limit) or above", c.Workers))
	}
	if c.Mean <= 0 || c.Mean > time.Hour {
		errs = append(errs, fmt.Errorf("Mean is %v, must be above 0 and at most 1h", c.Mean))
	}
	if c.Dist >= dists {
		errs = append(errs, fmt.Errorf("Dist is %v, must be Exponential, Constant or Bimodal", c.Dist))
	}
	if c.Kind >= kinds {
		errs = append(errs, fmt.Errorf("Kind is %v, must be Sleep or Spin", c.Kind))
	}
	if c.MaxQueue < 0 {
		errs = append(errs, fmt.Errorf("MaxQueue is %d, must be above 0", c.MaxQueue))
	}
	return errors.Join(errs...)
}

// Errors of Do that are not those of its context.
var (
	ErrFull   = errors.New("service: the station's queue is full")
	ErrClosed = errors.New("service: the station is closed")
)

// Counts counts a station's requests. Arrived = Refused + Abandoned +
// Finished + Waiting + Running, but for requests that were there at Close.
type Counts struct {
	Arrived   uint64 `json:"arrived"`
	Refused   uint64 `json:"refused"`   // by MaxQueue
	Abandoned uint64 `json:"abandoned"` // gave up before they started
	Started   uint64 `json:"started"`
	Finished  uint64 `json:"finished"`
	Wasted    uint64 `json:"wasted"` // of Finished: the caller had given up
	Waiting   int    `json:"waiting"`
	Running   int    `json:"running"`
}

// A Station is one emulated service. Its methods are safe for concurrent use.
type Station struct {
	cfg   Config
	base  time.Time
	alarm *pace.Alarm // nil for Spin
	timer sync.WaitGroup
	slow  atomic.Pointer[plan] // the servers' plan, for spins to read

	mu     sync.Mutex
	rng    *rand.Rand
	s      servers
	armed  time.Duration // what the alarm waits for
	closed bool
}

// New starts a station and reports every mistake in cfg. Close it in the end.
func New(cfg Config) (*Station, error) {
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = 1_000_000
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	st := &Station{
		cfg:  cfg,
		base: time.Now(),
		rng:  rand.New(rand.NewPCG(cfg.Seed, 0xd1342543de82ef95)),
		s:    servers{k: cfg.Workers},
	}
	st.slow.Store(&plan{})
	if cfg.Kind == Sleep {
		alarm, err := pace.NewAlarm()
		if err != nil {
			return nil, fmt.Errorf("service: %w", err)
		}
		st.alarm = alarm
		st.timer.Go(st.keepTime)
	}
	return st, nil
}

// Capacity returns the requests per second that the station can finish at
// normal speed: +Inf for a Sleep station without a limit, and for a Spin station
// what Workers processors of its own would give (one, without a limit).
func (st *Station) Capacity() float64 {
	workers := float64(st.cfg.Workers)
	if st.cfg.Workers == 0 {
		if st.cfg.Kind == Sleep {
			return math.Inf(1)
		}
		workers = 1
	}
	return workers / st.cfg.Mean.Seconds()
}

// Do serves one request with a service time drawn from the distribution. It
// returns nil when served; ctx's error when ctx ended before, in which case
// the request either never started or was served in vain.
func (st *Station) Do(ctx context.Context) error { return st.do(ctx, -1) }

// DoFor serves one request whose service time at normal speed is given.
func (st *Station) DoFor(ctx context.Context, work time.Duration) error {
	return st.do(ctx, max(work, 0))
}

func (st *Station) do(ctx context.Context, work time.Duration) error {
	j := &job{ctx: ctx, work: work, done: make(chan error, 1)}
	st.mu.Lock()
	if st.closed {
		st.mu.Unlock()
		return ErrClosed
	}
	if work < 0 {
		j.work = st.cfg.Dist.draw(st.rng, st.cfg.Mean)
	}
	st.s.counts.Arrived++
	if err := ctx.Err(); err != nil {
		st.s.counts.Abandoned++
		st.mu.Unlock()
		return err
	}
	if st.cfg.Kind == Spin {
		return st.spin(ctx, j)
	}
	return st.sleep(ctx, j)
}

// SetSlowness makes the station slow from now on: at 4 it takes four times as
// long as at 1, its normal speed, also for what it is serving.
func (st *Station) SetSlowness(slow float64) error { return st.SlowAt(time.Now(), slow) }

// SlowAt makes the station slow from an instant on; one in the past means now.
// Several changes may lie ahead.
func (st *Station) SlowAt(at time.Time, slow float64) error {
	if !(slow >= 1e-3 && slow <= 1e6) {
		return fmt.Errorf("service: slowness is %v, must be 0.001 to 1,000,000, where 1 is the normal speed", slow)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	now := st.now()
	if st.cfg.Kind == Sleep {
		st.s.advance(now)
	}
	p := st.s.plan.with(change{at: max(at.Sub(st.base), now), slow: slow})
	st.s.replan(p)
	st.slow.Store(&p)
	st.arm()
	return nil
}

// Finish returns when work that begins at an instant is done, as fast as the station then
// is, if it is alone.
func (st *Station) Finish(start time.Time, work time.Duration) time.Time {
	return st.base.Add(st.slow.Load().finish(start.Sub(st.base), work))
}

// Counts returns what the station has counted so far.
func (st *Station) Counts() Counts {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cfg.Kind == Sleep && !st.closed {
		st.s.advance(st.now())
	}
	c := st.s.counts
	c.Waiting = st.s.queue.Len()
	c.Running = int(c.Started - c.Finished)
	return c
}

// Close ends the station. Requests that wait, or sleep as being served, fail
// with ErrClosed; those that spin go on to their end.
func (st *Station) Close() {
	st.mu.Lock()
	if !st.closed {
		st.closed = true
		for front := st.s.queue.Front(); front != nil; front = st.s.queue.Front() {
			j := front.Value.(*job)
			st.s.queue.Remove(front)
			j.waiting = nil
			j.done <- ErrClosed
		}
		for _, j := range st.s.running {
			j.done <- ErrClosed
		}
		st.s.running = nil
	}
	st.mu.Unlock()
	if st.alarm != nil {
		st.alarm.Close()
		st.timer.Wait()
	}
}

func (st *Station) now() time.Duration { return time.Since(st.base) }
