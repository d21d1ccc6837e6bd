package admission

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// Because explains a refusal: what the gate knew when it refused a ticket.
type Because struct {
	Reason work.Reason
	// Expected is the wait that the ticket was expected to have when it came, and Accepted
	// the longest that a request with the whole objective may have. Queued is how long it
	// was in the queue.
	Expected, Accepted, Queued time.Duration
	// Need is how much of the time must be left when the work begins, so that it probably
	// ends in time.
	Need time.Duration
	// Objective is what counted for the request, Waited the part of it that was over
	// before the request was sent, and Left the time to its deadline when it came; negative
	// without a deadline.
	Objective, Waited, Left time.Duration
	// Limit is the most that may run at once, Running what did, Waiting the others that waited, in the
	// queue or aside, and QueueLimit the most that may be in each of the two.
	Limit, Running, Waiting, QueueLimit int
	// Long says that requests like it mostly take longer than the objective, and that it was refused because as many of
	// these as may had begun.
	Long bool
	// Credits says that the client has an account, with a window of Window credits; Over that
	// it had more requests outstanding than these.
	Credits, Over bool
	Window        int
}

// Because returns why t was refused, at the instant at which it was.
func (g *Gate) Because(now mono.Time, t *Ticket) Because {
	b := Because{
		Reason: t.reason, Expected: t.promised, Accepted: g.maxDelay(t), Queued: max(t.Queued(), 0), Need: g.worth.need,
		Objective: t.objective(g.cfg.Objective), Waited: t.Waited, Left: -1,
		Long:  t.crowds && t.reason == work.Share,
		Limit: g.limit.Limit(), Running: g.limit.InUse(), Waiting: g.Waiting(), QueueLimit: g.cfg.QueueLimit,
	}
	if t.Deadline != mono.Never {
		b.Left = max(t.Deadline.Sub(t.Arrived), 0)
	}
	if t.Client != nil {
		b.Credits, b.Over, b.Window = true, t.plain, t.Client.Window()
	}
	return b
}
