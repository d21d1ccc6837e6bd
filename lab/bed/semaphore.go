package bed

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/work"
)

// semaphore is what a hand-set limit does: so many run, so many wait in order, the rest
// is refused. Whoever gave up while waiting is dropped.
type semaphore struct {
	running chan struct{}
	waiting chan struct{}
	refused [work.NumReasons]atomic.Int64
}

func newSemaphore(limit, queue int) *semaphore {
	return &semaphore{running: make(chan struct{}, limit), waiting: make(chan struct{}, limit+queue)}
}

// shed is the error of a request that a semaphore refused.
type shed struct{ reason work.Reason }

func (s *shed) Error() string { return "bed: refused, " + s.reason.String() }

// do runs f, or returns a *shed.
func (s *semaphore) do(ctx context.Context, f func() error) error {
	select {
	case s.waiting <- struct{}{}:
	default:
		return s.refuse(work.QueueFull)
	}
	defer func() { <-s.waiting }()
	select {
	case s.running <- struct{}{}:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return s.refuse(work.Expired)
		}
		return s.refuse(work.Canceled)
	}
	defer func() { <-s.running }()
	if ctx.Err() != nil {
		return s.refuse(work.Expired)
	}
	return f()
}

func (s *semaphore) refuse(reason work.Reason) error {
	s.refused[reason].Add(1)
	return &shed{reason}
}
