// Package baseline holds the vocabulary in which Spillgate and the policies it
// is compared with are driven: one interface for a server, one for a client.
//
//	Sender.Submit ──request──▶ Door.Arrive ─ Door.Next ─ Door.Leave
//	Sender.OnReply ◀──Feedback── Door.Feedback
//
// Each policy is a package of its own below this one, named as its authors named
// it. A driver (the simulator, or a server in the lab) knows these interfaces
// only, so that every policy meets the same load on the same terms.
//
// Invariants: a policy is pure, as every policy of this module: time is an
// argument and chance comes from a seed in its constructor.
//
// What this package does not do: it holds no policy.
package baseline

import (
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Feedback is what a server's policy puts on a reply for the client's policy.
// Each policy uses the fields it needs.
type Feedback struct {
	// Grant is the credits, if HasGrant.
	Grant    wire.Grant
	HasGrant bool
	// Level is the admission level of priority-based policies; requests of a
	// larger priority are dropped by the client.
	Level int
	// Reason is why the request was refused, work.None if it was served.
	Reason work.Reason
	// Pushback is how long a refused client should wait before it tries again,
	// negative if it should not. A policy that does not say leaves 0.
	Pushback time.Duration
	// Rate is the rate at which the sender may send such requests, in requests/s, if
	// HasRate; else there is no limit. Announces says that the sender is to be told
	// either.
	Rate               float64
	Announces, HasRate bool
}

// Shed reports whether the server refused the request.
func (f *Feedback) Shed() bool { return f.Reason != work.None }

// Door is a server's policy. admission.Gate is one, but for Feedback, which
// wraps its Reply.
type Door interface {
	// Connect and Disconnect tell of clients. A policy that knows no clients
	// returns nil.
	Connect(now mono.Time) *credit.Client
	Disconnect(now mono.Time, c *credit.Client)
	// OnDemand takes demand that a client reports without a request.
	OnDemand(now mono.Time, c *credit.Client, demand int)
	// Arrive decides about a request; see admission.Gate.
	Arrive(now mono.Time, t *admission.Ticket) admission.Verdict
	// Next names the tickets that leave the queue, to run or shed, until nil.
	Next(now mono.Time) (*admission.Ticket, admission.Verdict)
	// Cancel takes a waiting ticket out whose caller gave up.
	Cancel(now mono.Time, t *admission.Ticket) bool
	// Leave ends a ticket that ran.
	Leave(now mono.Time, t *admission.Ticket, o work.Outcome)
	// Feedback is called once for the reply to each ticket.
	Feedback(now mono.Time, t *admission.Ticket) Feedback
	// NextWake and OnWake are the policy's own time; Next and NextGrant follow.
	NextWake() mono.Time
	OnWake(now mono.Time)
	// NextGrant names the clients that get a grant without a reply, one a call, until false.
	NextGrant() (*credit.Client, wire.Grant, bool)
}

// Sender is a client's policy for one server.
type Sender interface {
	// Submit takes a request: it is sent at once, waits, or is refused unsent.
	Submit(now mono.Time, w *credit.Waiter, priority work.Priority) (credit.Step, work.Reason)
	// Next names the waiters that leave the queue, to be sent or refused.
	Next(now mono.Time) (*credit.Waiter, credit.Step, work.Reason)
	// Cancel takes a waiter out whose caller gave up; false if it does not wait.
	Cancel(w *credit.Waiter) bool
	// Demand is what to report with the next request.
	Demand() int
	// OnReply takes the reply to a request that was sent; rtt is the time since
	// it was sent.
	OnReply(now mono.Time, w *credit.Waiter, rtt time.Duration, f Feedback)
	// OnGrant takes a grant that came without a reply.
	OnGrant(now mono.Time, g wire.Grant)
	NextWake() mono.Time
	OnWake(now mono.Time)
}

// Listener is a Door whose decisions depend on what the calls of its own process
// were told.
type Listener interface {
	// OnAnswer takes the feedback on a call that the process made to a service
	// for a request of a workflow.
	OnAnswer(now mono.Time, workflow, service string, f Feedback)
}

// Labeled is what the Owner of a Waiter implements if the driver knows to which
// workflow the request belongs.
type Labeled interface{ Workflow() string }
