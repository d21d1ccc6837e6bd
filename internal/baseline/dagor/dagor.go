// Package dagor is WeChat's overload control: every request has a priority, the
// server admits up to a level that follows its queueing delay, and clients learn
// the level from replies and drop the rest before it is sent.
//
//	Sender: priority > level heard? ──▶ refused, unsent
//	        else ──▶ Door: priority > level? ──▶ Shed
//	                       else ──▶ ▤▤▤▤ ──▶ Run ──▶ reply, with the level
//	                                  └─ delay ──▶ level
//
// The level moves by one of two laws:
//
//	Histogram  the original: once a window, down past the priorities that make
//	           up 5 % of the admitted requests, or up by 1 % of all
//	Stepwise   that of Breakwater's authors, for microseconds: × 0.95, or
//	           + 0.01 × 128
//
// The original's two levels of priority, business and user, are one here: 0 is
// the best, 127 the worst.
//
// Invariants: 0 is always admitted; running requests never exceed Slots.
//
// What this package does not do: it neither spreads the level over several hops
// nor changes the hash that gives a user his priority, as the original does every
// hour. Under Histogram, with every client well informed, nothing arrives above
// the level, so its first step up goes to the top; that is the published
// algorithm.
//
// Source: Zhou et al., "Overload Control for Scaling WeChat Microservices", SoCC
// 2018, section 4 and algorithm 1; for Stepwise, dg_server.c and dg_client.c of
// the Breakwater authors' Caladan tree.
package dagor

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

// Law chooses how the level moves.
type Law uint8

const (
	// Histogram is the original's cursor.
	Histogram Law = iota
	// Stepwise is the variant for microseconds.
	Stepwise
)

// Config describes a Door. Zero fields take the default named in their comment.
type Config struct {
	// Slots is the most requests that run at once. Required.
	Slots int
	// QueueLimit is the most requests that wait. Default 10,000.
	QueueLimit int
	// Law chooses how the level moves. Default Histogram.
	Law Law
	// Threshold is the queueing delay that counts as overload. Default 20 ms for
	// Histogram, as published; required for Stepwise, whose authors used 30, 70
	// and 500 µs for exponential service of 1, 10 and 100 µs. Larger queues more.
	Threshold time.Duration
	// Window is the longest time between two moves of the level. Default 1 s
	// (Stepwise: 1 ms).
	Window time.Duration
	// Requests is how many arrivals end a window before its time. Default 2,000.
	Requests int
	// Monitor is how often Stepwise looks at the queue. Default 10 µs.
	Monitor time.Duration
}

// levels is the number of priorities.
const levels = int(work.MaxPriority) + 1

// Door is the server's policy. It is not safe for concurrent use.
type Door struct {
	baseline.NoClients
	line  line.Line
	level leveler
}

// leveler moves the level.
type leveler interface {
	get() int
	onArrival(now mono.Time, priority work.Priority, admitted bool)
	onStart(now mono.Time, waited time.Duration)
	wake() mono.Time
	onWake(now mono.Time, delay time.Duration)
}

var _ baseline.Door = (*Door)(nil)

// New returns an idle door, or every mistake in cfg.
func New(cfg Config) (*Door, error) {
	lc := line.Config{Slots: cfg.Slots, QueueLimit: cfg.QueueLimit}
	errs := []error{lc.Check("dagor")}
	if cfg.Law > Stepwise {
		errs = append(errs, fmt.Errorf("dagor: Law is %d, expected Histogram or Stepwise", cfg.Law))
	}
	if cfg.Threshold < 0 || cfg.Law == Stepwise && cfg.Threshold == 0 {
		errs = append(errs, fmt.Errorf("dagor: Threshold is %v, expected above 0: the queueing delay that is overload", cfg.Threshold))
	}
	if cfg.Window < 0 || cfg.Requests < 0 || cfg.Monitor < 0 {
		errs = append(errs, fmt.Errorf("dagor: Window, Requests, Monitor are %v, %d, %v, expected above 0, or 0 for the defaults", cfg.Window, cfg.Requests, cfg.Monitor))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Requests == 0 {
		cfg.Requests = 2000
	}
	if cfg.Monitor == 0 {
		cfg.Monitor = 10 * time.Microsecond
	}
	d := &Door{line: line.New(lc)}
	if cfg.Law == Histogram {
		if cfg.Threshold == 0 {
			cfg.Threshold = 20 * time.Millisecond
		}
		if cfg.Window == 0 {
			cfg.Window = time.Second
		}
		d.level = newHistogram(cfg)
	} else {
		if cfg.Window == 0 {
			cfg.Window = time.Millisecond
		}
		d.level = newStepwise(cfg)
	}
	return d, nil
}

// Level returns the worst priority that is admitted.
func (d *Door) Level() int { return d.level.get() }

// Waiting returns the requests that wait.
func (d *Door) Waiting() int { return d.line.Waiting() }

// Running returns the requests that run.
func (d *Door) Running() int { return d.line.Running() }

// Arrive sheds t if its priority is worse than the level, else queues or runs it.
func (d *Door) Arrive(now mono.Time, t *admission.Ticket) admission.Verdict {
	t.Begin(now)
	admitted := int(t.Priority) <= d.level.get()
	d.level.onArrival(now, t.Priority, admitted)
	if !admitted {
		return t.Refuse(now, work.Delay)
	}
	v := d.line.Enter(now, t)
	if v == admission.Run {
		d.level.onStart(now, t.Queued())
	}
	return v
}

// Next runs the oldest ticket if a slot is free.
func (d *Door) Next(now mono.Time) (*admission.Ticket, admission.Verdict) {
	t := d.line.Head()
	if t == nil || !d.line.Free() {
		return nil, admission.Wait
	}
	t, v := d.line.Run(now, t)
	d.level.onStart(now, t.Queued())
	return t, v
}

// Cancel takes a waiting ticket out.
func (d *Door) Cancel(now mono.Time, t *admission.Ticket) bool { return d.line.Cancel(now, t) }

// Leave frees the slot of t.
func (d *Door) Leave(_ mono.Time, t *admission.Ticket, _ work.Outcome) { d.line.Leave(t) }

// Feedback carries the level.
func (d *Door) Feedback(_ mono.Time, t *admission.Ticket) baseline.Feedback {
	return baseline.Feedback{Level: d.level.get(), Reason: t.Reason()}
}

// NextWake returns when the level may move next.
func (d *Door) NextWake() mono.Time { return d.level.wake() }

// OnWake lets the level move.
func (d *Door) OnWake(now mono.Time) { d.level.onWake(now, d.line.Delay(now)) }
