// Package aimd limits running requests by additive increase and multiplicative
// decrease.
//
//	dropped, or slower than Timeout:     limit × Backoff
//	else, if half the limit was in use:  limit + 1
//
// Invariants: the limit stays within MinLimit and MaxLimit.
//
// What this package does not do: it sees no queue that does not reach Timeout.
//
// Source: github.com/Netflix/concurrency-limits, AIMDLimit, after Chiu and Jain,
// 1989.
package aimd

import (
	"errors"
	"fmt"
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
	// Backoff is what the limit is multiplied by, 0.5 to below 1. Default 0.9.
	Backoff float64
	// Timeout is the time above which a completion counts as dropped. Default
	// 5 s, which hardly any objective tolerates: set it to the objective.
	Timeout time.Duration
}

// Algorithm is the limit's arithmetic.
type Algorithm struct {
	cfg   Config
	limit int
}

// New returns a door with the initial limit, or every mistake in cfg.
func New(cfg Config) (*limiter.Door, error) {
	a, err := NewAlgorithm(cfg)
	if err != nil {
		return nil, err
	}
	return limiter.New(a, 0), nil
}

var _ baseline.Door = (*limiter.Door)(nil)

// NewAlgorithm returns the arithmetic alone, or every mistake in cfg.
func NewAlgorithm(cfg Config) (*Algorithm, error) {
	var errs []error
	if cfg.InitialLimit < 0 || cfg.MinLimit < 0 || cfg.MaxLimit < 0 {
		errs = append(errs, fmt.Errorf("aimd: InitialLimit, MinLimit, MaxLimit are %d, %d, %d, expected 1 or more, or 0 for the defaults",
			cfg.InitialLimit, cfg.MinLimit, cfg.MaxLimit))
	}
	if cfg.Backoff != 0 && !(cfg.Backoff >= 0.5 && cfg.Backoff < 1) {
		errs = append(errs, fmt.Errorf("aimd: Backoff is %v, expected 0.5 to below 1, or 0 for the default", cfg.Backoff))
	}
	if cfg.Timeout < 0 {
		errs = append(errs, fmt.Errorf("aimd: Timeout is %v, expected above 0, or 0 for the default", cfg.Timeout))
	}
	if cfg.InitialLimit == 0 {
		cfg.InitialLimit = 20
	}
	if cfg.MinLimit == 0 {
		cfg.MinLimit = 20
	}
	if cfg.MaxLimit == 0 {
		cfg.MaxLimit = 200
	}
	if cfg.Backoff == 0 {
		cfg.Backoff = 0.9
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.MinLimit > cfg.MaxLimit {
		errs = append(errs, fmt.Errorf("aimd: MinLimit is %d, expected at most MaxLimit, which is %d", cfg.MinLimit, cfg.MaxLimit))
	}
	return &Algorithm{cfg: cfg, limit: cfg.InitialLimit}, errors.Join(errs...)
}

// Limit returns the most requests that may run.
func (a *Algorithm) Limit() int { return a.limit }

// Sample takes one completion.
func (a *Algorithm) Sample(rtt time.Duration, inflight int, dropped bool) {
	switch {
	case dropped || rtt > a.cfg.Timeout:
		a.limit = int(float64(a.limit) * a.cfg.Backoff)
	case 2*inflight >= a.limit:
		a.limit++
	}
	a.limit = min(max(a.limit, a.cfg.MinLimit), a.cfg.MaxLimit)
}
