package hold

import (
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// Config describes an application and a run.
type Config struct {
	// Seed is the source of all chance.
	Seed uint64
	// Resources are what programs refer to by index.
	Resources []Resource
	// Loads are the foreground, Guests the tasks beside it.
	Loads  []Load
	Guests []Guest
	// Objective is the latency that the foreground must meet; finished requests
	// beyond it are late.
	Objective time.Duration
	// Every is the time between two looks, and Delay that from an action to the
	// moment at which the application obeys.
	Every, Delay time.Duration
	// From and End bound the measurement. What starts in between is counted.
	From, End time.Duration
	// Controller decides; nil only lets things happen.
	Controller Controller
	// Trace lists every foreground request in the report.
	Trace bool
}

// Controller is told each look and answers with actions, and after which time to
// look again if that is sooner than usual. The sample is valid during the call.
type Controller interface {
	Observe(*culprit.Sample) (actions []culprit.Action, soon time.Duration)
}

// Resource is something to hold or to consume.
type Resource struct {
	Name string
	Kind culprit.Kind
	// Slots is how many tasks a Queue lets in, and the capacity of a System, in
	// processors.
	Slots float64
	// Pages is the size of a Memory, Hot how many of them the foreground needs.
	Pages, Hot int
	// Miss is how long a page takes that is not in the pool.
	Miss time.Duration
	// History makes Memory a list of old versions instead of a pool: it grows by
	// the pages that the foreground touches while a guest holds a snapshot
	// (Acquire), and Miss is what 1,000 old pages add to each touch.
	History bool
	// Heap makes Memory a heap: nothing is evicted, and a page that the foreground
	// touches takes Miss with the share of the hot pages that have no room, because
	// the collector runs then.
	Heap bool
}

// Load is a stream of foreground requests.
type Load struct {
	Program Program
	// Rate is requests/s of an open stream. Of several steps, each holds from its
	// instant on.
	Rate []Step
	// Clients send one request at a time, with a mean of Think between two.
	Clients int
	Think   time.Duration
}

// Step is a rate from an instant on.
type Step struct {
	From time.Duration
	Rate float64
}

// Guest is one task beside the load.
type Guest struct {
	Program Program
	// At is when it begins, Again how long after its end it begins anew; 0 never.
	At, Again time.Duration
	// Until ends the repetition; 0 never.
	Until time.Duration
	// Culprit marks what a controller is to find, Target what it is to cancel. A
	// culprit that is no target may be cancelled too, but is not the right one.
	Culprit, Target bool
	Background      bool
	Barred          culprit.Bar
	Steps           culprit.Steps
	// Undo is how long undoing a second of its work takes.
	Undo float64
	// Keeps holds on to the locks when its statement is cancelled.
	Keeps bool
}

// Report is what a run came to.
type Report struct {
	// Done counts foreground requests that started and ended within the measured
	// time, Rate is all that ended within it, per second.
	Done uint64
	Rate float64
	// P99 is the 99th percentile of the latency of those that started within it;
	// one in flight at the end counts with its age.
	P99 time.Duration
	// Cancels are the actions, in order.
	Cancels []Cancel
	// Started counts foreground requests in all, Dropped those that were cancelled
	// or kept from starting.
	Started, Dropped uint64
	// WrongLimits counts limits on kinds that no culprit has.
	WrongLimits int
	// Requests are those of a traced run, by when they ended, those in flight at the
	// end last.
	Requests []Request
	// TaskTime is the time that tasks were alive, summed over tasks.
	TaskTime time.Duration
}

// Request is one foreground request.
type Request struct {
	Started mono.Time
	Took    time.Duration
}

// Cancel is one action as it was carried out.
type Cancel struct {
	At              mono.Time
	Step            culprit.Step
	Culprit, Target bool
	Foreground      bool
	Kind            uint64
}
