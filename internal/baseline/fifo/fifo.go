// Package fifo is a first-in-first-out queue in front of a fixed number of
// slots which drops what is out of time: the simplest policy that is not bad.
//
//	Arrive ──▶ ▤▤▤▤ ──▶ at its turn: budget left < service time? ──▶ Shed
//	                                 else                        ──▶ Run
//
// Invariants: no request runs that is expired at its turn or, unless Blind, that
// could not end in time if it took the mean service time.
//
// What this package does not do: it does not refuse on arrival what will expire
// while it waits, so a refused client knows only when its budget is gone; and it
// must be told the number of slots.
//
// Source: the discipline of ordinary bounded-worker servers, with the deadline
// check at dequeue of RPC frameworks (gRPC's own deadline, Finagle's
// DeadlineFilter).
package fifo

import (
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/internal/line"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/signal"
	"github.com/spillgate/spillgate/internal/work"
)

// Config describes a Door. Zero fields take the default named in their comment.
type Config struct {
	// Slots is the most requests that run at once. Required.
	Slots int
	// QueueLimit is the most requests that wait; one more is refused. Default
	// 10,000.
	QueueLimit int
	// Blind drops only what has expired, and does not estimate whether the rest
	// of the budget suffices.
	Blind bool
}

// Door is the policy. It is not safe for concurrent use.
type Door struct {
	baseline.NoClients
	line    line.Line
	blind   bool
	service signal.Average
}

var _ baseline.Door = (*Door)(nil)

// New returns an idle door, or what is wrong with cfg.
func New(cfg Config) (*Door, error) {
	lc := line.Config{Slots: cfg.Slots, QueueLimit: cfg.QueueLimit}
	if err := lc.Check("fifo"); err != nil {
		return nil, err
	}
	return &Door{line: line.New(lc), blind: cfg.Blind, service: signal.NewAverage(1.0 / 16)}, nil
}

// Waiting and Running tell how many requests wait and run.
func (d *Door) Waiting() int { return d.line.Waiting() }

// Running returns the requests that run.
func (d *Door) Running() int { return d.line.Running() }

// Arrive queues t, or runs it at once.
func (d *Door) Arrive(now mono.Time, t *admission.Ticket) admission.Verdict {
	t.Begin(now)
	if r := d.late(now, t); r != work.None {
		return t.Refuse(now, r)
	}
	return d.line.Enter(now, t)
}

// Next runs the oldest ticket if a slot is free, and sheds the oldest as soon as
// it is out of time.
func (d *Door) Next(now mono.Time) (*admission.Ticket, admission.Verdict) {
	t := d.line.Head()
	if t == nil {
		return nil, admission.Wait
	}
	if r := d.late(now, t); r != work.None {
		return d.line.Shed(now, t, r)
	}
	if !d.line.Free() {
		return nil, admission.Wait
	}
	return d.line.Run(now, t)
}

// Cancel takes a waiting ticket out.
func (d *Door) Cancel(now mono.Time, t *admission.Ticket) bool { return d.line.Cancel(now, t) }

// Leave frees the slot of t.
func (d *Door) Leave(now mono.Time, t *admission.Ticket, o work.Outcome) {
	if d.line.Leave(t) && o.Executed() {
		d.service.Add(float64(now.Sub(t.Started())))
	}
}

// NextWake returns when the oldest ticket is out of time.
func (d *Door) NextWake() mono.Time {
	if at := d.line.HeadExpires(); at != mono.Never {
		return at.Add(-d.expected())
	}
	return mono.Never
}

// OnWake does nothing: Next does what is due.
func (d *Door) OnWake(mono.Time) {}

// late returns why t is not worth running at now, if it is not.
func (d *Door) late(now mono.Time, t *admission.Ticket) work.Reason {
	switch left := t.Budget(now); {
	case left <= 0:
		return work.Expired
	case left <= d.expected():
		return work.Infeasible
	}
	return work.None
}

func (d *Door) expected() time.Duration {
	if d.blind {
		return 0
	}
	mean, _ := d.service.Value()
	return time.Duration(mean)
}
