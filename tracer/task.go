package tracer

import (
	"context"
	"fmt"
	"sync"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// ErrCancelled is the cause, to errors.Is, of the context of a task that the
// engine cancelled.
var ErrCancelled = live.ErrCancelled

// Info describes a task that begins. Its zero value is a request of unknown
// kind.
type Info struct {
	// Key is the program's own number for the task, such as a connection's. 0
	// is none.
	Key uint64
	// Kind says what the task does. The engine limits a kind after it cancelled
	// one of them, so tasks that do the same need the same kind.
	Kind Kind
	// Background work has no latency objective: it is no victim.
	Background bool
	// Barred tasks must not be cancelled.
	Barred bool
}

// Task is one running task. Its methods are called by one goroutine at a time.
// A nil *Task is not traced: its methods do nothing.
type Task struct {
	tracer  *Tracer
	slot    taskfile.Slot
	info    Info
	ctx     taskContext
	own     live.Cancelable  // what ctx is, unless it is of a branch
	request *live.Cancelable // what a cancel ends: own, or that of the task that branched; nil: the gate ends it
	gated   bool             // of a request behind a gate: any goroutine of it may record

	mu    sync.Mutex // between the watcher and End; with gated, around every event
	ended bool
}

// taskContext carries the task.
type taskContext struct {
	context.Context
	task *Task
}

type taskKey struct{}

// Value returns the task itself for its own key.
func (c *taskContext) Value(key any) any {
	if key == (taskKey{}) {
		return c.task
	}
	return c.Context.Value(key)
}

// From returns the task that ctx carries, nil if there is none.
//
// Behind a gate that Of was called with, every request has a task, without Begin.
func From(ctx context.Context) *Task {
	if task, ok := ctx.Value(taskKey{}).(*Task); ok {
		return task
	}
	if ticket := live.TicketFrom(ctx); ticket != nil {
		task, _ := ticket.Traced().(*Task)
		return task
	}
	return nil
}

// Begin starts a task. The returned context carries it, and is cancelled with a
// cause that is ErrCancelled if the engine asks for it. The caller must call
// End, which also cancels the context. If the mode is off or no slot is free,
// the task is nil and the context is ctx.
func (t *Tracer) Begin(ctx context.Context, info Info) (context.Context, *Task) {
	if t == nil || t.file.Mode() == taskfile.Off {
		return ctx, nil
	}
	return t.begin(ctx, info, nil)
}

// Branch starts a task for a goroutine that works in parallel on the request that ctx
// carries. The branch has holds of its own, and cancelling it cancels the request. It
// is no request of its own, so its age does not count.
// Without a task in ctx it returns a nil *Task.
func Branch(ctx context.Context) (context.Context, *Task) {
	parent := From(ctx)
	if parent == nil {
		return ctx, nil
	}
	info := parent.info
	info.Background = true
	return parent.tracer.begin(ctx, info, parent)
}

func (t *Tracer) begin(ctx context.Context, info Info, parent *Task) (context.Context, *Task) {
	slot := t.file.Begin(taskfile.Task{Key: info.Key, Kind: uint64(info.Kind), Flags: info.flags(false)})
	if !slot.Traced() {
		return ctx, nil
	}
	task := &Task{tracer: t, slot: slot, info: info}
	task.ctx = taskContext{ctx, task}
	if parent == nil {
		task.own.Begin(ctx)
		task.ctx.Context, task.request = &task.own, &task.own
	} else {
		task.request, task.gated = parent.request, parent.gated
	}
	t.live[slot.Index()].Store(task)
	t.notice()
	return &task.ctx, task
}

func (i Info) flags(idle bool) (f taskfile.Flags) {
	if i.Background {
		f |= taskfile.Background
	}
	if i.Barred {
		f |= taskfile.Barred
	}
	if idle {
		f |= taskfile.Idle
	}
	return f
}

// End ends the task and cancels its context. Further calls do nothing. Anything the
// task still holds is forgotten.
func (t *Task) End() {
	if t == nil {
		return
	}
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	t.ended = true
	at := &t.tracer.live[t.slot.Index()]
	t.slot.End()
	at.CompareAndSwap(t, nil) // last, as Close waits for it; the slot may have another task by now
	t.mu.Unlock()
	if t.request == &t.own {
		t.own.Cancel(nil)
	}
}

// deliver cancels the task's context if the engine asked for it.
func (t *Task) deliver() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	if why, asked := t.slot.Cancelled(); asked {
		if t.request != nil {
			t.request.Cancel(fmt.Errorf("%w: %v", ErrCancelled, why))
		}
		t.slot.Delivered()
	}
}

// enter and leave stand around an event.
func (t *Task) enter() {
	if t.gated {
		t.mu.Lock()
	}
}

func (t *Task) leave() {
	if t.gated {
		t.unlock()
	}
}

// unlock is a function of its own so that leave costs the others a test.
//
//go:noinline
func (t *Task) unlock() { t.mu.Unlock() }

// Acquire records that the task now holds n more units of r.
func (t *Task) Acquire(r Resource, n uint64) {
	if t != nil {
		t.enter()
		t.slot.Acquire(r.number-1, n)
		t.leave()
	}
}

// Release records that the task gave back n units of r.
func (t *Task) Release(r Resource, n uint64) {
	if t != nil {
		t.enter()
		t.slot.Release(r.number-1, n)
		t.leave()
	}
}

// WaitBegin records that the task waits for r from now on.
func (t *Task) WaitBegin(r Resource) {
	if t != nil {
		t.enter()
		t.slot.WaitBegin(r.number - 1)
		t.leave()
	}
}

// WaitEnd records that the wait for r is over, successful or not.
func (t *Task) WaitEnd(r Resource) {
	if t != nil {
		t.enter()
		t.slot.WaitEnd(r.number - 1)
		t.leave()
	}
}

// Evicted records that the task displaced n units of r, which is memory, to
// make room. If WaitBegin was called for r, that wait is over.
func (t *Task) Evicted(r Resource, n uint64) {
	if t != nil {
		t.enter()
		t.slot.Evicted(r.number-1, n)
		t.leave()
	}
}

// SetShared says whether the next hold of lock r, and the next wait for it, goes
// together with others of the same sort, as a reader's does.
func (t *Task) SetShared(r Resource, shared bool) {
	if t != nil {
		t.enter()
		t.slot.SetShared(r.number-1, shared)
		t.leave()
	}
}

// SetProgress records that done of total units of the work are done. Total 0 is
// unknown. The engine spares tasks that are nearly done.
func (t *Task) SetProgress(done, total uint64) {
	if t != nil {
		t.enter()
		t.slot.SetProgress(done, total)
		t.leave()
	}
}

// SetIdle says whether the task runs nothing at present while it holds things,
// such as an open transaction between two statements.
func (t *Task) SetIdle(idle bool) {
	if t != nil {
		t.enter()
		t.slot.SetFlags(t.info.flags(idle))
		t.leave()
	}
}
