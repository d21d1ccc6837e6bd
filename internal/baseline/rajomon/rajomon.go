// Package rajomon is a market for microservices: every request carries tokens,
// every interface has a price that follows the queueing delay of its process and
// of those it calls. A request that cannot pay is dropped where the price is first
// known: at the client if it can be.
//
//	Sender: tokens < price heard? ──▶ refused, unsent
//	        else ──▶ Door: tokens < price? ──▶ Shed
//	                       else ──▶ ▤▤▤▤ ──▶ Run ──▶ calls ──▶ reply, with the price
//	                                  └─ delay ──▶ own price    │
//	         price = max (or sum) of own and downstream ◀── OnAnswer
//
// Once a period the own price moves by Step for each Threshold by which the
// longest wait of the period exceeded it, and falls in the same way below it. With
// Decay, rises shrink from the third in a row on, so that the price does not run
// away while the answers that carry it travel. The sum of all rises is then
// bounded, and may end below the price that is needed.
//
// A request carries MaxPriority less its own priority as tokens. A client with
// random priorities therefore attaches a random part of its tokens, as in the
// original. No service takes tokens off: with the maximum as the price, nothing
// is lost by that. An interface is a workflow at a process.
//
// Invariants: a price is 0 to MaxPrice, so that some requests can always pay it
// and bring the news that it fell; running requests never exceed Slots.
//
// What this package does not do: it has no buckets in which clients save tokens
// up for a second attempt, and sends a price with every reply where the original
// sends it with one of some.
//
// Source: Xing et al., "Rajomon: Decentralized and Coordinated Overload Control
// for Latency-Sensitive Microservices", NSDI 2025, written from the published
// idea. Its constants depend on the unit of its tokens; those here are tuned in
// simulation.
package rajomon

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/internal/line"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// MaxPrice is the highest price, in tokens of which a request has up to
// work.MaxPriority. One in sixteen requests can pay it.
const MaxPrice = int(work.MaxPriority) - 7

// Config describes a Door. Zero fields take the default named in their comment.
type Config struct {
	// Slots is the most requests that run at once. Required.
	Slots int
	// QueueLimit is the most requests that wait. Default 10,000.
	QueueLimit int
	// Threshold is the queueing delay above which the price rises. Default 20 ms,
	// as DAGOR's. Larger queues more.
	Threshold time.Duration
	// Period is the time between two moves of the price. Default 10 ms, as
	// published.
	Period time.Duration
	// Step is by how many tokens the price moves for a delay of one Threshold more
	// or less. Default 0.25. Larger reacts faster and swings more.
	Step float64
	// Decay is the factor by which rises shrink that follow each other. Default 1:
	// they do not. With 0.8, a leaf of three tiers at twice its capacity served
	// half of what it served without (simulation).
	Decay float64
	// Additive makes the price the sum of the own one and those downstream, not
	// the largest.
	Additive bool
}

// steadyRises is after how many rises in a row Decay begins.
const steadyRises = 2

// Door is the policy of a process. It is not safe for concurrent use.
type Door struct {
	baseline.NoClients
	cfg   Config
	line  line.Line
	own   float64
	rises int
	worst time.Duration // longest wait of those that started in the period
	next  mono.Time
	begun bool
	// below is what workflows pay downstream.
	below map[string]*bill
}

// bill is the prices that one workflow was told, by the service it calls.
type bill struct {
	services []string
	prices   []int
}

var (
	_ baseline.Door     = (*Door)(nil)
	_ baseline.Listener = (*Door)(nil)
)

