package live

import (
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/readmit"
	"github.com/spillgate/spillgate/internal/taskfile"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Kind says what a request does. Requests that do the same have the same kind, such
// as the method that is called or a path without the names of things. It is asked for
// when a request is looked at or has outlived its objective, on the way in only while
// there are such, and from any goroutine.
type Kind = admission.Kind

// tasks are the requests inside a gate as a culprit engine sees them: those that wait
// or run, in the order in which they came. All is guarded by the lock of the gate.
type tasks struct {
	on         bool
	head, tail *Ticket
	serial     uint64
	finished   culprit.Finished // since the last look
	readmit    *readmit.List
	resting    bool   // nobody looks, as there is nothing to see
	wake       func() // has somebody look again
}

// task is the part of a ticket that is about culprits.
type task struct {
	id         uint64 // 0: not in the list
	kind       Kind
	mark       uint64 // of the kind, 0 until it is asked for
	prev, next *Ticket
	handler    Cancelable    // its context, if Watch was called
	hears      atomic.Uint32 // deaf, listens or told
	protected  bool
	cancelled  bool
	rare       *rare       // nil of nearly all
	shown      *wire.Token // that the request came with, and that is not this gate's; nil of nearly all
	traced     traced
}

// rare is what a ticket has that was cancelled, or shows a token.
type rare struct {
	token  wire.Token // that was shown, and taken
	resend wire.Resend
}

// fingerprint returns the kind of a request as a number. It is called with the lock held.
func (t *Ticket) fingerprint() uint64 {
	if t.mark == 0 {
		t.mark = max(taskfile.Fingerprint(t.what().String()), 1)
	}
	return t.mark
}

// what is the kind of a request, for people. It outlives the ticket.
type what struct {
	kind     Kind
	workflow string
	request  bool // else it is a task of the file
}

func (t *Ticket) what() what { return what{t.kind, t.core.Workflow, true} }

// String returns the workflow and the kind.
func (w what) String() string {
	name := ""
	if w.kind != nil {
		name = w.kind.Kind()
	}
	if w.workflow != "" {
		name = w.workflow + ": " + name
	}
	return name
}

// background reports whether a request has no objective: it is of the least priority.
func background(p work.Priority) bool { return p == work.MaxPriority }

// knock decides, before the policy does, about a request whose kind may be limited. It
// sets the ticket's reason if it is refused.
func (k *tasks) knock(now mono.Time, r *Request, t *Ticket) {
	answer, wait := k.readmit.Ask(now, t.fingerprint(), r.Token)
	switch answer {
	case readmit.Protect:
		t.rare, t.protected = &rare{token: r.Token}, true
	case readmit.Later, readmit.Refuse:
		t.core.Barred, t.pushback = work.Culprit, wait
	}
}

// enter takes in a request that waits or runs.
func (k *tasks) enter(t *Ticket) {
	k.serial++
	t.id = k.serial
	if t.prev = k.tail; t.prev != nil {
		t.prev.next = t
	} else {
		k.head = t
	}
	k.tail = t
	if t.protected {
		k.readmit.Used(t.rare.token, true)
	}
	if k.resting {
		k.resting = false
		k.wake()
	}
}

// leave takes out a request that ended.
func (k *tasks) leave(t *Ticket) {
	if t.id == 0 {
		return
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		k.head = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	} else {
		k.tail = t.prev
	}
	t.prev, t.next, t.id = nil, nil, 0
	if t.hears.Load() != deaf { // to store takes much longer
		t.hears.Store(deaf)
	}
}

// ended counts a request that ran.
func (k *tasks) ended(t *Ticket, o work.Outcome) {
	if !k.on || o == work.Cancelled || background(t.core.Priority) {
		return
	}
	k.finished.Count++
	if o.Executed() {
		k.finished.Timed++
	}
	if o == work.Late {
		k.finished.Late++
	}
}

// refused counts a request that missed its objective because it was refused for want
// of time. It is no throughput.
func (k *tasks) refused(t *Ticket) {
	if t.protected {
		k.readmit.Used(t.rare.token, false)
	}
	if !k.on || background(t.core.Priority) {
		return
	}
	switch t.core.Reason() {
	case work.Delay, work.Infeasible, work.QueueFull, work.Expired:
		k.finished.Timed++
		k.finished.Late++
	}
}

// The resource of a gate that a look shows in any case.
const slotsResource = 0

// show appends what is inside to a look at now. Unless it enforces, all that runs could
// be cancelled.
func (k *tasks) show(now mono.Time, enforce bool, s *culprit.Sample, kinds []what) []what {
	for t := k.head; t != nil && len(s.Tasks) < culprit.MaxTasks; t = t.next {
		started := min(t.core.Arrived, now)
		c := culprit.Task{ID: t.id, Kind: t.fingerprint(), Started: max(started, 0), Background: background(t.core.Priority)}
		if t.protected {
			c.Barred = culprit.Protected
		}
		if t.core.Running() && (t.hears.Load() != deaf || !enforce) {
			c.Steps = culprit.StepsOf(culprit.Statement)
		}
		if h, ok := slotHold(now, t.core); ok {
			h.Task = int32(len(s.Tasks))
			s.Holds = append(s.Holds, h)
		}
		s.Tasks = append(s.Tasks, c)
		kinds = append(kinds, t.what())
	}
	s.Finished = k.finished
	k.finished = culprit.Finished{}
	return kinds
}

// slotHold says what a request has to do with the slots. One that gave its slot back
// keeps nobody out.
func slotHold(now mono.Time, t *admission.Ticket) (culprit.Hold, bool) {
	h := culprit.Hold{Resource: slotsResource, WaitingSince: culprit.Unset, HeldSince: culprit.Unset}
	if since, waits := t.Waiting(); waits {
		h.WaitingSince = max(min(since, now), 0)
		return h, true
	}
	if !t.Running() || t.Beside() {
		return h, false // it waits for its workflow's rate, or needs no slot
	}
	h.WaitTime = max(t.Queued(), 0)
	h.Gets, h.Waits = 1, 1
	if t.Lent() {
		h.Frees, h.HoldTime = 1, max(now.Sub(t.Started()), time.Duration(0))
		return h, true
	}
	h.HeldSince, h.Used = min(t.Started(), now), 1
	return h, true
}
