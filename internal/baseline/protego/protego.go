// Package protego sizes the credit pool by throughput instead of delay: credits
// grow while more of them bring more completions.
//
//	every 200 µs, over the last 100 µs:  in = requests, out = completions
//	Δout / Δin ≥ 1/4 and all credits used ──▶ total + step
//	else                                  ──▶ total − step     step = max(0.0005·N, 1)
//
// The reason: delay cannot tell lock contention from load, and throughput can.
// Credits are distributed by this module's credit.Pool, so that in a
// comparison only the size of the pool differs.
//
// Invariants: the pool has at least Slots credits; a request that finds the
// queueing delay above Budget is refused.
//
// What this package does not do: it has no locks to watch, so the original's
// second half, lock queues that abort what would wait too long, is missing.
//
// Source: Cho et al., "Protego: Overload Control for Applications with
// Unpredictable Lock Contention", NSDI 2023, section 4.2; bw_server.c of its
// authors' Caladan tree.
package protego

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/internal/line"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Config describes a Door. Zero fields take the default named in their comment.
type Config struct {
	// Slots is the most requests that run at once. Required.
	Slots int
	// QueueLimit is the most requests that wait. Default 10,000.
	QueueLimit int
	// Budget is the queueing delay above which an arriving request is refused.
	// Required; the authors use 160 µs for a service of 10 µs.
	Budget time.Duration
	// Interval is the time between two changes of the pool. Default 200 µs.
	Interval time.Duration
	// Settle is the part of an interval after a change that is not measured.
	// Default half of Interval: about a p99 round trip.
	Settle time.Duration
	// Slope is the least Δout/Δin that counts as a gain. Default 0.25.
	Slope float64
	// Step is the change per interval as a share of the clients, at least one
	// credit. Default 0.0005.
	Step float64
	// MaxWindow is the largest window of one client. Default 64.
	MaxWindow int
	// Epoch marks this life of the server on its grants.
	Epoch uint32
}

// Door is the server's policy. Its clients use baseline.Wallet. It is not safe
// for concurrent use.
type Door struct {
	cfg   Config
	line  line.Line
	pool  *credit.Pool
	law   law
	total float64
}

var _ baseline.Door = (*Door)(nil)

