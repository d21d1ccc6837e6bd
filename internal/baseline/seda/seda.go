// Package seda is the adaptive admission control of SEDA, moved to the client as
// in Breakwater's evaluation: each connection sends at a rate that follows a high
// percentile of the response times it sees itself.
//
//	Submit ──▶ ▤▤ (16, short wait) ──▶ token bucket, burst 4 ──▶ Send
//	                                        ▲ rate
//	replies ── p99 of 100, smoothed ──▶ err = (p99 − target) / target
//	                                    err > 0:     rate ÷ Decrease
//	                                    err < −0.5:  rate − (err + 0.1) × Increase
//
// Invariants: the rate never falls below MinRate; no request waits longer than
// MaxWait.
//
// What this package does not do: it has no part at the server, so its Door is
// that of package none or fifo; with few replies a connection learns slowly.
//
// Source: Welsh and Culler, "Adaptive Overload Control for Busy Internet
// Servers", USITS 2003, section 3; sd_client.c and sd_config.h of the Breakwater
// authors' Caladan tree.
package seda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/bucket"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Config describes a Sender. Zero fields take the default named in their
// comment, for a service of 10 µs and 1,000 connections where it depends on that.
type Config struct {
	// Target is the response time to steer the percentile to. Required. The
	// authors used 50, 80 and 720 µs for mean service of 1, 10 and 100 µs.
	Target time.Duration
	// Increase is the growth in requests per second per unit of error. Default
	// 40; the authors used 120, 40 and 10.
	Increase float64
	// Decrease divides the rate above target. Default 1.04; the authors used
	// 1.04, 1.04 and 1.3.
	Decrease float64
	// Percentile of the response times, above 0 and below 1. Default 0.99 as in
	// the C code; SEDA itself used 0.90.
	Percentile float64
	// MinRate and MaxInitRate, in requests per second, are the least rate and
	// the end of the range from MinRate in which the first one lies by chance.
	// Defaults 2 and 8.
	MinRate, MaxInitRate float64
	// Burst is the most tokens. Default 4.
	Burst float64
	// Samples is how many replies end a measuring window. Default 100.
	Samples int
	// Timeout ends a measuring window that has fewer, with the next reply.
	// Default 1 ms. Larger adapts more seldom.
	Timeout time.Duration
	// QueueLimit is the most requests that wait; one more is refused. Default 16.
	QueueLimit int
	// MaxWait is the longest wait for a token. Default 100 µs.
	MaxWait time.Duration
	// Seed of the first rate.
	Seed uint64
}

// The controller's constants, sd_config.h and USITS'03 table 1.
const (
	keep     = 0.7  // weight of the past percentile
	increase = -0.5 // error below which the rate grows
	weightCi = 0.1
)

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Target <= 0 {
		errs = append(errs, fmt.Errorf("seda: Target is %v, expected above 0: the response time to steer to", c.Target))
	}
	if !(c.Increase >= 0) || c.Decrease != 0 && !(c.Decrease > 1) {
		errs = append(errs, fmt.Errorf("seda: Increase is %v and Decrease %v, expected above 0 and above 1, or 0 for the defaults", c.Increase, c.Decrease))
	}
	if !(c.Percentile >= 0 && c.Percentile < 1) {
		errs = append(errs, fmt.Errorf("seda: Percentile is %v, expected above 0 and below 1, or 0 for the default", c.Percentile))
	}
	if !(c.MinRate >= 0) || !(c.MaxInitRate >= 0) || !(c.Burst >= 0) {
		errs = append(errs, fmt.Errorf("seda: MinRate, MaxInitRate, Burst are %v, %v, %v, expected above 0, or 0 for the defaults", c.MinRate, c.MaxInitRate, c.Burst))
	}
	if c.Samples < 0 || c.Timeout < 0 || c.QueueLimit < 0 || c.MaxWait < 0 {
		errs = append(errs, fmt.Errorf("seda: Samples, Timeout, QueueLimit, MaxWait are %d, %v, %d, %v, expected above 0, or 0 for the defaults", c.Samples, c.Timeout, c.QueueLimit, c.MaxWait))
	}
	setDefault(&c.Increase, 40)
	setDefault(&c.Decrease, 1.04)
	setDefault(&c.Percentile, 0.99)
	setDefault(&c.MinRate, 2)
	setDefault(&c.MaxInitRate, max(8, c.MinRate))
	setDefault(&c.Burst, 4)
	setDefault(&c.Samples, 100)
	setDefault(&c.Timeout, time.Millisecond)
	setDefault(&c.QueueLimit, 16)
	setDefault(&c.MaxWait, 100*time.Microsecond)
	return c, errors.Join(errs...)
}

func setDefault[T int | float64 | time.Duration](v *T, otherwise T) {
	if *v == 0 {
		*v = otherwise
	}
}

