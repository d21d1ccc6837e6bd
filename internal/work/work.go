// Package work holds the words that every part of the system shares: what a
// request is, why it was refused and how it ended.
//
//	Request ──▶ gate ──▶ refused: Reason
//	                 └─▶ served:  Outcome
//
// Invariants: a Request carries local instants only, never another machine's
// clock; Reason values are stable numbers because they travel and label
// metrics; every admitted request ends with exactly one Outcome.
//
// What this package does not do: it decides nothing.
package work

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Class is a kind of work with its own share of a server.
type Class uint8

const (
	// Default is the class of an unclassified request. It is a
	// single hop: nobody waits for what it calls.
	Default Class = iota
	// Interactive requests go on to further services while a person waits.
	Interactive

	// NumClasses is the number of classes; a Class below it is valid.
	NumClasses
)

// String returns the metric label of c.
func (c Class) String() string {
	switch c {
	case Default:
		return "default"
	case Interactive:
		return "interactive"
	}
	return "unknown"
}

// Priority orders requests inside a class. Smaller is more important; 0 is the
// best and the value of an unranked request. Range 0 to 127.
type Priority uint8

// MaxPriority is the least important priority.
const MaxPriority Priority = 127

// Request is what a policy may know about one request.
type Request struct {
	// Workflow names the group of requests that shares one rate. Empty means
	// the default workflow.
	Workflow string
	// Class and Priority are as the edge decided them, not as the outside
	// claimed.
	Class    Class
	Priority Priority
	// Deadline is the local instant after which the answer is useless;
	// mono.Never if the caller set none.
	Deadline mono.Time
	// Demand is the number of further requests that the client had ready for
	// this server when it sent this one.
	Demand int
	// Asks says that the client knows no grant of this server: the reply must carry one, if
	// the server grants any.
	Asks bool
	// Attempt is 0 for a first attempt and counts retries.
	Attempt int
}

// Budget returns the time left at now, negative if the deadline has passed.
func (r *Request) Budget(now mono.Time) time.Duration { return r.Deadline.Sub(now) }

// Outcome says how an admitted request ended.
type Outcome uint8

const (
	// Done: the work was executed, in time as far as is known. Its time is a sample
	// of service time, also when the application answered with an error of its own.
	Done Outcome = iota
	// Ignored: the work ended in a way that says nothing about this server's
	// speed, such as a caller that gave up or a handler that panicked.
	Ignored
	// Dropped: a service further down refused because it is overloaded.
	Dropped
	// Late: the work was executed to its end in vain: the answer
	// came after the deadline of its caller or after the objective. Its time is a
	// sample as that of Done is, and it is no success. Whoever runs a gate says
	// Done; the gate, which knows when the request came, makes Late of it.
	Late
	// Cancelled: the gate cancelled the work, because others waited for what it held.
	// It is charged what it used, and is no sample of anything.
	Cancelled
	// Released: the slot came back before the request ended, because what held it was no work of
	// this server any more: a stream that goes on, a client that is silent or slow. It
	// is no sample, unless its answer had begun: then its time up to there is one.
	Released

	numOutcomes
)

// NumOutcomes is the number of outcomes; an Outcome below it is valid.
const NumOutcomes = int(numOutcomes)

// Executed reports whether the work was executed to its end, so that its time says
// how long such work takes.
func (o Outcome) Executed() bool { return o == Done || o == Late }

// String returns the metric label of o.
func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case Ignored:
		return "ignored"
	case Dropped:
		return "dropped"
	case Late:
		return "late"
	case Cancelled:
		return "cancelled"
	case Released:
		return "released"
	}
	return "unknown"
}
