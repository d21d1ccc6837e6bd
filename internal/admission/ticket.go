package admission

import (
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

// Verdict is what becomes of a ticket.
type Verdict uint8

const (
	// Wait: the ticket is in the queue until Next names it.
	Wait Verdict = iota
	// Run: the ticket holds a slot until Leave.
	Run
	// Shed: the request is refused for Ticket.Reason. It still must be replied
	// to through Reply, which carries the client's credits.
	Shed
)

// String names v as scripts and logs do.
func (v Verdict) String() string {
	switch v {
	case Wait:
		return "wait"
	case Run:
		return "run"
	case Shed:
		return "shed"
	}
	return "unknown"
}

// Ticket is one request's passage through a Gate. The driver allocates it, fills
// the exported fields and passes it to Arrive; it may use it again once it was
// replied to.
type Ticket struct {
	work.Request
	// Client is the account that pays for the request, nil for a client that
	// knows no credits.
	Client *credit.Client
	// Arrived is the instant at which the request reached this server, if the driver
	// knows that it was earlier than Arrive: what lies between counts as queueing delay.
	// Zero means the instant of Arrive, less what requests lie in sockets: see OnLag.
	Arrived mono.Time
	// Waited is for how long the request waited at its client before it was sent. It
	// is part of what the caller sees of the objective, and no queueing delay.
	Waited time.Duration
	// Flow is the small number that the driver gave to the workflow, for the order
	// of the queue: see schedule.Task.Workflow.
	Flow int
	// Remaining is the service that the request still needs, here and further on;
	// Total what it needs altogether; Done what it has had. From progress metrics,
	// 0 if unknown.
	Remaining, Total, Done time.Duration
	// Least is what of Remaining is likely to be needed: see schedule.Task.
	Least time.Duration
	// From is the process that sent the request, and Claim the rate at which it
	// would send requests of this workflow if nothing held it back, in requests/s, 0
	// if it did not say. They count where workflows have rates: see rates.Request.
	From  rates.Peer
	Claim float64
	// Source is the sender of the request, and Peer the party that answers for all of its
	// sources, as an address does for its connections: numbers that the driver chose, 0
	// if it does not know. When the queue is full, requests of those that had more than
	// others are refused first: peers among each other, sources among those of one peer.
	// Without a Source, the Client is the sender.
	Source, Peer uint64
	// Whom is whose turn the request takes, with Schedule.Senders: for whom its sender asks, if the
	// driver knows that and believes it. 0 means the Peer, or of one that is not known the Source.
	Whom uint64
	// Objective is the time within which an answer to this request helps its caller, for a
	// method whose objective is not the gate's. 0 means the gate's.
	Objective time.Duration
	// Kind is what the request does, nil if the driver does not know: see slots.Kinds.
	Kind Kind
	// Barred is why the driver has the request refused on arrival, work.None if it has
	// no reason of its own.
	Barred work.Reason
	// Owner is for the driver.
	Owner any
	// Mark is for a policy other than Gate, to find on Leave what it noted on
	// Arrive; Stay is the same for what stands around the policy.
	Mark int
	Stay any

	reason     work.Reason
	state      state
	observed   bool // it runs, whatever reason says: see Gate.Observe
	plain      bool // over its window or without one: stricter AQM
	started    mono.Time
	since      mono.Time     // in the queue for a slot
	due        mono.Time     // its objective ends, counted from its start
	overdue    bool          // it has
	answered   mono.Time     // its answer began, 0 before
	untimed    bool          // that tells nothing of the service
	ahead      bool          // its answer carried credits before it left
	scale      float64       // of residences, when it started
	promised   time.Duration // the wait that was expected then
	slot       slots.Place   // see slots.Limit
	nature     *slots.Nature // of its kind, nil: unknown
	length     *length       // of its kind, nil: unknown
	crowds     bool          // its kind mostly outlives the objective, and its like hold as much as they may
	holds      bool          // a slot, or as much beside them
	lent       bool          // runs without a slot: it gave it back after the objective, or runs beside
	pushed     bool          // out of the queue, for somebody who had less
	spared     bool          // at its turn, as those behind it had more
	overtaken  bool          // by others whose turns were before its sender's
	senders    senders       // in Gate.usage
	had        float64       // what its source had when it came, and its peer
	peerHad    float64
	place      int    // in Gate.waiters
	aside      *Queue // in which it waits aside, nil: in none
	task       schedule.Task
	rated      rates.Request
	prev, next *Ticket
}

// Reset makes t, which was replied to, a new Ticket, which keeps the memory of the old one.
func (t *Ticket) Reset() {
	rated := t.rated
	rated.Reset()
	*t = Ticket{rated: rated}
}

// Kind says what a request does. Requests that do the same have the same kind, such as the method that is called.
type Kind interface{ Kind() string }

type state uint8

const (
	fresh  state = iota
	shaped       // waits for its workflow's rate
	waiting
	running
	ended
)

// Reason says why the ticket was shed; work.None if it was not.
func (t *Ticket) Reason() work.Reason { return t.reason }

// Running reports whether the ticket runs, with a slot or after it gave that back: see
// Lent.
func (t *Ticket) Running() bool { return t.state == running }

// Lent reports whether the ticket, which runs, has no slot: it gave it back, or never had one. See
// slots.Limit.Lend and Beside.
func (t *Ticket) Lent() bool { return t.lent }

// Beside reports whether the ticket, which runs, never had a slot.
func (t *Ticket) Beside() bool { return t.slot.Beside() }

// Waiting reports since when the ticket waits for a slot, if it does.
func (t *Ticket) Waiting() (since mono.Time, waits bool) { return t.since, t.state == waiting }

// Group returns the group of kinds in which the ticket waits in the order of arrival, or did: see schedule.Kind.
func (t *Ticket) Group() int { return t.task.Group() }

// useful is the instant after which an answer is late: for its caller, or for the
// objective, which counts from the instant at which the client meant to send.
func (t *Ticket) useful(objective time.Duration) mono.Time {
	return min(t.Deadline, t.Arrived.Add(t.objective(objective)-t.Waited))
}

// leaves reports whether the caller leaves before an answer can be late at a gate with an objective: it has that, or
// less, as its deadline.
func (t *Ticket) leaves(objective time.Duration) bool {
	return t.Deadline <= t.Arrived.Add(t.objective(objective)-t.Waited)
}

// objective is what counts for t at a gate with an objective.
func (t *Ticket) objective(gate time.Duration) time.Duration {
	if t.Objective > 0 {
		return t.Objective
	}
	return gate
}

// Queued returns how long the ticket waited before it ran, or was shed.
func (t *Ticket) Queued() time.Duration { return t.started.Sub(t.Arrived) }

// fill tells the queue about t.
func (t *Ticket) fill(since mono.Time, cost time.Duration) {
	k := &t.task
	k.Sender = t.whom()
	k.Workflow, k.Class, k.Priority, k.Arrived, k.Deadline = t.Flow, t.Class, t.Priority, since, t.Deadline
	k.Remaining, k.Total, k.Done, k.Least, k.Cost, k.Owner = t.Remaining, t.Total, t.Done, t.Least, cost, t
	k.Kind = t.length.kind()
}
