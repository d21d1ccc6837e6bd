// Package gradient2 limits running requests by how much slower they are than
// they were on the long average.
//
//	gradient = clamp(long / short, 0.5, 1)
//	limit    = limit × 0.8 + (limit × gradient + queue) × 0.2
//
// short is the newest sample, long an average over about 600 samples that also
// falls by a tenth a sample while it is more than twice the newest.
//
// Invariants: the limit stays within MinLimit and MaxLimit; it does not move
// while fewer than half of it are used.
//
// What this package does not do: it cannot tell slower work from a queue, and
// after long overload takes the slow state for the normal one.
//
// Source: github.com/Netflix/concurrency-limits, Gradient2Limit.
package gradient2

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/internal/limiter"
)

// Config describes a Door. The zero Config is its authors' default.
type Config struct {
	// InitialLimit is the limit before the first sample, in requests. Default 20.
	InitialLimit int
	// MinLimit and MaxLimit bound the limit. Defaults 20 and 200.
	MinLimit, MaxLimit int
	// Queue is how many requests the limit leaves room for beyond what runs
	// without slowing down. Default 4. Larger grows faster and queues more.
	Queue int
	// Smoothing is the weight of a new limit, 0 to 1. Default 0.2.
	Smoothing float64
	// LongWindow is the number of samples of the long average. Default 600.
	LongWindow int
	// Window sums up the completions of this time into one sample. Default 0:
	// each is a sample, as the class does by itself.
	Window time.Duration
}

// Window is what its authors' WindowedLimit has by default. It is optional there: their
// limiters feed the class every completion unless told otherwise.
const Window = time.Second

// Algorithm is the limit's arithmetic.
type Algorithm struct {
	cfg    Config
	limit  float64
	long   float64
	sum    float64
	warmup int
}

// warmupSamples is how many samples are averaged plainly at first.
const warmupSamples = 10

// New returns a door with the initial limit, or every mistake in cfg.
func New(cfg Config) (*limiter.Door, error) {
	a, err := NewAlgorithm(cfg)
	if err != nil {
		return nil, err
	}
	return limiter.New(a, cfg.Window), nil
}

var _ baseline.Door = (*limiter.Door)(nil)

// NewAlgorithm returns the arithmetic alone, or every mistake in cfg.
func NewAlgorithm(cfg Config) (*Algorithm, error) {
	var errs []error
	if cfg.InitialLimit < 0 || cfg.MinLimit < 0 || cfg.MaxLimit < 0 || cfg.Queue < 0 || cfg.LongWindow < 0 {
		errs = append(errs, fmt.Errorf("gradient2: InitialLimit, MinLimit, MaxLimit, Queue, LongWindow are %d, %d, %d, %d, %d, expected 1 or more, or 0 for the defaults",
			cfg.InitialLimit, cfg.MinLimit, cfg.MaxLimit, cfg.Queue, cfg.LongWindow))
	}
	if !(cfg.Smoothing >= 0 && cfg.Smoothing <= 1) {
		errs = append(errs, fmt.Errorf("gradient2: Smoothing is %v, expected 0 to 1", cfg.Smoothing))
	}
	if cfg.Window < 0 {
		errs = append(errs, fmt.Errorf("gradient2: Window is %v, expected 0 or more", cfg.Window))
	}
	cfg.InitialLimit = or(cfg.InitialLimit, 20)
	cfg.MinLimit = or(cfg.MinLimit, 20)
	cfg.MaxLimit = or(cfg.MaxLimit, 200)
	cfg.Queue = or(cfg.Queue, 4)
	cfg.LongWindow = or(cfg.LongWindow, 600)
	if cfg.Smoothing == 0 {
		cfg.Smoothing = 0.2
	}
	if cfg.MinLimit > cfg.MaxLimit {
		errs = append(errs, fmt.Errorf("gradient2: MinLimit is %d, expected at most MaxLimit, which is %d", cfg.MinLimit, cfg.MaxLimit))
	}
	return &Algorithm{cfg: cfg, limit: float64(cfg.InitialLimit)}, errors.Join(errs...)
}

// Limit returns the most requests that may run.
func (a *Algorithm) Limit() int { return int(a.limit) }

// Sample takes one completion. Drops play no part.
func (a *Algorithm) Sample(rtt time.Duration, inflight int, _ bool) {
	short := float64(rtt)
	a.addLong(short)
	long := a.long
	if long > 2*short {
		a.long *= 0.9
	}
	if float64(inflight) < a.limit/2 {
		return
	}
	gradient := math.Max(0.5, math.Min(1, long/short))
	next := a.limit*gradient + float64(a.cfg.Queue)
	next = a.limit*(1-a.cfg.Smoothing) + next*a.cfg.Smoothing
	a.limit = math.Max(float64(a.cfg.MinLimit), math.Min(float64(a.cfg.MaxLimit), next))
}

func (a *Algorithm) addLong(x float64) {
	if a.warmup < warmupSamples {
		a.warmup++
		a.sum += x
		a.long = a.sum / float64(a.warmup)
		return
	}
	weight := 2 / float64(a.cfg.LongWindow+1)
	a.long = a.long*(1-weight) + x*weight
}

func or(v, otherwise int) int {
	if v == 0 {
		return otherwise
	}
	return v
}
