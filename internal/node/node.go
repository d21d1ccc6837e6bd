package node

import (
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Node is one process's control. It is not safe for concurrent use. Calls take
// the time of the policy below and a map look-up or two, and do not allocate but
// for new names.
type Node struct {
	door    baseline.Door
	gate    *admission.Gate // door's; nil if that is another policy
	number  uint64
	service string
	rated   bool           // workflows have rates
	adapter *rates.Adapter // the gate's; see adapterAt
	// periodEnds is no later than the end of the adapter's period, so that most events need not look at it, far away in memory.
	periodEnds mono.Time
	fair       bool             // the queue tells workflows apart
	totals     *progress.Totals // of whole requests; nil: nothing here needs to know what remains
	parts      *progress.Totals // of what other processes sent here; nil with totals
	flows      Flows
	callers    map[uint64]*caller
	recent     [8]*caller // of callers, by number: the map is far away in memory
	pollers    pollers
	reach      reach
	looks      history
	marked     []mark // culprits that were cancelled

	draining bool
}

var _ baseline.Door = (*Node)(nil)

// Gate returns the gate inside, for looking at, and nil if another policy decides.
func (n *Node) Gate() *admission.Gate { return n.gate }

// Rated reports whether workflows have rates here.
func (n *Node) Rated() bool { return n.rated }

// Described reports whether tags change what becomes of a request: a driver whose
// node says false may leave Describe out for senders that ask for nothing.
func (n *Node) Described() bool { return n.fair || n.totals != nil }

// Connect opens an account for a client, nil if the policy knows no clients.
func (n *Node) Connect(now mono.Time) *credit.Client { return n.door.Connect(now) }

// ByReply says whether replies are all that a client of Connect hears: see credit.Pool.ByReply. For a policy that is not
// the gate, and for no account, it does nothing.
func (n *Node) ByReply(c *credit.Client, yes bool) {
	if n.gate != nil && c != nil {
		n.gate.Pool().ByReply(c, yes)
	}
}

// Disconnect ends an account of Connect.
func (n *Node) Disconnect(now mono.Time, c *credit.Client) { n.door.Disconnect(now, c) }

// OnDemand takes demand that a client reports without a request.
func (n *Node) OnDemand(now mono.Time, c *credit.Client, demand int) { n.door.OnDemand(now, c, demand) }

// Drain refuses every request that arrives from now on; those inside finish.
func (n *Node) Drain() {
	n.draining = true
	if n.gate != nil {
		n.gate.Drain()
	}
}

// Arrive decides about a request: see admission.Gate.Arrive.
func (n *Node) Arrive(now mono.Time, t *admission.Ticket) admission.Verdict {
	switch {
	case n.gate != nil: // not through the interface, here and below: it is called for each request
		return n.gate.Arrive(now, t)
	case n.draining:
		t.Begin(now)
		return t.Refuse(now, work.Draining)
	}
	return n.door.Arrive(now, t)
}

// Observe lets a request run and returns what Arrive would have said: see
// admission.Gate.Observe. Another policy than the gate cannot say, so it decides.
func (n *Node) Observe(now mono.Time, t *admission.Ticket) (admission.Verdict, time.Duration) {
	if n.gate == nil {
		return n.door.Arrive(now, t), 0
	}
	if s := stayOf(t); s != nil {
		s.observed = true
	}
	return n.gate.Observe(now, t)
}

// Queueing reports whether Next may return a ticket. Mostly it does not.
func (n *Node) Queueing() bool { return n.gate == nil || n.gate.Queueing() }

// Next names the tickets that leave the queue, to run or shed, until nil.
func (n *Node) Next(now mono.Time) (*admission.Ticket, admission.Verdict) {
	if n.gate != nil {
		return n.gate.Next(now)
	}
	return n.door.Next(now)
}

// Cancel takes a waiting ticket out whose caller gave up; false if it does not wait.
func (n *Node) Cancel(now mono.Time, t *admission.Ticket) bool { return n.door.Cancel(now, t) }

// Refuse is Cancel for a reason of the driver's. A policy that is not the gate
// knows work.Canceled alone.
func (n *Node) Refuse(now mono.Time, t *admission.Ticket, r work.Reason) bool {
	if n.gate == nil {
		return n.door.Cancel(now, t)
	}
	return n.gate.Refuse(now, t, r)
}

// Oldest returns a ticket that waits, nil if none does: see admission.Gate.Oldest.
// For a policy that is not the gate it returns nil.
func (n *Node) Oldest() *admission.Ticket {
	if n.gate == nil {
		return nil
	}
	return n.gate.Oldest()
}

// Leave ends a ticket that ran.
func (n *Node) Leave(now mono.Time, t *admission.Ticket, o work.Outcome) {
	if n.gate != nil {
		n.gate.Leave(now, t, o)
		if len(n.marked) > 0 {
			n.unmark(now, t)
		}
		return
	}
	n.door.Leave(now, t, o)
}

// Answer says that the answer to a ticket that runs has begun: see admission.Gate.
func (n *Node) Answer(now mono.Time, t *admission.Ticket, sample bool) {
	if n.gate != nil {
		n.gate.Answer(now, t, sample)
	}
}

// Feedback is called once for the reply to each ticket, and ends its stay. It
// announces a rate to a sender that named itself.
func (n *Node) Feedback(now mono.Time, t *admission.Ticket) (f baseline.Feedback) {
	n.Reply(now, t, &f)
	return f
}

// Reply is Feedback into a zero f, for drivers to which a copy of it matters: a
// tenth of what a decision costs.
func (n *Node) Reply(now mono.Time, t *admission.Ticket, f *baseline.Feedback) {
	if n.gate == nil {
		*f = n.door.Feedback(now, t)
	} else {
		if f.Reason = t.Reason(); f.Shed() {
			f.Pushback = n.gate.Pushback(now, t)
		}
		f.HasGrant = n.gate.ReplyTo(now, t, &f.Grant)
	}
	if t.Stay == nil {
		return
	}
	if s := stayOf(t); s != nil {
		if s.flow != nil {
			s.flow.Inside--
			s.flow = nil
		}
		f.Announces, f.Rate, f.HasRate = n.Announce(t)
	}
}

// Ahead is the grant for a reply whose header goes before its ticket leaves: see admission.Gate.Ahead. Another policy
// than the gate has none.
func (n *Node) Ahead(now mono.Time, t *admission.Ticket, grant *wire.Grant) bool {
	return n.gate != nil && n.gate.Ahead(now, t, grant)
}

// NextWake and OnWake are the node's own time. Polls are due at the ends of the
// rates' periods, at which it wakes anyway.
func (n *Node) NextWake() mono.Time {
	if n.gate != nil {
		return n.gate.NextWake()
	}
	return n.door.NextWake()
}

// OnWake does what is due at now. Early, late and repeated calls are harmless.
// Next, NextGrant and NextPoll follow.
func (n *Node) OnWake(now mono.Time) { n.door.OnWake(now) }

// Granting reports whether NextGrant may return one. Nearly always it does not.
func (n *Node) Granting() bool { return n.gate == nil || n.gate.Pool().Granting() }

// NextGrant names clients to whom a grant goes without a reply, until false.
func (n *Node) NextGrant() (*credit.Client, wire.Grant, bool) {
	if n.gate != nil {
		return n.gate.Pool().NextGrant()
	}
	return n.door.NextGrant()
}

// OnLag takes how long requests lay in sockets before the process saw them: see
// admission.Gate.OnLag. Other policies than the gate do not hear of it.
func (n *Node) OnLag(now mono.Time, d time.Duration) {
	if n.gate != nil {
		n.gate.OnLag(now, d)
	}
}

// OnBusy takes what the process used of its processors, and all of the host's: see admission.Gate.OnBusy.
// Other policies than the gate do not hear of it.
func (n *Node) OnBusy(used, all time.Duration, processors int, host float64) {
	if n.gate != nil {
		n.gate.OnBusy(used, all, processors, host)
	}
}