// New returns an idle door, or every mistake in cfg.
func New(cfg Config) (*Door, error) {
	lc := line.Config{Slots: cfg.Slots, QueueLimit: cfg.QueueLimit}
	errs := []error{lc.Check("protego")}
	if cfg.Budget <= 0 {
		errs = append(errs, fmt.Errorf("protego: Budget is %v, expected above 0: the queueing delay that is too much", cfg.Budget))
	}
	if cfg.Interval < 0 || cfg.Settle < 0 || !(cfg.Slope >= 0) || !(cfg.Step >= 0) {
		errs = append(errs, fmt.Errorf("protego: Interval, Settle, Slope, Step are %v, %v, %v, %v, expected above 0, or 0 for the defaults", cfg.Interval, cfg.Settle, cfg.Slope, cfg.Step))
	}
	if cfg.Interval == 0 {
		cfg.Interval = 200 * time.Microsecond
	}
	if cfg.Settle == 0 {
		cfg.Settle = cfg.Interval / 2
	}
	if cfg.Settle >= cfg.Interval && cfg.Interval > 0 {
		errs = append(errs, fmt.Errorf("protego: Settle is %v, expected below Interval, which is %v", cfg.Settle, cfg.Interval))
	}
	if cfg.Slope == 0 {
		cfg.Slope = 0.25
	}
	if cfg.Step == 0 {
		cfg.Step = 0.0005
	}
	if cfg.MaxWindow == 0 {
		cfg.MaxWindow = 64
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	pool, err := credit.NewPool(credit.Config{
		TargetDelay: cfg.Budget, Interval: cfg.Interval, InitialWindow: 1,
		MinTotal: cfg.Slots, MaxWindow: cfg.MaxWindow, Epoch: cfg.Epoch,
	})
	if err != nil {
		return nil, err
	}
	return &Door{cfg: cfg, line: line.New(lc), pool: pool, total: float64(cfg.Slots),
		law: law{interval: cfg.Interval, settle: cfg.Settle, slope: cfg.Slope}}, nil
}

// Pool returns the credit pool, for looking at.
func (d *Door) Pool() *credit.Pool { return d.pool }

// Waiting returns the requests that wait.
func (d *Door) Waiting() int { return d.line.Waiting() }

// Running returns the requests that run.
func (d *Door) Running() int { return d.line.Running() }

// Connect registers a client.
func (d *Door) Connect(now mono.Time) *credit.Client { return d.pool.Register(now) }

// Disconnect gives the client's credits back.
func (d *Door) Disconnect(now mono.Time, c *credit.Client) {
	if c != nil {
		d.pool.Deregister(now, c)
	}
}

// OnDemand takes demand that came without a request.
func (d *Door) OnDemand(now mono.Time, c *credit.Client, demand int) {
	if c != nil {
		d.pool.OnDemand(now, c, demand)
	}
}

// Arrive queues t or runs it, or sheds it if the queueing delay is above Budget.
func (d *Door) Arrive(now mono.Time, t *admission.Ticket) admission.Verdict {
	t.Begin(now)
	d.law.in++
	if t.Client != nil {
		d.pool.OnRequest(now, t.Client, t.Demand)
	}
	d.update(now)
	if d.line.Delay(now) > d.cfg.Budget {
		return t.Refuse(now, work.Delay)
	}
	return d.line.Enter(now, t)
}

// Next runs the oldest ticket if a slot is free.
func (d *Door) Next(now mono.Time) (*admission.Ticket, admission.Verdict) {
	t := d.line.Head()
	if t == nil || !d.line.Free() {
		return nil, admission.Wait
	}
	return d.line.Run(now, t)
}

// Cancel takes a waiting ticket out.
func (d *Door) Cancel(now mono.Time, t *admission.Ticket) bool { return d.line.Cancel(now, t) }

// Leave frees the slot of t and counts a completion.
func (d *Door) Leave(now mono.Time, t *admission.Ticket, o work.Outcome) {
	if !d.line.Leave(t) {
		return
	}
	if o.Executed() {
		d.law.out++
	}
	d.update(now)
}

// Feedback carries the client's window.
func (d *Door) Feedback(now mono.Time, t *admission.Ticket) baseline.Feedback {
	f := baseline.Feedback{Reason: t.Reason()}
	if c := t.Client; c != nil {
		t.Client = nil
		f.Grant, f.HasGrant = d.pool.OnReply(now, c), true
	}
	return f
}

// NextWake returns when the pool may change next, while anything depends on it.
func (d *Door) NextWake() mono.Time {
	if drained, _ := d.pool.Drained(); drained == 0 && d.pool.Pending() == 0 {
		return mono.Never
	}
	return d.law.wake()
}

// OnWake lets the pool change.
func (d *Door) OnWake(now mono.Time) { d.update(now) }

// NextGrant names the clients that get a grant without a reply, one a call, until false.
func (d *Door) NextGrant() (*credit.Client, wire.Grant, bool) { return d.pool.NextGrant() }

// update changes the pool if the interval is over.
func (d *Door) update(now mono.Time) {
	grow, due := d.law.due(now, d.pool.Issued() >= d.pool.Total())
	if !due {
		return
	}
	step := max(d.cfg.Step*float64(d.pool.Clients()), 1)
	if !grow {
		step = -step
	}
	most := float64(d.pool.Clients() * d.cfg.MaxWindow)
	d.total = max(min(d.total+step, most), float64(d.cfg.Slots))
	d.pool.OnWake(now, d.cfg.Budget) // leases; a delay at target leaves the size alone
	d.pool.SetTotal(now, d.total)
}
