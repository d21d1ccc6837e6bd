package live

import (
	"context"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/schedule"
)

// Who holds one resource and waits for another inherits, there, the rank of those
// who wait for the first, or they would in effect stand behind everybody whom the
// holder stands behind:
//
//	waiter, urgent ──waits──▶ resource A ──held by──▶ holder ──waits──▶ resource B
//	                └──────────── its rank, as long as the holder waits ───┘
//
// A hold knows the waits of its holder because the context of the hold leads to
// it. No two locks are held at once: what is lent is a copy of the waiter's task.
// A waiter that gives up leaves what it lent until the holder is served.

// chainMax is how many resources a rank is passed on through.
const chainMax = 8

type holdKey struct{}

// Context returns ctx for what is done with the hold: resources acquired with it
// know that this one is held meanwhile. It must be ctx that the hold was acquired
// with, or one derived from it.
func (h *Hold) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, holdKey{}, h)
}

func holdFrom(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// borrow makes the wait h known to all holds of its request, and takes the rank
// of who would be next there.
func (h *Hold) borrow(now mono.Time) {
	for up := h.up; up != nil; up = up.up {
		r := up.r
		r.mu.Lock()
		if up.released {
			r.mu.Unlock()
			continue
		}
		if up.waiters = append(up.waiters, h); len(up.waiters) == 1 {
			r.stuck++
		}
		best, ok := r.best(now)
		r.mu.Unlock()
		if ok {
			h.inherit(r, best, 0)
		}
	}
}

// unborrow undoes borrow when the wait is over.
func (h *Hold) unborrow() {
	for up := h.up; up != nil; up = up.up {
		r := up.r
		r.mu.Lock()
		for i, w := range up.waiters {
			if w == h {
				last := len(up.waiters) - 1
				up.waiters[i], up.waiters[last] = up.waiters[last], nil
				up.waiters = up.waiters[:last]
				if last == 0 && !up.released {
					r.stuck--
				}
				break
			}
		}
		r.mu.Unlock()
	}
}

// repay takes back what h inherited, because one of the holds of its request was
// released, and lets it inherit again for those that were not.
func (h *Hold) repay(now mono.Time) {
	h.r.mu.Lock()
	h.r.queue.Release(&h.task)
	h.r.mu.Unlock()
	for up := h.up; up != nil; up = up.up {
		r := up.r
		r.mu.Lock()
		best, ok := r.best(now)
		ok = ok && !up.released
		r.mu.Unlock()
		if ok {
			h.inherit(r, best, 0)
		}
	}
}

// best returns a copy of the task that is next, with the lock held.
func (r *Resource) best(now mono.Time) (schedule.Task, bool) {
	t, run := r.queue.Peek(now)
	if t == nil || !run {
		return schedule.Task{}, false
	}
	return *t, true
}

// lend gives the rank of seen, a copy of a task that waits for r, to those who
// hold r and wait for something else.
func (r *Resource) lend(seen schedule.Task, depth int) {
	var waiters []*Hold
	r.mu.Lock()
	if r.stuck > 0 {
		for h := r.held; h != nil; h = h.next {
			waiters = append(waiters, h.waiters...)
		}
	}
	r.mu.Unlock()
	for _, w := range waiters {
		w.inherit(r, seen, depth)
	}
}

// inherit gives the rank of seen, which waits for from, to h, which waits for
// something else, and passes it on from there.
func (h *Hold) inherit(from *Resource, seen schedule.Task, depth int) {
	r := h.r
	r.mu.Lock()
	if r.order != from.order {
		// What seen inherited has keys of another order.
		seen = schedule.Task{Class: seen.Class, Priority: seen.Priority, Arrived: seen.Arrived, Deadline: seen.Deadline,
			Remaining: seen.Remaining, Total: seen.Total, Done: seen.Done, Cost: seen.Cost}
	}
	better := h.task.Waiting() && r.queue.Inherit(&h.task, &seen)
	raised := h.task
	r.mu.Unlock()
	if better && depth < chainMax {
		r.lend(raised, depth+1)
	}
}
