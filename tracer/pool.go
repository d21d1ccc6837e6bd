package tracer

import (
	"context"
	"errors"
	"sync/atomic"
)

// Pool is a number of units, such as connections or workers, that tasks take
// and give back. A task that finds too few waits in line.
type Pool struct{ line line }

// NewPool returns a Pool of the given size, which must be above 0. Pools of one name are
// one resource to the engine, with the units of all that were ever made: make a pool once, and
// not anew for each request or connection. It works without tracing if t is nil or the file has no room
// for the name.
func (t *Tracer) NewPool(name string, size int64) *Pool { return &Pool{t.newLine(name, Queue, size)} }

// Acquire waits for n units. Its error is the cause for which ctx ended; it
// then holds nothing. Asking for more than there are waits until ctx ends.
func (p *Pool) Acquire(ctx context.Context, n int64) error {
	return p.line.enter(ctx, From(ctx), n, uint64(n))
}

// Release gives n units back. Its context is of the task that acquired.
func (p *Pool) Release(ctx context.Context, n int64) { p.line.leave(From(ctx), n, uint64(n)) }

// ErrFull is that a WorkQueue has as many waiting as it may have.
var ErrFull = errors.New("tracer: the queue is full")

// WorkQueue runs functions, a bounded number at once, and lets a bounded number
// wait.
type WorkQueue struct {
	line    line
	waiting atomic.Int64
	most    int64
}

// NewWorkQueue returns a WorkQueue that runs up to workers functions at once,
// which must be above 0, while up to waiting callers wait.
func (t *Tracer) NewWorkQueue(name string, workers, waiting int64) *WorkQueue {
	return &WorkQueue{line: t.newLine(name, Queue, workers), most: workers + waiting}
}

// Do runs f on the caller's goroutine when its turn comes. It returns ErrFull at
// once if too many wait, and the cause if ctx ends before f runs.
func (q *WorkQueue) Do(ctx context.Context, f func(context.Context) error) error {
	defer q.waiting.Add(-1)
	if q.waiting.Add(1) > q.most {
		return ErrFull
	}
	task := From(ctx)
	if err := q.line.enter(ctx, task, 1, 1); err != nil {
		return err
	}
	defer q.line.leave(task, 1, 1)
	return f(ctx)
}
