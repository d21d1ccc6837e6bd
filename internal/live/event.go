package live

import (
	"time"

	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/work"
)

// Reach says whether a gate's objective can be met at all: see node.Reach.
type Reach = node.Reach

// Event is the end of one request's passage, for metrics.
type Event struct {
	// Reason is why the request was refused, work.None if it was served.
	Reason work.Reason
	// A request that was cancelled while it ran has the reason work.Culprit and the
	// outcome work.Cancelled.
	//
	// Enforced is false where the gate only monitored: the request ran, Reason
	// says what would have been.
	Enforced bool
	// Class, Workflow and Priority are those of the request.
	Class    work.Class
	Workflow string
	Priority work.Priority
	// Outcome is how a request that ran ended.
	Outcome work.Outcome
	// Queued is the time in the gate's queue, Service the time from start to
	// Leave, 0 if it did not run.
	Queued, Service time.Duration
	// Reach is there when with this request it has changed whether the objective can be
	// met at all: once a change.
	Reach *Reach
}
