package schedule

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// Task is one piece of work that waits for a resource: a request, or one stage
// of it. The driver allocates it, usually inside a ticket of its own, fills the
// exported fields and leaves them alone until the task has come out. Once it is
// out and settled, the driver may fill and push it again, here or elsewhere.
type Task struct {
	// Workflow is a small number that the driver gave to the task's workflow.
	// 0 is the default workflow; a number that is negative or not below
	// Config.Workflows counts as 0.
	Workflow int
	// Class and Priority are as the edge decided them. A class that does not
	// exist counts as work.Default.
	Class    work.Class
	Priority work.Priority
	// Arrived is the instant at which the task reached this resource. Zero, or
	// later than Push, means the instant of Push; a task that is pushed again
	// needs it anew.
	Arrived mono.Time
	// Sender is whose turn the task takes, with Config.Senders: a number that the driver gave to the task's sender. 0 is
	// unknown, and such a task goes by its arrival.
	Sender uint64
	// Deadline is the local instant after which the work is useless, mono.Never
	// if there is none.
	Deadline mono.Time
	// Remaining is the service that the whole request still needs, here and
	// further on; Total what it needs altogether; Done what it has had. They
	// come from progress metrics. 0 is unknown, and so is less.
	Remaining, Total, Done time.Duration
	// Least is what of Remaining is likely to be needed: with less time left than
	// that the task counts as lost. 0 is unknown and counts as Remaining; so where
	// nothing is likely, say a nanosecond. What tasks take varies, and dropping
	// those that the mean does not fit drops many that would have been short.
	Least time.Duration
	// Cost estimates what the task takes of this resource; see [Dominant] for
	// more than one. 0 is unknown and charged as one quantum, and so is less.
	Cost time.Duration
	// Kind tells long tasks from short ones.
	Kind Kind
	// Owner is for the driver.
	Owner any

	in     *Queue // nil unless waiting
	leaf   *node  // waits there, or is charged to; nil once it is settled
	seq    uint64 // of its Push
	places [numHeaps]int
	links  [numLists]link

	charged time.Duration        // use that the queue knows about
	owed    [depth]time.Duration // and how much of it was debited, leaf first
	eras    [depth]uint32        // in which it was
	loan    standing             // what waiters have that is better
	lent    bool                 // loan counts
	rank    work.Priority        // by which its leaf counts it
	group   int                  // of its kind, 0: unknown
	length  time.Duration        // for how long it will hold the resource

	// With Config.Senders.
	turn      Turn
	rota      *rota   // that it is in
	place     *sender // whose turn it is, until it is settled
	era       uint32  // of the place
	overtaken bool
}

// Waiting reports whether the task is in a queue.
func (t *Task) Waiting() bool { return t.in != nil }

// older reports whether t stands before u among equals.
func (t *Task) older(u *Task) bool {
	return t.Arrived < u.Arrived || t.Arrived == u.Arrived && t.seq < u.seq
}

// standing is what places a task: the class decides where, priority and key in
// which order there.
type standing struct {
	class    work.Class
	priority work.Priority
	key      int64
}

// raised returns s with what is better in by.
func (s standing) raised(by standing) standing {
	s.class = max(s.class, by.class)
	if by.priority < s.priority || by.priority == s.priority && by.key < s.key {
		s.priority, s.key = by.priority, by.key
	}
	return s
}