// Sender is the client's policy. It is not safe for concurrent use.
type Sender struct {
	cfg     Config
	bucket  *bucket.Bucket // made by the first call that knows the time
	rate    float64
	queue   []entry
	last    mono.Time
	samples []time.Duration
	cur     float64 // smoothed percentile, ns
	updated mono.Time
}

type entry struct {
	w      *credit.Waiter
	expire mono.Time
}

var _ baseline.Sender = (*Sender)(nil)

// New returns an idle sender, or every mistake in cfg.
func New(cfg Config) (*Sender, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	chance := rand.New(rand.NewPCG(cfg.Seed, 0))
	return &Sender{
		cfg:     cfg,
		rate:    cfg.MinRate + chance.Float64()*(cfg.MaxInitRate-cfg.MinRate),
		queue:   make([]entry, 0, cfg.QueueLimit),
		samples: make([]time.Duration, 0, cfg.Samples),
	}, nil
}

// Rate returns the rate in requests per second.
func (s *Sender) Rate() float64 { return s.rate }

// Waiting returns the requests that wait for a token.
func (s *Sender) Waiting() int { return len(s.queue) }

// Submit sends the request if a token is there and no request waits.
func (s *Sender) Submit(now mono.Time, w *credit.Waiter, _ work.Priority) (credit.Step, work.Reason) {
	s.tick(now)
	switch {
	case w.Deadline <= now:
		return credit.Refuse, work.WalletExpired
	case len(s.queue) == 0 && s.bucket.Allow(now):
		return credit.Send, work.None
	case len(s.queue) == s.cfg.QueueLimit:
		return credit.Refuse, work.WalletFull
	}
	s.queue = append(s.queue, entry{w, min(w.Deadline, now.Add(s.cfg.MaxWait))})
	return credit.Wait, work.None
}

// Next names the oldest waiter if a token is there for it or its time is over.
func (s *Sender) Next(now mono.Time) (*credit.Waiter, credit.Step, work.Reason) {
	if len(s.queue) == 0 {
		return nil, credit.Wait, work.None
	}
	s.tick(now)
	w := s.queue[0].w
	switch {
	case now >= s.queue[0].expire:
		s.remove(0)
		return w, credit.Refuse, work.WalletExpired
	case s.bucket.Allow(now):
		s.remove(0)
		return w, credit.Send, work.None
	}
	return nil, credit.Wait, work.None
}

// Cancel takes a waiter out.
func (s *Sender) Cancel(w *credit.Waiter) bool {
	for i := range s.queue {
		if s.queue[i].w == w {
			s.remove(i)
			return true
		}
	}
	return false
}

// Demand returns the requests that wait; the server does not use it.
func (s *Sender) Demand() int { return len(s.queue) }

// OnReply takes the response time of a served request.
func (s *Sender) OnReply(now mono.Time, _ *credit.Waiter, rtt time.Duration, f baseline.Feedback) {
	s.tick(now)
	if f.Reason != work.None {
		return
	}
	s.samples = append(s.samples, rtt)
	if len(s.samples) >= s.cfg.Samples || now.Sub(s.updated) > s.cfg.Timeout {
		s.adapt(now)
	}
}

// OnGrant does nothing.
func (s *Sender) OnGrant(mono.Time, wire.Grant) {}

// NextWake returns when the oldest waiter gets a token or expires.
func (s *Sender) NextWake() mono.Time {
	if len(s.queue) == 0 {
		return mono.Never
	}
	return min(s.queue[0].expire, s.bucket.ReadyAt(s.last, 1))
}

// OnWake does nothing: Next does what is due.
func (s *Sender) OnWake(mono.Time) {}

// adapt ends a measuring window.
func (s *Sender) adapt(now mono.Time) {
	slices.Sort(s.samples)
	sample := s.samples[int(float64(len(s.samples)-1)*s.cfg.Percentile)]
	s.cur = keep*s.cur + (1-keep)*float64(sample)
	target := float64(s.cfg.Target)
	switch err := (s.cur - target) / target; {
	case err > 0:
		s.rate /= s.cfg.Decrease
	case err < increase:
		s.rate += -(err + weightCi) * s.cfg.Increase
	}
	s.rate = max(s.rate, s.cfg.MinRate)
	s.bucket.SetRate(now, s.rate)
	s.samples, s.updated = s.samples[:0], now
}

func (s *Sender) tick(now mono.Time) {
	s.last = max(s.last, now)
	if s.bucket == nil {
		// The configuration was checked; the bucket starts empty as in the C code.
		s.bucket, _ = bucket.New(now, bucket.Config{Rate: s.rate, Burst: s.cfg.Burst, Empty: true})
		s.updated = now
	}
}

func (s *Sender) remove(i int) { s.queue = slices.Delete(s.queue, i, i+1) }
