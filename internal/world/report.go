package world

import (
	"time"

	"github.com/spillgate/spillgate/internal/work"
)

// Report is what one run of a world measured.
type Report struct {
	World, Policy string
	Seed          uint64
	// Measured is the time that the totals of groups and services cover: without
	// the warm-up.
	Measured time.Duration
	// Groups and Services are in the order of the world.
	Groups   []GroupReport
	Services []ServiceReport
	// Bins are parts of the run of Bin length, from the start, all groups together.
	Bin  time.Duration
	Bins []Counts
	// Void, if not empty, is what the record of the machine shows that makes the
	// figures void: a generator that sent late, processors that were taken away.
	Void string `json:",omitempty"`
}

// Counts are requests by how they ended, counted at the instant they were meant to
// be sent. Retries are part of the request they belong to.
type Counts struct {
	Offered int
	// Good came within the objective and the caller's deadline. Late was
	// answered after one of them, by a service that meant it well.
	Good, Late int
	// Refused by a service or by the client's own policy; Expired without an
	// answer at the deadline, Failed in another way.
	Refused, Expired, Failed int
	// Attempts is how many messages went out for them.
	Attempts int
}

// GroupReport is what a group of clients saw.
type GroupReport struct {
	Name string
	Counts
	// Clients are the counts of each client.
	Clients []Counts `json:",omitempty"`
	// P50, P99 and Max are of the answers, late ones included, from the intended
	// send time.
	P50, P99, Max time.Duration
	// Told is the 99th percentile of the time until a refused caller knows.
	Told time.Duration
	// Reasons are the refusals by reason.
	Reasons [work.NumReasons]int
}

// ServiceReport is what the processes of a service did together.
type ServiceReport struct {
	Name string
	// Begun and Finished are requests that took a worker, and that were worked on
	// to the end. Wasted are those whose caller no longer waited at the end.
	Begun, Finished, Wasted int
	// Refused are the requests its gate refused.
	Refused int
	// Busy is the time for which requests were at work, all together, those that
	// hold no worker included.
	Busy time.Duration
	// Limits is the limit of the policy of the first process at the end of each
	// bin, 0 where a policy has none.
	Limits []int `json:",omitempty"`
}
