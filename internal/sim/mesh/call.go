package mesh

import (
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	control "github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// root is one request of a client over all its attempts and all calls that it
// causes. It is used again once the last of them is gone.
type root struct {
	id, gen  int32
	client   int32
	workflow int32
	tenant   uint32
	priority work.Priority
	attempt  int32
	chance   draws
	intended mono.Time
	deadline mono.Time
	budget   time.Duration // deadline less intended; 0 if there is none
	open     bool          // the client still wants it
	good     bool
	top      *call         // the present attempt, nil between two
	calls    int32         // alive
	busy     time.Duration // at workers, for all its calls
}

// call is one call from a client or a process to a process: the caller's side
// of it, while open, and the callee's, while there. The record is used again
// once both are over.
type call struct {
	id, gen int32
	fresh

	// Of the callee's side, filled in when the call arrives: until then it is what an older
	// call left there. Most calls that a sender refuses never touch it.
	stay   control.Stay
	visit  control.Visit // where classes are learned
	ticket admission.Ticket
	task   schedule.Task // where resources have an order
	span   progress.Span // keeps memory
}

// making is how far a call is with a step of calls.
type making struct {
	callAt   int32 // which callee, how many of it are left
	callLeft int32
	born     uint64 // children so far, those skipped included
}

// upcoming returns the callee of the next call of step s, nil if that was the last.
func (m *making) upcoming(p *program, s *step, chance draws) *callee {
	for ; m.callAt < s.last; m.callAt, m.callLeft = m.callAt+1, -1 {
		k := &p.calls[m.callAt]
		if m.callLeft < 0 {
			m.callLeft = k.times(chance, m.callAt)
		}
		for m.callLeft > 0 {
			m.callLeft--
			m.born++
			if !k.skips(chance, m.born) {
				return k
			}
		}
	}
	return nil
}

// fresh is the part of a call that is zero in a new one. What every event looks at comes
// first: it shares a line of the cache with the number of the use.
type fresh struct {
	root    *root
	link    *link
	process *process
	parent  *call // nil for a client's, and once the caller has given up
	open    bool
	phase   phase
	// there holds from sending until the answer is taken.
	there    bool
	state    state
	canceled bool
	// abandoned calls left the door, for nobody waits for them, and run on.
	abandoned bool
	measured  bool
	counted   bool // by the caller's rates
	stage     int32
	pc        int32 // next step
	chance    draws
	deadline  mono.Time // local; the caller's until it arrives

	// The caller's side.
	prev, next *call     // among the parent's open children
	asked      mono.Time // the intended send time
	sent       mono.Time
	why        cause  // of the answer
	label      string // the workflow's name
	waiter     credit.Waiter

	// Running the stage.
	making
	children *call // open ones
	pending  int32 // how many
	began    mono.Time
	need     time.Duration // of the present piece of work
	left     float64       // ns at nominal speed, of the present wait, as of since
	since    mono.Time
	ends     mono.Time // of the present wait
	heldFrom mono.Time // since when it has its worker; 0: not yet
	holds    *hold

	// In a queue.
	waits        *resource // whose queue it is
	queuedAt     mono.Time
	qPrev, qNext *call

	// What travels along.
	tags   control.Tags
	demand int // calls that waited at the caller

	// What the callee's node and class shares know of it, and what it takes there.
	class  work.Class
	made   int             // calls
	callID progress.CallID // in the parent's span

	// The answer.
	feedback baseline.Feedback
	took     wire.Progress
}

var _ baseline.Labeled = (*call)(nil)

// Workflow returns the name of the workflow that c belongs to.
func (c *call) Workflow() string { return c.label }

// phase is where the caller's side of an open call is.
type phase uint8

const (
	waiting phase = iota // in the sender
	sent
	refused // by the sender; the caller is about to know
)

// state is where the callee's side of a call is.
type state uint8

const (
	notHere   state = iota
	atDoor          // waits for the door to decide
	inQueue         // waits for a resource
	working         // occupies a worker
	calling         // waits for calls
	resuming        // got what it waited for, and is about to go on
	arriving        // its message waits for a processor
	answering       // its answer does
)

// cause says why a call failed.
type cause struct {
	kind     failure
	reason   work.Reason   // of a refusal
	nested   bool          // a call failed, and parts of the request were executed
	pushback time.Duration // of a refusal of a server that says when to come back; else 0
}

type failure uint8

const (
	none failure = iota
	shed
	timedOut
	lost
	gaveUp
)

func (w *World) newCall() *call {
	if n := len(w.freeCalls); n > 0 {
		c := w.calls[w.freeCalls[n-1]]
		w.freeCalls = w.freeCalls[:n-1]
		c.fresh = fresh{}
		return c
	}
	c := &call{id: int32(len(w.calls))}
	w.calls = append(w.calls, c)
	return c
}

// release makes c free for other use if neither side needs it.
func (w *World) release(c *call) {
	if c.open || c.there {
		return
	}
	r := c.root
	c.root = nil
	c.gen++
	w.freeCalls = append(w.freeCalls, c.id)
	r.calls--
	w.releaseRoot(r)
}

func (w *World) newRoot() *root {
	if n := len(w.freeRoots); n > 0 {
		r := w.roots[w.freeRoots[n-1]]
		w.freeRoots = w.freeRoots[:n-1]
		*r = root{id: r.id, gen: r.gen}
		return r
	}
	r := &root{id: int32(len(w.roots))}
	w.roots = append(w.roots, r)
	return r
}

func (w *World) releaseRoot(r *root) {
	if r.open || r.calls > 0 {
		return
	}
	w.settle(r)
	r.gen++
	w.freeRoots = append(w.freeRoots, r.id)
}

// adopt puts c among the open children of p.
func (p *call) adopt(c *call) {
	c.parent, c.prev, c.next = p, nil, p.children
	if p.children != nil {
		p.children.prev = c
	}
	p.children = c
	p.pending++
}

// orphan takes c from its parent's open children.
func (c *call) orphan() {
	p := c.parent
	if p == nil {
		return
	}
	if c.prev == nil {
		p.children = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	p.pending--
	c.parent, c.prev, c.next = nil, nil, nil
}
