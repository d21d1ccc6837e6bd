// Package bucket decides whether a rate limit lets something pass now, and if
// not, when.
//
//	   rate tokens/s
//	        │
//	        ▼
//	┌───────────────┐ burst: the most it holds; what overflows is lost
//	│ ≈≈≈≈≈≈≈≈≈≈≈≈≈ │──▶ Allow takes what is there, or nothing
//	├───────────────┤ 0
//	│               │──▶ Reserve takes more: debt, paid off by refill
//	└───────────────┘ −debt: the most it owes
//
// Invariants: the balance is between −Debt and Burst; over any stretch of time
// no more than Burst + rate × time passes Allow; time that does not advance, or
// runs backwards, refills nothing.
//
// A Bucket goes by the instant of the call. A Binned goes by the instant at
// which a message arrived, so the order in which connections are read does not
// matter; it delays and has no debt.
//
// What this package does not do: it has no clock and does not wait, queue or
// choose among its callers. For a plain limit in a program that may
// read the clock, golang.org/x/time/rate is simpler.
package bucket

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Config describes a Bucket. Zero fields take the default named in their
// comment.
type Config struct {
	// Rate is the refill in tokens per second. Required; math.Inf(1) limits
	// nothing. Larger lets more pass.
	Rate float64
	// Burst is the most tokens the bucket holds. Default 1. Larger lets through
	// more at once after a pause; an AllowN of more than Burst never succeeds.
	Burst float64
	// Debt is how far below zero Reserve may go, in tokens. Default 0. Larger
	// lets a reservation lie further ahead.
	Debt float64
	// Empty starts the bucket without tokens instead of full.
	Empty bool
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if !(c.Rate > 0) {
		errs = append(errs, fmt.Errorf("bucket: Rate is %v tokens/s, expected above 0", c.Rate))
	}
	if !(c.Burst >= 0) || math.IsInf(c.Burst, 1) {
		errs = append(errs, fmt.Errorf("bucket: Burst is %v tokens, expected above 0 and finite, or 0 for the default", c.Burst))
	}
	if !(c.Debt >= 0) || math.IsInf(c.Debt, 1) {
		errs = append(errs, fmt.Errorf("bucket: Debt is %v tokens, expected 0 or more and finite", c.Debt))
	}
	if c.Burst == 0 {
		c.Burst = 1
	}
	return c, errors.Join(errs...)
}

// Bucket is a token bucket. It is not safe for concurrent use. Every call takes
// constant time and does not allocate.
type Bucket struct {
	perNano float64
	burst   float64
	debt    float64
	balance float64 // at last
	last    mono.Time
}

// New returns a bucket whose time starts at now, or every mistake in cfg.
func New(now mono.Time, cfg Config) (*Bucket, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Bucket{perNano: cfg.Rate / 1e9, burst: cfg.Burst, debt: cfg.Debt, last: now}
	if !cfg.Empty {
		b.balance = cfg.Burst
	}
	return b, nil
}

// Tokens returns the balance at now; negative is debt.
func (b *Bucket) Tokens(now mono.Time) float64 { return b.at(now) }

// Allow takes one token if there is one.
func (b *Bucket) Allow(now mono.Time) bool { return b.AllowN(now, 1) }

// AllowN takes n tokens if there are that many, and otherwise none. n that is
// negative or not a number is refused.
func (b *Bucket) AllowN(now mono.Time, n float64) bool {
	b.advance(now)
	if !(n >= 0 && n <= b.balance) {
		return false
	}
	b.balance -= n
	return true
}

// Reserve takes n tokens that the caller will use after wait, when the refill
// has paid for them. It reports false and takes none if that would go deeper
// than Debt, or if n is negative or not a number.
func (b *Bucket) Reserve(now mono.Time, n float64) (wait time.Duration, ok bool) {
	b.advance(now)
	if !(n >= 0) || b.balance-n < -b.debt {
		return 0, false
	}
	b.balance -= n
	if b.balance >= 0 {
		return 0, true
	}
	return b.ReadyAt(now, 0).Sub(now), true
}

// ReadyAt returns the earliest instant, not before now, at which AllowN for n
// would succeed if no tokens were taken before, to within the rounding of the
// balance; mono.Never if n is over Burst.
func (b *Bucket) ReadyAt(now mono.Time, n float64) mono.Time {
	if !(n <= b.burst) {
		return mono.Never
	}
	have := b.at(now)
	if have >= n {
		return now
	}
	start := max(now, b.last)
	wait := math.Ceil((n - have) / b.perNano)
	if !(wait < math.MaxInt64) {
		return mono.Never
	}
	// The division and the multiplication of refill round differently: what one
	// calls enough must be enough for the other.
	at := start.Add(time.Duration(wait))
	for step := time.Duration(1); at != mono.Never && b.at(at) < n; step *= 2 {
		at = at.Add(step)
	}
	return at
}

// SetRate changes the refill from now on. A rate that is not above 0 is ignored.
func (b *Bucket) SetRate(now mono.Time, rate float64) {
	if rate > 0 {
		b.advance(now)
		b.perNano = rate / 1e9
	}
}

// SetBurst changes what the bucket holds from now on; tokens above it are lost.
// A burst that is not above 0 and finite is ignored.
func (b *Bucket) SetBurst(now mono.Time, burst float64) {
	if burst > 0 && !math.IsInf(burst, 1) {
		b.advance(now)
		b.burst = burst
		b.balance = min(b.balance, burst)
	}
}

// at returns the balance at now without writing it down.
func (b *Bucket) at(now mono.Time) float64 {
	if now <= b.last {
		return b.balance
	}
	return min(b.balance+float64(now.Sub(b.last))*b.perNano, b.burst)
}

func (b *Bucket) advance(now mono.Time) {
	if now > b.last {
		b.balance = b.at(now)
		b.last = now
	}
}
