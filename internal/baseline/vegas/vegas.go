// Package vegas limits running requests by an estimate of how many of them only
// wait, from the shortest time ever seen.
//
//	queue = ⌈limit × (1 − shortest / rtt)⌉        l = max(1, ⌊log₁₀ limit⌋)
//	queue ≤ l: limit += 6·l     < 3·l: += l     > 6·l: −= l     dropped: −= l
//
// The shortest time is forgotten every 30 × limit samples or so and measured
// anew, at whatever load there is then.
//
// Invariants: the limit stays within 1 and MaxLimit; it does not grow while fewer
// than half of it are used.
//
// What this package does not do: measured under load, its shortest time contains
// the queue it is meant to reveal.
//
// Source: github.com/Netflix/concurrency-limits, VegasLimit and
// Log10RootFunction, after Brakmo et al., "TCP Vegas", SIGCOMM 1994.
package vegas

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/internal/limiter"
)

// Config describes a Door. The zero Config is its authors' default.
type Config struct {
	// InitialLimit is the limit before the first sample, in requests. Default 20.
	InitialLimit int
	// MaxLimit bounds the limit. Default 1,000.
	MaxLimit int
	// Smoothing is the weight of a new limit, 0 to 1. Default 1.
	Smoothing float64
	// Probe is after how many times the limit's samples the shortest time is
	// forgotten. Default 30, shortened by chance to a half at most.
	Probe int
	// Window sums up the completions of this time into one sample. Default 0:
	// each is a sample.
	Window time.Duration
	// Seed of the chance in Probe.
	Seed uint64
}

// Window is what its authors' WindowedLimit has by default. It is optional there: their
// limiters feed the class every completion unless told otherwise.
const Window = time.Second

// Algorithm is the limit's arithmetic.
type Algorithm struct {
	cfg      Config
	limit    float64
	shortest time.Duration
	samples  int
	jitter   float64
	chance   *rand.Rand
}

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
	if cfg.InitialLimit < 0 || cfg.MaxLimit < 0 || cfg.Probe < 0 {
		errs = append(errs, fmt.Errorf("vegas: InitialLimit, MaxLimit, Probe are %d, %d, %d, expected 1 or more, or 0 for the defaults",
			cfg.InitialLimit, cfg.MaxLimit, cfg.Probe))
	}
	if !(cfg.Smoothing >= 0 && cfg.Smoothing <= 1) {
		errs = append(errs, fmt.Errorf("vegas: Smoothing is %v, expected 0 to 1", cfg.Smoothing))
	}
	if cfg.Window < 0 {
		errs = append(errs, fmt.Errorf("vegas: Window is %v, expected 0 or more", cfg.Window))
	}
	if cfg.InitialLimit == 0 {
		cfg.InitialLimit = 20
	}
	if cfg.MaxLimit == 0 {
		cfg.MaxLimit = 1000
	}
	if cfg.Smoothing == 0 {
		cfg.Smoothing = 1
	}
	if cfg.Probe == 0 {
		cfg.Probe = 30
	}
	a := &Algorithm{cfg: cfg, limit: float64(cfg.InitialLimit), chance: rand.New(rand.NewPCG(cfg.Seed, 0))}
	a.shake()
	return a, errors.Join(errs...)
}

// Limit returns the most requests that may run.
func (a *Algorithm) Limit() int { return int(a.limit) }

// Sample takes one completion.
func (a *Algorithm) Sample(rtt time.Duration, inflight int, dropped bool) {
	a.samples++
	if a.jitter*float64(a.cfg.Probe)*a.limit <= float64(a.samples) {
		a.shake()
		a.samples, a.shortest = 0, rtt
		return
	}
	if a.shortest == 0 || rtt < a.shortest {
		a.shortest = rtt
		return
	}
	queue := math.Ceil(a.limit * (1 - float64(a.shortest)/float64(rtt)))
	l := log10(a.limit)
	next := a.limit
	switch {
	case dropped:
		next -= l
	case float64(2*inflight) < a.limit:
		return
	case queue <= l:
		next += 6 * l
	case queue < 3*l:
		next += l
	case queue > 6*l:
		next -= l
	default:
		return
	}
	next = math.Max(1, math.Min(float64(a.cfg.MaxLimit), next))
	a.limit = (1-a.cfg.Smoothing)*a.limit + a.cfg.Smoothing*next
}

func (a *Algorithm) shake() { a.jitter = 0.5 + 0.5*a.chance.Float64() }

func log10(limit float64) float64 { return math.Max(1, math.Floor(math.Log10(math.Floor(limit)))) }
