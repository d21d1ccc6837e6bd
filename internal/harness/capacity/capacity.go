// Package capacity finds the load called 1.0x: the largest goodput that a service
// sustains.
//
//  1. closed loop   1, 2, 4, 8 … requests always in flight
//     goodput rises, levels off, falls as waiting exceeds the SLO
//     ▲ its top
//  2. open loop     Poisson at CheckLoad of that top: does a share of
//     CheckAttainment come back within the SLO?
//     no: 5 % less, again
//
// The first step saturates the service without overloading it. The second
// guards against a top that only a closed loop can reach, because its clients
// wait politely.
//
// The defaults fit an SLO of ten service times, the hardest usual one. Two
// exponential servers at 0.8 of their capacity keep 98 % of their responses
// within it (M/M/2, P(wait > 9 service times) = 0.71·exp(−3.6)), so an
// attainment of 0.9 at a load of 0.8 leaves room for noise, not for a wrong top.
//
// The top is the best of several noisy tries and so leans high: four
// searches of BenchmarkFind found 0.98 to 1.03 of a station's known capacity.
// Config.Retake measures the best load once more, and so without that lean.
//
// What this package does not do: it does not look for a capacity that changes,
// and it needs the service for itself while it measures.
package capacity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
)

// Config describes a search. Zero fields take the default named in their
// comment.
type Config struct {
	// Send performs one request. Required.
	Send openloop.Send
	// SLO is the latency objective. Required.
	SLO time.Duration
	// Try is how long each load is applied. Default 500 ms. Longer gives a
	// steadier result. BenchmarkFind's searches take 5 to 7 tries.
	Try time.Duration
	// Retake is how long the best load of the closed loop is applied once more;
	// what it reaches then is its top. It is repeated if that is much less, at
	// most twice. Default 0: the best try's figure is the top.
	Retake time.Duration
	// MaxConcurrency is the most requests in flight in the closed loop.
	// Default 256. The search ends there if goodput still rises.
	MaxConcurrency int
	// CheckLoad is the load of the open-loop check, as a share of the closed
	// loop's top. Default 0.8; in (0, 1].
	CheckLoad float64
	// CheckAttainment is the share of offered requests that must come back
	// within the SLO in the check. Default 0.9; in (0, 1].
	CheckAttainment float64
	// Seed decides the check's arrivals.
	Seed uint64
	// OnTry is told of each try as it ends, to show progress. Default: none.
	OnTry func(Try)
}

func (c Config) withDefaults() Config {
	if c.Try == 0 {
		c.Try = 500 * time.Millisecond
	}
	if c.MaxConcurrency == 0 {
		c.MaxConcurrency = 256
	}
	if c.CheckLoad == 0 {
		c.CheckLoad = 0.8
	}
	if c.CheckAttainment == 0 {
		c.CheckAttainment = 0.9
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Send == nil {
		errs = append(errs, errors.New("Send is nil, want a function"))
	}
	if c.SLO <= 0 {
		errs = append(errs, fmt.Errorf("SLO is %v, must be above 0", c.SLO))
	}
	if c.Try < 0 {
		errs = append(errs, fmt.Errorf("Try is %v, must be above 0", c.Try))
	}
	if c.Retake < 0 {
		errs = append(errs, fmt.Errorf("Retake is %v, must be above 0, or 0 for none", c.Retake))
	}
	if c.MaxConcurrency < 0 {
		errs = append(errs, fmt.Errorf("MaxConcurrency is %d, must be above 0", c.MaxConcurrency))
	}
	for _, share := range []struct {
		name  string
		value float64
	}{{"CheckLoad", c.CheckLoad}, {"CheckAttainment", c.CheckAttainment}} {
		if !(share.value > 0 && share.value <= 1) {
			errs = append(errs, fmt.Errorf("%s is %v, must be above 0 and at most 1", share.name, share.value))
		}
	}
	return errors.Join(errs...)
}

// Try is one load and what came of it.
type Try struct {
	// Concurrency is the requests in flight in a closed loop, 0 for an open one.
	Concurrency int `json:"concurrency,omitempty"`
	// Load is the requests per second of an open loop, 0 for a closed one.
	Load float64 `json:"load,omitempty"`
	// Result is that of the closed loop's second half, in which it had settled,
	// or that of the whole open loop.
	Result measure.Span `json:"result"`
	// Rejected says why an open loop does not count: its generator was late.
	Rejected []string `json:"rejected,omitempty"`
}

// Found is the result of a search.
type Found struct {
	// Rate is the capacity, in requests per second.
	Rate float64 `json:"rate"`
	// Concurrency is the number in flight at which the closed loop did best.
	Concurrency int `json:"concurrency"`
	// Unconfirmed says that no check of the generator's own was on time, so
	// that Rate is the closed loop's top alone.
	Unconfirmed bool  `json:"unconfirmed,omitempty"`
	Tries       []Try `json:"tries"`
}

const (
	worthwhile = 1.03 // goodput growth that makes a doubling one
	flatTries  = 2    // doublings in a row that bring no such growth end the ramp
	stepDown   = 0.95 // from one check to the next
	maxChecks  = 14   // 0.95^13: below half of the closed loop's top
)

// Find searches for the capacity. It fails when ctx ends, when nothing is ever
// served within the SLO, and when even half of what the closed loop reached
// does not pass the check.
func Find(ctx context.Context, cfg Config) (Found, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return Found{}, fmt.Errorf("capacity: %w", err)
	}
	var found Found
	note := func(t Try) {
		found.Tries = append(found.Tries, t)
		if cfg.OnTry != nil {
			cfg.OnTry(t)
		}
	}
	flat := 0
	for n := 1; n <= cfg.MaxConcurrency && flat < flatTries; n *= 2 {
		span, err := closedLoop(ctx, cfg, n)
		if err != nil {
			return found, err
		}
		note(Try{Concurrency: n, Result: span})
		flat++
		if span.Goodput > found.Rate*worthwhile {
			flat = 0
		}
		if span.Goodput > found.Rate {
			found.Rate, found.Concurrency = span.Goodput, n
		}
	}
	if found.Rate == 0 {
		return found, fmt.Errorf("capacity: nothing was served within the SLO of %v, even one request at a time: %+v", cfg.SLO, found.Tries[0].Result.Counts)
	}

	if cfg.Retake > 0 {
		if err := retake(ctx, cfg, &found, note); err != nil {
			return found, err
		}
	}

	top := found.Rate
	onTime := false
	for range maxChecks {
		load := found.Rate * cfg.CheckLoad
		res, err := openLoop(ctx, cfg, load)
		if err != nil {
			return found, err
		}
		note(Try{Load: load, Result: res.Total, Rejected: res.Invalid})
		if res.Total.Attainment >= cfg.CheckAttainment {
			return found, nil // a late generator only makes this harder
		}
		onTime = onTime || res.Valid
		found.Rate *= stepDown
	}
	found.Rate = top
	if !onTime {
		found.Unconfirmed = true
		return found, nil
	}
	return found, fmt.Errorf("capacity: %.0f requests/s in a closed loop, but not even half of it in an open one (attainment %.2f, want %.2f)",
		top, found.Tries[len(found.Tries)-1].Result.Attainment, cfg.CheckAttainment)
}

