package live

import (
	"context"
	"time"
)

// Timed is a Cancelable that ends at a deadline too, as a context of context.WithDeadline does. It has no timer until somebody
// listens for its end, and most handlers that compute their answers do not. Its cause is never another than its error.
//
// Begin is called once, before all else, and End when the request is over.
type Timed struct {
	Cancelable
	own ending
}

// Begin makes t a child of parent that ends at the deadline, or at that of parent if that is sooner.
func (t *Timed) Begin(parent context.Context, deadline time.Time) {
	if d, ok := parent.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	t.own = ending{parent, deadline}
	t.Cancelable.Begin(&t.own)
}

// End ends the context.
func (t *Timed) End() { t.Cancel(nil) }

// ending is the parent of a Timed for those that ask and do not listen.
type ending struct {
	context.Context
	deadline time.Time
}

// Deadline implements context.Context.
func (u *ending) Deadline() (time.Time, bool) { return u.deadline, true }

// Err implements context.Context.
func (u *ending) Err() error {
	if err := u.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(u.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}
