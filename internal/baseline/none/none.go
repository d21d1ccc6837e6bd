// Package none is the absence of a policy: the server runs whatever arrives and
// the client sends whatever it has.
//
//	Arrive ──▶ Run, always          Submit ──▶ Send, always
//
// It is what a grpc-go or net/http server does by itself, and the floor of every
// comparison. Its Sender is also the client of all policies that act at the
// server alone.
//
// Invariants: nothing waits and nothing is refused.
//
// What this package does not do: it does not look at deadlines; that a caller
// gives up is the driver's business.
package none

import (
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Door runs every request at once.
type Door struct {
	baseline.NoClients
	baseline.NoTimer
	baseline.NoQueue
}

var _ baseline.Door = Door{}

// Arrive runs t.
func (Door) Arrive(now mono.Time, t *admission.Ticket) admission.Verdict {
	t.Begin(now)
	return t.Start(now)
}

// Leave ends t.
func (Door) Leave(_ mono.Time, t *admission.Ticket, _ work.Outcome) { t.End() }

// Sender sends every request at once.
type Sender struct{ baseline.NoTimer }

var _ baseline.Sender = Sender{}

// Submit sends the request.
func (Sender) Submit(mono.Time, *credit.Waiter, work.Priority) (credit.Step, work.Reason) {
	return credit.Send, work.None
}

// Next returns nil: nothing waits.
func (Sender) Next(mono.Time) (*credit.Waiter, credit.Step, work.Reason) {
	return nil, credit.Wait, work.None
}

// Cancel returns false.
func (Sender) Cancel(*credit.Waiter) bool { return false }

// Demand returns 0.
func (Sender) Demand() int { return 0 }

// OnReply does nothing.
func (Sender) OnReply(mono.Time, *credit.Waiter, time.Duration, baseline.Feedback) {}

// OnGrant does nothing.
func (Sender) OnGrant(mono.Time, wire.Grant) {}
