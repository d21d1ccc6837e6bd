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

// calibrate sets the rate and the objective of a scene whose load is a share of what its
// server does alone: machines differ by more than any numbers that fit them all. The
// objective is twice the mean time of a request while all connections are busy.
func (s *scene) calibrate(ctx context.Context, b *bench) error {
	if s.load == 0 {
		return nil
	}
	var capacity float64
	var err error
	for range 2 {
		if capacity, err = closedLoop(ctx, s, b, calibration); err != nil {
			return err
		}
	}
	s.rate = s.load * capacity
	s.objective = time.Duration(2 * poolSize / capacity * float64(time.Second)).Round(100 * time.Microsecond)
	return nil
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