// New returns an idle door with the price 0, or every mistake in cfg.
func New(cfg Config) (*Door, error) {
	lc := line.Config{Slots: cfg.Slots, QueueLimit: cfg.QueueLimit}
	errs := []error{lc.Check("rajomon")}
	if cfg.Threshold < 0 || cfg.Period < 0 {
		errs = append(errs, fmt.Errorf("rajomon: Threshold and Period are %v and %v, expected above 0, or 0 for the defaults", cfg.Threshold, cfg.Period))
	}
	if !(cfg.Step >= 0) || math.IsInf(cfg.Step, 0) {
		errs = append(errs, fmt.Errorf("rajomon: Step is %v, expected above 0 tokens and finite, or 0 for the default", cfg.Step))
	}
	if !(cfg.Decay >= 0 && cfg.Decay <= 1) {
		errs = append(errs, fmt.Errorf("rajomon: Decay is %v, expected above 0 and at most 1, or 0 for the default", cfg.Decay))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Threshold == 0 {
		cfg.Threshold = 20 * time.Millisecond
	}
	if cfg.Period == 0 {
		cfg.Period = 10 * time.Millisecond
	}
	if cfg.Step == 0 {
		cfg.Step = 0.25
	}
	if cfg.Decay == 0 {
		cfg.Decay = 1
	}
	return &Door{cfg: cfg, line: line.New(lc), below: map[string]*bill{}}, nil
}

// Price returns what a request of a workflow has to pay, in tokens.
func (d *Door) Price(workflow string) int {
	price := int(d.own)
	if b := d.below[workflow]; b != nil {
		for _, p := range b.prices {
			if d.cfg.Additive {
				price += p
			} else {
				price = max(price, p)
			}
		}
	}
	return min(price, MaxPrice)
}

// Waiting returns the requests that wait.
func (d *Door) Waiting() int { return d.line.Waiting() }

// Running returns the requests that run.
func (d *Door) Running() int { return d.line.Running() }

// tokens returns what a request of a priority can pay.
func tokens(p work.Priority) int { return int(work.MaxPriority) - int(min(p, work.MaxPriority)) }

// Arrive sheds t if it cannot pay, else queues or runs it.
func (d *Door) Arrive(now mono.Time, t *admission.Ticket) admission.Verdict {
	t.Begin(now)
	if !d.begun || d.idle() && d.next < now {
		d.begun, d.next = true, now.Add(d.cfg.Period)
	}
	if tokens(t.Priority) < d.Price(t.Workflow) {
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
	t, v := d.line.Run(now, t)
	d.worst = max(d.worst, t.Queued())
	return t, v
}

// Cancel takes a waiting ticket out.
func (d *Door) Cancel(now mono.Time, t *admission.Ticket) bool { return d.line.Cancel(now, t) }

// Leave frees the slot of t.
func (d *Door) Leave(_ mono.Time, t *admission.Ticket, _ work.Outcome) { d.line.Leave(t) }

// Feedback carries the price of t's workflow.
func (d *Door) Feedback(_ mono.Time, t *admission.Ticket) baseline.Feedback {
	return baseline.Feedback{Level: d.Price(t.Workflow), Reason: t.Reason()}
}

// OnAnswer takes the price that a call of this process was told. It replaces what
// was heard of that service before.
func (d *Door) OnAnswer(_ mono.Time, workflow, service string, f baseline.Feedback) {
	if f.Reason == work.Canceled {
		return // the caller's own word, without a price
	}
	b := d.below[workflow]
	if b == nil {
		b = &bill{}
		d.below[workflow] = b
	}
	price := bounded(f.Level)
	for i, s := range b.services {
		if s == service {
			b.prices[i] = price
			return
		}
	}
	b.services, b.prices = append(b.services, service), append(b.prices, price)
}

func bounded(price int) int { return min(max(price, 0), MaxPrice) }

// idle reports whether nothing can move the price.
func (d *Door) idle() bool { return d.own == 0 && d.worst == 0 && d.line.Waiting() == 0 }

// NextWake returns the end of the period.
func (d *Door) NextWake() mono.Time {
	if !d.begun || d.idle() {
		return mono.Never
	}
	return d.next
}

// OnWake ends the period if it is over. A late call ends one, not several.
func (d *Door) OnWake(now mono.Time) {
	if !d.begun || now < d.next {
		return
	}
	d.next = now.Add(d.cfg.Period)
	delay := max(d.worst, d.line.Delay(now))
	d.worst = 0
	move := d.cfg.Step * float64(delay-d.cfg.Threshold) / float64(d.cfg.Threshold)
	if move > 0 {
		if d.rises >= steadyRises {
			move *= math.Pow(d.cfg.Decay, float64(d.rises))
		}
		d.rises++
	} else {
		d.rises = 0
	}
	d.own = math.Min(math.Max(d.own+move, 0), float64(MaxPrice))
}
