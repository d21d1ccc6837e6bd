// Package track turns what a server's views show at one instant into samples of
// the culprit engine, whose counters are cumulative.
//
//	adapter: Begin ─▶ Task, Waits, Samples, Holds, Consumes, Edge ─▶ End ──▶ Look
//	                  │ entry of the task, found by its key        │
//	                  └──── what it waited for and used before ────┘
//
// A view tells that a task waits now, not for how long it has waited in its life.
// The tracker adds, at each look, the time since the look before: a task that is
// seen waiting is taken to have waited since then, or since it began.
//
// Invariants: a task has the same ID as long as its key is seen without a gap,
// and no ID is given twice. No instant of a sample is after the sample, whatever
// the server's clock does. A look allocates nothing while the number of tasks does
// not grow.
//
// What this package does not do: it queries no server and decides nothing.
package track

import (
	"errors"
	"time"

	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// ErrLate is the error of a look that a server did not answer in time, and that left its source as it was: the
// next look goes on from the one before.
var ErrLate = errors.New("the server answers too late")

// MaxResources is how many resources a tracker has at most.
const MaxResources = 16

// Session is what people and rules want to know about a task. A server's user
// gave the texts, so they are no more than that.
type Session struct {
	// Process is the server's own number of the session.
	Process                             int64
	User, Application, Database, Client string
	// Statement is what it runs, or ran last if it is idle.
	Statement statement.Statement
	// State is the server's word for what it does, with what it waits for.
	State string
	// Route is what a request of HTTP asks for, as httpgate.Kind names it; else empty.
	Route string
	// Nameless tells that the server did not say what the task does: application, database and statement may be anything.
	Nameless bool
}

// Look is one sample, with a session for each of its tasks.
type Look struct {
	Sample   culprit.Sample
	Sessions []Session
	// Late has a session for each request that ended late since the look before and that no look saw, as far as the server tells of them. They are
	// counted in Sample.Finished.
	Late []Session
	// Notes says what could not be seen, and which right is missing.
	Notes []string
}

// Key tells tasks apart: which session, begun when, and which of its pieces of work.
type Key struct{ Process, Session, Work int64 }

// Entry is a task of the present look.
type Entry struct {
	// Index is its place in the sample.
	Index int
	// Fresh tells that the task was not there at the look before.
	Fresh bool

	id      uint64
	look    uint64
	starved time.Duration
	cells   [MaxResources]cell
}

// cell is what one task has to do with one resource.
type cell struct {
	any      bool // has anything to say
	waitTime time.Duration
	waiting  mono.Time // since; Unset when not
	waitLook uint64
	held     mono.Time
	holdLook uint64
	holdTime time.Duration
	used     uint64
	shared   bool
	gets     uint64
}

// Tracker remembers tasks between looks. It is not safe for concurrent use.
type Tracker struct {
	look      Look
	entries   map[Key]*Entry
	free      []*Entry
	order     []*Entry // of this look, by index
	resources []culprit.Resource
	n         uint64 // looks
	last      uint64 // ID
	at, prev  mono.Time
}

// New returns a tracker of the given resources, at most MaxResources.
func New(resources []culprit.Resource) *Tracker {
	return &Tracker{entries: map[Key]*Entry{}, resources: resources[:min(len(resources), MaxResources)]}
}

// Begin begins a look at the instant at.
func (t *Tracker) Begin(at mono.Time) {
	t.n++
	t.prev, t.at = t.at, max(at, t.at)
	t.look.Sample = culprit.Sample{At: t.at, Resources: t.resources, Tasks: t.look.Sample.Tasks[:0], Holds: t.look.Sample.Holds[:0], Edges: t.look.Sample.Edges[:0]}
	t.look.Sessions, t.look.Late, t.look.Notes = t.look.Sessions[:0], t.look.Late[:0], t.look.Notes[:0]
	t.order = t.order[:0]
}

// Find returns the task of a key if the present look has it, else nil.
func (t *Tracker) Find(k Key) *Entry {
	if e := t.entries[k]; e != nil && e.look == t.n {
		return e
	}
	return nil
}

// Task adds the task of a key to the look, or returns it if it was added before.
// started is when it began, on this machine's clock.
func (t *Tracker) Task(k Key, started mono.Time) *Entry {
	e := t.entries[k]
	if e != nil && e.look == t.n {
		return e
	}
	if e == nil {
		if n := len(t.free); n > 0 {
			e, t.free = t.free[n-1], t.free[:n-1]
			*e = Entry{}
		} else {
			e = &Entry{}
		}
		t.last++
		e.id, e.Fresh = t.last, true
		t.entries[k] = e
	} else {
		e.Fresh = false
	}
	e.look, e.Index = t.n, len(t.order)
	t.order = append(t.order, e)
	t.look.Sample.Tasks = append(t.look.Sample.Tasks, culprit.Task{ID: e.id, Started: t.past(started), Starved: e.starved})
	t.look.Sessions = append(t.look.Sessions, Session{})
	return e
}

// Rename has the task that one key had at the look before go on under another: it has turned out to be part of something larger. It
// does nothing if there was none, or if the other key has a task.
func (t *Tracker) Rename(from, to Key) {
	if e := t.entries[from]; e != nil && e.look == t.n-1 && t.entries[to] == nil {
		delete(t.entries, from)
		t.entries[to] = e
	}
}

// At returns the task and the session of e, to be filled. Both are valid until the
// next Task.
func (t *Tracker) At(e *Entry) (*culprit.Task, *Session) {
	return &t.look.Sample.Tasks[e.Index], &t.look.Sessions[e.Index]
}

// past returns an instant that is not after the look and not before the origin.
func (t *Tracker) past(at mono.Time) mono.Time { return max(min(at, t.at), 0) }

// Waits tells that e waits for a resource since an instant that the server knows.
func (t *Tracker) Waits(e *Entry, resource int, since mono.Time) {
	c := e.cell(resource)
	if c.waitLook == t.n {
		return
	}
	if c.waitLook != t.n-1 || c.waiting == culprit.Unset {
		c.waiting = t.past(since)
	}
	c.waitLook = t.n
}

// Samples tells that e was seen waiting for a resource, and nothing about since
// when.
func (t *Tracker) Samples(e *Entry, resource int) {
	since := t.prev
	if e.Fresh || since == 0 {
		since = t.look.Sample.Tasks[e.Index].Started
	}
	t.Waits(e, resource, max(since, t.prev))
}

// Holds tells that e holds used units of a resource since an instant.
func (t *Tracker) Holds(e *Entry, resource int, since mono.Time, used uint64, shared bool) {
	c := e.cell(resource)
	if c.holdLook == t.n {
		c.used += used
		c.held = min(c.held, t.past(since))
		c.shared = c.shared && shared
		return
	}
	c.holdLook, c.held, c.used, c.shared = t.n, t.past(since), used, shared
}

// Consumes tells how much e has consumed of a resource since the look before, and
// how long it was delayed by it in that time.
func (t *Tracker) Consumes(e *Entry, resource int, units uint64, delay time.Duration) {
	c := e.cell(resource)
	c.gets += units
	c.waitTime += max(delay, 0)
}

// Starves tells that others than the tasks had a processor that e needed, for a while of the time since the look before.
func (t *Tracker) Starves(e *Entry, d time.Duration) {
	task := &t.look.Sample.Tasks[e.Index]
	e.starved += min(max(d, 0), t.at.Sub(max(t.prev, task.Started)))
	task.Starved = e.starved
}

// Taken tells which part of the machine's processors others than the tasks used since the look before.
func (t *Tracker) Taken(part float64) { t.look.Sample.Taken = min(max(part, 0), 1) }

func (e *Entry) cell(resource int) *cell {
	c := &e.cells[resource]
	if !c.any {
		*c = cell{any: true, waiting: culprit.Unset, held: culprit.Unset}
	}
	return c
}

// Edge tells that one task waits for another.
func (t *Tracker) Edge(waiter, blocker *Entry, resource int) {
	if waiter == blocker {
		return
	}
	t.look.Sample.Edges = append(t.look.Sample.Edges, culprit.Edge{Waiter: int32(waiter.Index), Blocker: int32(blocker.Index), Resource: int32(resource)})
}

// EndedLate adds a request that ended late and that no look saw.
func (t *Tracker) EndedLate(s Session) { t.look.Late = append(t.look.Late, s) }

// Note adds a remark to the look.
func (t *Tracker) Note(text string) { t.look.Notes = append(t.look.Notes, text) }

// End ends the look: completed tasks ended since the one before. Tasks that were not
// seen are forgotten. The Look is valid until the next Begin.
func (t *Tracker) End(completed uint64) *Look {
	t.look.Sample.Finished.Count = completed
	for _, e := range t.order {
		for r := range e.cells[:len(t.resources)] {
			if c := &e.cells[r]; c.any {
				t.settle(c)
				t.look.Sample.Holds = append(t.look.Sample.Holds, culprit.Hold{
					Task: int32(e.Index), Resource: int32(r), Gets: c.gets, WaitTime: c.waitTime, WaitingSince: c.waiting,
					HoldTime: c.holdTime, HeldSince: c.held, Used: c.used, Shared: c.shared})
			}
		}
	}
	for k, e := range t.entries {
		if e.look != t.n {
			delete(t.entries, k)
			t.free = append(t.free, e)
		}
	}
	return &t.look
}

// settle ends the wait and the hold of a cell that this look did not see.
func (t *Tracker) settle(c *cell) {
	if c.waiting != culprit.Unset && c.waitLook != t.n {
		c.waitTime += max(t.prev.Sub(c.waiting), 0)
		c.waiting = culprit.Unset
	}
	if c.held != culprit.Unset && c.holdLook != t.n {
		c.holdTime += max(t.prev.Sub(c.held), 0)
		c.held, c.used, c.shared = culprit.Unset, 0, false
	}
}
