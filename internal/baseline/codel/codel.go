// Package codel sheds at the head of a request queue by the time spent there:
// CoDel of RFC 8289, and the variant that Facebook runs in its RPC servers.
//
//	Arrive ──▶ ▤▤▤▤ ── head leaves ──▶ law: drop? ──▶ Shed (Delay)
//	                                         └ else ──▶ Run
//
//	Classic     one drop every Interval/√count while the delay stays above Target
//	Controlled  wait at most Interval; at most Target if the queue was not empty
//	            during the last Interval; optionally newest first meanwhile
//
// CoDel was made for senders that slow down when a packet is dropped. Clients of
// an open loop do not slow down, so Classic sheds far too little in overload; it is here
// because it is often proposed. Controlled assumes nothing about senders.
//
// Invariants: a request is judged when it leaves the queue, not when it arrives;
// running requests never exceed Slots.
//
// What this package does not do: it knows no clients and no service times.
//
// Source: RFC 8289, sections 4 and 5; Maurer, "Fail at Scale", ACM Queue 13(8),
// 2015, sections on controlled delay and adaptive LIFO.
package codel

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/internal/line"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// Law chooses when to drop.
type Law uint8

const (
	// Classic is the control law of RFC 8289.
	Classic Law = iota
	// Controlled is Facebook's time limit on waiting.
	Controlled
)

// Config describes a Door. Zero fields take the default named in their comment.
type Config struct {
	// Slots is the most requests that run at once. Required.
	Slots int
	// QueueLimit is the most requests that wait. Default 10,000.
	QueueLimit int
	// Law chooses when to drop. Default Classic.
	Law Law
	// Target is the delay that a standing queue may have. Default 5 ms, the value
	// of both sources. Larger tolerates longer queues.
	Target time.Duration
	// Interval is how long the delay must stay above Target. Default 100 ms, the
	// value of both sources. Larger tolerates longer bursts.
	Interval time.Duration
	// LIFO serves the newest first while the queue has not been empty for an
	// Interval, as Facebook does beside Controlled.
	LIFO bool
}

// Door is the policy. It is not safe for concurrent use.
type Door struct {
	baseline.NoClients
	cfg       Config
	line      line.Line
	law       law
	lastEmpty mono.Time
}

var _ baseline.Door = (*Door)(nil)

// New returns an idle door, or every mistake in cfg.
func New(cfg Config) (*Door, error) {
	lc := line.Config{Slots: cfg.Slots, QueueLimit: cfg.QueueLimit}
	errs := []error{lc.Check("codel")}
	if cfg.Law > Controlled {
		errs = append(errs, fmt.Errorf("codel: Law is %d, expected Classic or Controlled", cfg.Law))
	}
	if cfg.Target < 0 || cfg.Interval < 0 {
		errs = append(errs, fmt.Errorf("codel: Target is %v and Interval %v, expected above 0, or 0 for the defaults", cfg.Target, cfg.Interval))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Target == 0 {
		cfg.Target = 5 * time.Millisecond
	}
	if cfg.Interval == 0 {
		cfg.Interval = 100 * time.Millisecond
	}
	return &Door{cfg: cfg, line: line.New(lc), law: law{target: cfg.Target, interval: cfg.Interval}}, nil
}

// Waiting returns the requests that wait.
func (d *Door) Waiting() int { return d.line.Waiting() }

// Running returns the requests that run.
func (d *Door) Running() int { return d.line.Running() }

// Arrive queues t, or runs it at once.
func (d *Door) Arrive(now mono.Time, t *admission.Ticket) admission.Verdict {
	t.Begin(now)
	d.noteEmpty(now)
	return d.line.Enter(now, t)
}

// Next runs or sheds the next ticket if a slot is free. Under Controlled, what
// has waited too long is shed without waiting for a slot.
func (d *Door) Next(now mono.Time) (*admission.Ticket, admission.Verdict) {
	d.noteEmpty(now)
	head := d.line.Head()
	if head == nil {
		return nil, admission.Wait
	}
	if d.cfg.Law == Controlled && now.Sub(head.Arrived) > d.allowed(now) {
		return d.line.Shed(now, head, work.Delay)
	}
	if !d.line.Free() {
		return nil, admission.Wait
	}
	t := head
	if d.cfg.LIFO && d.standing(now) {
		t = d.line.Tail()
	}
	if d.cfg.Law == Classic && d.law.drop(now, now.Sub(t.Arrived), d.line.Waiting() == 1) {
		return d.line.Shed(now, t, work.Delay)
	}
	return d.line.Run(now, t)
}

// Cancel takes a waiting ticket out.
func (d *Door) Cancel(now mono.Time, t *admission.Ticket) bool {
	ok := d.line.Cancel(now, t)
	d.noteEmpty(now)
	return ok
}

// Leave frees the slot of t.
func (d *Door) Leave(_ mono.Time, t *admission.Ticket, _ work.Outcome) { d.line.Leave(t) }

// NextWake returns when the oldest ticket will have waited too long. Classic
// acts only when a slot is free and returns mono.Never.
func (d *Door) NextWake() mono.Time {
	head := d.line.Head()
	if d.cfg.Law == Classic || head == nil {
		return mono.Never
	}
	// The limit falls from Interval to Target once the queue has stood for an
	// Interval; either instant may come first.
	standingAt := d.lastEmpty.Add(d.cfg.Interval)
	atTarget := max(head.Arrived.Add(d.cfg.Target), standingAt)
	return min(atTarget, head.Arrived.Add(d.cfg.Interval)).Add(1)
}

// OnWake does nothing: Next does what is due.
func (d *Door) OnWake(mono.Time) {}

// standing reports whether the queue was not empty for more than an Interval.
func (d *Door) standing(now mono.Time) bool {
	return d.line.Waiting() > 0 && now.Sub(d.lastEmpty) > d.cfg.Interval
}

// allowed is the longest wait under Controlled.
func (d *Door) allowed(now mono.Time) time.Duration {
	if d.standing(now) {
		return d.cfg.Target
	}
	return d.cfg.Interval
}

func (d *Door) noteEmpty(now mono.Time) {
	if d.line.Waiting() == 0 {
		d.lastEmpty = now
		d.law.idle()
	}
}
