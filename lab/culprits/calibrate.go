package culprits

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// calibration is how long each of two closed loops runs: the first warms the server up,
// the second is counted.
const calibration = time.Second

// trial is how long the load is tried alone, after a second that is not counted.
const trial = 2 * time.Second

// aloneTimes is the objective of a calibrated scene, in 99th percentiles of the load alone:
// Atropos' is met while latency is at most a fifth more than without a culprit.
const aloneTimes = 1.2

// longTrial is the same of a scene with a rate, of which fewer requests come.
const longTrial = 5 * time.Second

// leastObjective is in the size of what a guard can tell of the age of a request from outside.
const leastObjective = 5 * ms

// trials is how often a load is made lighter, by lighter each time, that the server does not
// sustain: an open loop costs it more than the closed one.
const (
	trials  = 4
	lighter = 0.8
)

// calibrate sets the rate and the objective of a scene whose load is a share of what its
// server does alone: machines differ by more than any numbers that fit them all. Of a scene with a rate it sets the objective, when the server is warm.
func (s *scene) calibrate(ctx context.Context, b *bench, seed uint64) error {
	if s.load == 0 {
		return s.measure(ctx, b, seed)
	}
	var capacity float64
	var err error
	for range 2 {
		if capacity, err = closedLoop(ctx, s, b, calibration); err != nil {
			return err
		}
	}
	if err := s.mended(ctx, b); err != nil {
		return err
	}
	s.rate = s.load * capacity
	busy := time.Duration(poolSize / capacity * float64(time.Second)) // of a request while all connections are
	s.objective = 2 * busy
	for range trials {
		p, err := play(ctx, s, b, plan{rest: settle + trial, rate: s.rate, alone: true, seed: seed}, contender{})
		if err != nil {
			return err
		}
		p99 := p.figures(s.objective).p99
		s.objective = time.Duration(aloneTimes * float64(p99)).Round(100 * time.Microsecond)
		if p99 <= 2*busy {
			return nil
		}
		s.rate *= lighter
	}
	return nil
}

// measure sets the objective of a scene that asks for it.
func (s *scene) measure(ctx context.Context, b *bench, seed uint64) error {
	if err := warmUp(ctx, s, b, seed); err != nil || !s.measured {
		return err
	}
	p, err := play(ctx, s, b, plan{rest: settle + longTrial, rate: s.rate, alone: true, seed: seed}, contender{})
	if err != nil {
		return err
	}
	s.objective = s.tighter(p.figures(s.objective).p99)
	return nil
}

// tighter returns the objective that follows from the 99th percentile of the load alone. On a machine that others use, that may be seconds: then the
// scene's own objective stands, or nothing would ever be late.
func (s *scene) tighter(p99 time.Duration) time.Duration {
	return min(max(time.Duration(aloneTimes*float64(p99)).Round(100*time.Microsecond), leastObjective), s.objective)
}

// mended puts back what a run has left.
func (s *scene) mended(ctx context.Context, b *bench) error {
	if s.mend == nil {
		return nil
	}
	return s.mend(ctx, b)
}

// closedLoop returns how many requests per second the server answers to as many clients
// as the application has connections, each of which sends when its answer has come.
func closedLoop(ctx context.Context, s *scene, b *bench, length time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, length+grace)
	defer cancel()
	var answered, next atomic.Int64
	var all sync.WaitGroup
	failed := make(chan error, poolSize)
	began := time.Now()
	for range poolSize {
		all.Go(func() {
			for time.Since(began) < length {
				if err := s.request(ctx, b, int(next.Add(1))); err != nil {
					failed <- err
					return
				}
				answered.Add(1)
			}
		})
	}
	all.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return float64(answered.Load()) / time.Since(began).Seconds(), errors.Join(errs...)
}
