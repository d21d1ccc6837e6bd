package tracer

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// line is a first-come, first-served semaphore whose waits and holds are
// recorded. Mutex, RWMutex, Pool and WorkQueue are lines.
type line struct {
	units *semaphore.Weighted
	r     Resource
}

func (t *Tracer) newLine(name string, kind ResourceKind, units int64) line {
	r, err := t.Resource(name, kind) // without room for its name it works untraced
	if err == nil && t != nil && kind == Queue {
		t.gate.add(name, units)
	}
	return line{semaphore.NewWeighted(units), r}
}

// enter takes units, of which it records count.
func (l *line) enter(ctx context.Context, task *Task, units int64, count uint64) error {
	if !l.units.TryAcquire(units) {
		task.WaitBegin(l.r)
		err := l.units.Acquire(ctx, units)
		task.WaitEnd(l.r)
		if err != nil {
			return context.Cause(ctx)
		}
	}
	task.Acquire(l.r, count)
	return nil
}

func (l *line) leave(task *Task, units int64, count uint64) {
	task.Release(l.r, count)
	l.units.Release(units)
}

// Mutex is a lock whose waits and holds are recorded, and whose waiters can be
// cancelled. Waiters are served in the order in which they came.
type Mutex struct{ line line }

// NewMutex returns an unlocked Mutex. Mutexes of one name are one resource to
// the engine. It works without tracing if t is nil or the file has no room for
// the name.
func (t *Tracer) NewMutex(name string) *Mutex { return &Mutex{t.newLine(name, Lock, 1)} }

// Lock waits for the lock. Its error is the cause for which ctx ended; the lock
// is then not held.
func (m *Mutex) Lock(ctx context.Context) error { return m.line.enter(ctx, From(ctx), 1, 1) }

// Unlock gives the lock back. Its context is of the task that locked.
func (m *Mutex) Unlock(ctx context.Context) { m.line.leave(From(ctx), 1, 1) }

// readers is how many may hold an RWMutex at once.
const readers = 1 << 30

// RWMutex is a lock that readers share. A reader that comes after a writer waits
// behind it.
type RWMutex struct{ line line }

// NewRWMutex returns an unlocked RWMutex, as NewMutex does.
func (t *Tracer) NewRWMutex(name string) *RWMutex { return &RWMutex{t.newLine(name, Lock, readers)} }

// Lock waits for the lock, alone. Its error is the cause for which ctx ended.
func (m *RWMutex) Lock(ctx context.Context) error {
	task := From(ctx)
	task.SetShared(m.line.r, false)
	return m.line.enter(ctx, task, readers, 1)
}

// Unlock gives back what Lock took. Its context is of the task that locked.
func (m *RWMutex) Unlock(ctx context.Context) { m.line.leave(From(ctx), readers, 1) }

// RLock waits for the lock, together with other readers. Its error is the cause
// for which ctx ended.
func (m *RWMutex) RLock(ctx context.Context) error {
	task := From(ctx)
	task.SetShared(m.line.r, true)
	return m.line.enter(ctx, task, 1, 1)
}

// RUnlock gives back what RLock took. Its context is of the task that locked.
func (m *RWMutex) RUnlock(ctx context.Context) { m.line.leave(From(ctx), 1, 1) }
