// Package openloop sends requests at planned instants, whether or not earlier
// ones have come back.
//
// A closed loop, which sends when an answer arrives, slows down together with
// the server and so never sees an overload. Here the plan is made beforehand
// (an Arrivals) and a late start is the request's own latency:
//
//	Arrivals ──▶ pacer ──hand over──▶ worker: Send ──▶ outcome
//	               │                    │                 │
//	      waits for the instant      send lag      latency from the instant
//
// Invariants:
//
//   - The pacer never waits for a worker. When none is idle it starts one; at
//     Config.MaxInFlight requests in flight it counts the request as not sent
//     instead, which makes the run invalid.
//   - Requests behind the plan are sent at once and at their original
//     intended instant; none is dropped and none is moved.
//   - When Run returns, every Send has returned.
//
// The generator should have a core of its own, no garbage collection during
// the run, and a GOMAXPROCS of 1 on that core. With more processors it works,
// but the kernel then divides the core.
//
// What this package does not do: it does not retry, and it does not know what
// Send talks to.
package openloop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/pace"
)

// Send performs the i-th request (from 0), which was meant to leave at the
// intended instant, and says how it ended. It must return soon after ctx ends.
// Deadlines are its own business and should count from intended.
type Send func(ctx context.Context, i int, intended time.Time) measure.Outcome

// Config describes a run. Zero fields take the default named in their comment.
type Config struct {
	// Arrivals says when requests leave. Required.
	Arrivals Arrivals
	// Send performs one request. Required.
	Send Send
	// SLO is the latency objective. Required.
	SLO time.Duration
	// MaxInFlight is the most requests in flight. Default 20,000. Beyond it
	// requests are counted as not sent, which the result remarks on. Larger
	// allows a longer overload without a deadline, at the memory of a goroutine
	// and of whatever Send holds for each request.
	MaxInFlight int
	// Drain is how long after the last arrival requests may still come back;
	// then they are cut off and counted as unfinished. Default 10 SLOs, but at
	// least a second.
	Drain time.Duration
	// Window is the resolution of the time series. Default 100 ms.
	Window time.Duration
	// Start is the instant that the schedule counts from, so that several runs can
	// share one. It may have passed: what is due is then behind the plan. Default
	// 5 ms after Run was called.
	Start time.Time
}

func (c Config) withDefaults() Config {
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 20_000
	}
	if c.Drain == 0 {
		c.Drain = max(10*c.SLO, time.Second)
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Arrivals == nil {
		errs = append(errs, errors.New("Arrivals is nil, want a schedule"))
	}
	if c.Send == nil {
		errs = append(errs, errors.New("Send is nil, want a function"))
	}
	if c.MaxInFlight < 0 {
		errs = append(errs, fmt.Errorf("MaxInFlight is %d, must be above 0", c.MaxInFlight))
	}
	if c.Drain < 0 {
		errs = append(errs, fmt.Errorf("Drain is %v, must be above 0", c.Drain))
	}
	return errors.Join(errs...)
}

// A Generator makes one run.
type Generator struct {
	cfg      Config
	recorder *measure.Recorder
	used     sync.Once

	work    chan request
	slots   chan struct{} // one element for each request in flight
	workers sync.WaitGroup
}

type request struct {
	i        int
	intended time.Time
	op       *measure.Op
}

// New prepares a run and reports every mistake in cfg.
func New(cfg Config) (*Generator, error) {
	cfg = cfg.withDefaults()
	recorder, err := measure.NewRecorder(measure.Config{SLO: cfg.SLO, Window: cfg.Window})
	if err := errors.Join(cfg.validate(), err); err != nil {
		return nil, fmt.Errorf("openloop: %w", err)
	}
	return &Generator{
		cfg:      cfg,
		recorder: recorder,
		work:     make(chan request),
		slots:    make(chan struct{}, cfg.MaxInFlight),
	}, nil
}

// Recorder returns the run's recorder, for a look at the run while it goes on.
func (g *Generator) Recorder() *measure.Recorder { return g.recorder }

// lead is the time between Run and the run's first instant where Config.Start is
// zero, so that the first arrivals are not already late.
const lead = 5 * time.Millisecond

// Run makes the run and returns when the last request has ended. The result's
// rates are per second of arrivals: what comes back in the drain is counted,
// the time it takes is not. When ctx ends
// before the schedule does, the requests in flight are cut off and the result
// is that of the part which was run, marked invalid. The error is about the
// generator itself, never about requests; a second Run is one.
func (g *Generator) Run(ctx context.Context) (measure.Result, error) {
	err := errors.New("openloop: a Generator makes one run, make another for the next")
	var result measure.Result
	g.used.Do(func() { result, err = g.run(ctx) })
	return result, err
}

func (g *Generator) run(ctx context.Context) (measure.Result, error) {
	alarm, err := pace.NewAlarm()
	if err != nil {
		return measure.Result{}, fmt.Errorf("openloop: %w", err)
	}
	defer alarm.Close()
	defer context.AfterFunc(ctx, alarm.Ring)()

	sends, cut := context.WithCancel(ctx)
	defer cut()
	start := g.cfg.Start
	if start.IsZero() {
		start = time.Now().Add(lead)
	}
	g.recorder.Start(start)
	g.pace(ctx, sends, start, alarm)
	end := time.Now()

	close(g.work)
	patience := time.AfterFunc(g.cfg.Drain, cut)
	defer patience.Stop()
	g.workers.Wait()

	result := g.recorder.Result(end)
	if ctx.Err() != nil {
		result.Reject(fmt.Sprintf("stopped after %v", end.Sub(start).Round(time.Millisecond)))
	}
	return result, nil
}

// pace hands each request over at its instant, until there are no more or ctx
// ends.
func (g *Generator) pace(ctx, sends context.Context, start time.Time, alarm *pace.Alarm) {
	for i := 0; ctx.Err() == nil; i++ {
		offset, ok := g.cfg.Arrivals.Next()
		if !ok {
			return
		}
		intended := start.Add(offset)
		for !alarm.Until(intended) {
			if ctx.Err() != nil {
				return
			}
		}
		select {
		case g.slots <- struct{}{}:
		default:
			g.recorder.Skip(intended)
			continue
		}
		r := request{i: i, intended: intended, op: g.recorder.Begin(intended)}
		select {
		case g.work <- r: // an idle worker takes it
		default:
			g.workers.Go(func() { g.worker(sends, r) })
		}
	}
}

// worker performs r and then whatever it is handed, so that its stack, once
// grown, is used again.
func (g *Generator) worker(ctx context.Context, r request) {
	g.perform(ctx, r)
	for r := range g.work {
		g.perform(ctx, r)
	}
}

func (g *Generator) perform(ctx context.Context, r request) {
	defer func() { <-g.slots }()
	r.op.Sent(time.Now())
	outcome := g.cfg.Send(ctx, r.i, r.intended)
	if ctx.Err() != nil && outcome.Kind != measure.Served {
		outcome = measure.Outcome{Kind: measure.Unfinished}
	}
	r.op.End(time.Now(), outcome)
}
