// Package line is the first-in-first-out queue in front of a fixed number of
// slots that several compared policies share, so that they differ in what they
// decide and in nothing else.
//
//	Enter ──▶ free slot, empty queue? ──────▶ runs
//	      └─▶ ▤▤▤▤ ── Head, Shed or Run ────▶ slots ──▶ Leave
//
// Invariants: running requests never exceed Slots; tickets leave in the order in
// which they came, but for those that are canceled or taken from the end.
//
// What this package does not do: it sheds nothing by itself.
package line

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// DefaultLimit is the most requests that wait where a policy's authors set no
// bound: a bound on memory, far above what any objective allows.
const DefaultLimit = 10_000

// Config is the part of a policy's configuration that concerns the line.
type Config struct {
	// Slots is the most requests that run at once. Required: the compared
	// policies take the server's workers as given.
	Slots int
	// QueueLimit is the most requests that wait. Default DefaultLimit.
	QueueLimit int
}

// Check returns what is wrong with c, or nil.
func (c Config) Check(policy string) error {
	switch {
	case c.Slots < 1:
		return fmt.Errorf("%s: Slots is %d, expected 1 or more: the requests the server can work on at once", policy, c.Slots)
	case c.QueueLimit < 0:
		return fmt.Errorf("%s: QueueLimit is %d, expected 1 or more requests, or 0 for the default", policy, c.QueueLimit)
	}
	return nil
}

// Line is the queue and the slots. Its methods are those of a baseline.Door as
// far as they need no decision.
type Line struct {
	slots, limit int
	running      int
	queue        admission.Queue
}

// New returns an empty line.
func New(cfg Config) Line {
	if cfg.QueueLimit == 0 {
		cfg.QueueLimit = DefaultLimit
	}
	return Line{slots: cfg.Slots, limit: cfg.QueueLimit}
}

// Free reports whether a slot is free.
func (l *Line) Free() bool { return l.running < l.slots }

// Running returns the requests that run.
func (l *Line) Running() int { return l.running }

// Waiting returns the requests that wait.
func (l *Line) Waiting() int { return l.queue.Len() }

// Full reports whether no further request may wait.
func (l *Line) Full() bool { return l.queue.Len() >= l.limit }

// Head returns the ticket that has waited longest, Tail the one that came last;
// nil if none waits.
func (l *Line) Head() *admission.Ticket { return l.queue.Head() }

// Tail returns the ticket that came last, nil if none waits.
func (l *Line) Tail() *admission.Ticket { return l.queue.Tail() }

// Delay returns the queueing delay at now: the age of the oldest waiting
// request.
func (l *Line) Delay(now mono.Time) time.Duration {
	if t := l.queue.Head(); t != nil {
		return max(now.Sub(t.Arrived), 0)
	}
	return 0
}

// Enter takes a ticket that began: it runs if a slot is free and the queue empty,
// is shed as QueueFull if the queue is full, and else waits.
func (l *Line) Enter(now mono.Time, t *admission.Ticket) admission.Verdict {
	switch {
	case l.queue.Len() == 0 && l.Free():
		l.running++
		return t.Start(now)
	case l.Full():
		return t.Refuse(now, work.QueueFull)
	}
	l.queue.Push(t)
	return admission.Wait
}

// Run takes a waiting ticket out and gives it a slot.
func (l *Line) Run(now mono.Time, t *admission.Ticket) (*admission.Ticket, admission.Verdict) {
	l.queue.Remove(t)
	l.running++
	return t, t.Start(now)
}

// Shed takes a waiting ticket out and refuses it.
func (l *Line) Shed(now mono.Time, t *admission.Ticket, r work.Reason) (*admission.Ticket, admission.Verdict) {
	l.queue.Remove(t)
	return t, t.Refuse(now, r)
}

// Cancel takes a waiting ticket out whose caller gave up.
func (l *Line) Cancel(now mono.Time, t *admission.Ticket) bool {
	if !l.queue.Remove(t) {
		return false
	}
	t.Refuse(now, work.Canceled)
	return true
}

// Leave gives the slot of a running ticket back. It reports false if the ticket
// did not run.
func (l *Line) Leave(t *admission.Ticket) bool {
	if !t.End() {
		return false
	}
	l.running--
	return true
}

// HeadExpires returns the first instant at which the oldest waiting request is
// out of time, or mono.Never.
func (l *Line) HeadExpires() mono.Time {
	if t := l.queue.Head(); t != nil {
		return t.Deadline
	}
	return mono.Never
}