const (
	// credible is the share of the best try that a retake must reach. One try
	// leans high by some percent, not by a quarter: under it, the machine had
	// something else to do.
	credible   = 0.75
	maxRetakes = 3
)

// retake replaces the rate by what the best load reaches once more. A retake
// that is not credible is repeated; of several, the best counts.
func retake(ctx context.Context, cfg Config, found *Found, note func(Try)) error {
	first, best := found.Rate, 0.0
	cfg.Try = cfg.Retake
	for range maxRetakes {
		span, err := closedLoop(ctx, cfg, found.Concurrency)
		if err != nil {
			return err
		}
		note(Try{Concurrency: found.Concurrency, Result: span})
		if best = max(best, span.Goodput); best >= credible*first {
			break
		}
	}
	if best > 0 {
		found.Rate = best
	}
	return nil
}

// settled is the share of a closed loop's time after which it is measured.
const settled = 0.3

// closedLoop keeps n requests in flight for cfg.Try.
func closedLoop(ctx context.Context, cfg Config, n int) (measure.Span, error) {
	recorder, err := measure.NewRecorder(measure.Config{SLO: cfg.SLO, Window: max(cfg.Try/20, time.Millisecond)})
	if err != nil {
		return measure.Span{}, fmt.Errorf("capacity: %w", err)
	}
	sends, stop := context.WithCancel(ctx)
	defer stop()
	begun := time.Now()
	recorder.Start(begun)
	end := begun.Add(cfg.Try)
	var clients sync.WaitGroup
	for client := range n {
		clients.Go(func() {
			for i := client; sends.Err() == nil; i += n {
				now := time.Now()
				if now.After(end) {
					return
				}
				op := recorder.Begin(now)
				op.Sent(now)
				outcome := cfg.Send(sends, i, now)
				op.End(time.Now(), outcome)
				if outcome.Kind != measure.Served {
					pause(sends, cfg.SLO) // a client that is turned away does not storm
				}
			}
		})
	}
	// What takes longer than the SLO is not waited for.
	patience := time.AfterFunc(cfg.Try+2*cfg.SLO, stop)
	defer patience.Stop()
	clients.Wait()
	if err := ctx.Err(); err != nil {
		return measure.Span{}, fmt.Errorf("capacity: stopped: %w", err)
	}
	return recorder.Span(time.Duration(settled*float64(cfg.Try)), cfg.Try), nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// openLoop sends a Poisson load for cfg.Try.
func openLoop(ctx context.Context, cfg Config, load float64) (measure.Result, error) {
	arrivals, err := openloop.Poisson(openloop.Steady(min(load, openloop.MaxRate), cfg.Try), cfg.Seed)
	if err != nil {
		return measure.Result{}, fmt.Errorf("capacity: %w", err)
	}
	generator, err := openloop.New(openloop.Config{Arrivals: arrivals, Send: cfg.Send, SLO: cfg.SLO})
	if err != nil {
		return measure.Result{}, fmt.Errorf("capacity: %w", err)
	}
	res, err := generator.Run(ctx)
	if err != nil {
		return measure.Result{}, fmt.Errorf("capacity: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return measure.Result{}, fmt.Errorf("capacity: stopped: %w", err)
	}
	return res, nil
}
