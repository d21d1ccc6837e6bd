// Package semaphore is a fixed limit on running requests, set by hand: what a
// careful operator does without any library.
//
//	Arrive ──▶ running < Limit?  ──▶ Run
//	       └─▶ waiting < Queue?  ──▶ Wait ── its turn: expired? ──▶ Shed
//	       └─▶ else              ──▶ Shed                └─ else ──▶ Run
//
// Tuned to the server's capacity it is the reference that an adaptive policy is
// measured against; with a capacity that changed since, it shows what tuning by
// hand costs.
//
// Invariants: no more than Limit run, no more than Queue wait.
//
// What this package does not do: it adapts nothing and estimates nothing.
//
// Source: golang.org/x/sync/semaphore with a context-aware Acquire; for Queue 0,
// its TryAcquire.
package semaphore

import (
	"errors"
	"fmt"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/internal/line"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// Config describes a Door.
type Config struct {
	// Limit is the most requests that run at once. Required. Larger lets the
	// queue inside the server grow, smaller idles it.
	Limit int
	// Queue is the most requests that wait for a slot. Default 0: none waits.
	// Larger absorbs bursts and adds Queue ÷ capacity to the worst latency.
	Queue int
}

// Door is the policy. It is not safe for concurrent use.
type Door struct {
	baseline.NoClients
	line  line.Line
	queue bool
}

var _ baseline.Door = (*Door)(nil)

// New returns an idle door, or every mistake in cfg.
func New(cfg Config) (*Door, error) {
	var errs []error
	if cfg.Limit < 1 {
		errs = append(errs, fmt.Errorf("semaphore: Limit is %d, expected 1 or more requests", cfg.Limit))
	}
	if cfg.Queue < 0 {
		errs = append(errs, fmt.Errorf("semaphore: Queue is %d, expected 0 or more requests", cfg.Queue))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &Door{line: line.New(line.Config{Slots: cfg.Limit, QueueLimit: cfg.Queue}), queue: cfg.Queue > 0}, nil
}

// Running returns the requests that run.
func (d *Door) Running() int { return d.line.Running() }

// Waiting returns the requests that wait.
func (d *Door) Waiting() int { return d.line.Waiting() }

// Arrive runs t, queues it or sheds it.
func (d *Door) Arrive(now mono.Time, t *admission.Ticket) admission.Verdict {
	t.Begin(now)
	switch {
	case t.Budget(now) <= 0:
		return t.Refuse(now, work.Expired)
	case !d.queue && !d.line.Free():
		return t.Refuse(now, work.QueueFull)
	}
	return d.line.Enter(now, t)
}

// Next runs the oldest ticket if a slot is free and sheds it if it expired.
func (d *Door) Next(now mono.Time) (*admission.Ticket, admission.Verdict) {
	t := d.line.Head()
	switch {
	case t == nil:
		return nil, admission.Wait
	case t.Budget(now) <= 0:
		return d.line.Shed(now, t, work.Expired)
	case !d.line.Free():
		return nil, admission.Wait
	}
	return d.line.Run(now, t)
}

// Cancel takes a waiting ticket out.
func (d *Door) Cancel(now mono.Time, t *admission.Ticket) bool { return d.line.Cancel(now, t) }

// Leave frees the slot of t.
func (d *Door) Leave(_ mono.Time, t *admission.Ticket, _ work.Outcome) { d.line.Leave(t) }

// NextWake returns when the oldest waiting request expires.
func (d *Door) NextWake() mono.Time { return d.line.HeadExpires() }

// OnWake does nothing: Next does what is due.
func (d *Door) OnWake(mono.Time) {}
