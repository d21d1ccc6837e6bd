package culprit

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Sample is one look at an application. The source owns the slices; the engine
// reads them during Observe and keeps none.
type Sample struct {
	// At is the instant of the look. It must not be before the previous one.
	At mono.Time `json:"at,omitzero"`
	// Tasks are those alive now, in any order, with distinct IDs.
	Tasks []Task `json:"tasks,omitzero"`
	// Resources are what tasks contend for. Hold and Edge refer to them by
	// index. A source appends to the list and never reorders it.
	Resources []Resource `json:"resources,omitzero"`
	// Holds says what each task holds of each resource or waits for, at most one
	// entry for a pair. A pair without an entry has nothing to say.
	Holds []Hold `json:"holds,omitzero"`
	// Edges says which task waits for which, where the source knows it from a
	// lock table. A resource without edges has its waits derived from Holds.
	Edges []Edge `json:"edges,omitzero"`
	// Finished counts foreground tasks that ended since the previous sample.
	Finished Finished `json:"finished,omitzero"`
	// Taken is the part of the machine's processor time that others than the application took since the previous
	// sample, 0 to 1. Default 0: the application has the machine for itself.
	Taken float64 `json:"taken,omitzero"`
	// Blind, if not empty, says which view failed. The engine then only watches:
	// it learns nothing and cancels nothing.
	Blind string `json:"blind,omitzero"`
	// Anew tells that the source has begun anew since the previous sample, as after a lost
	// connection: what ended in between was not counted. The engine only takes note of what
	// is there, as it does of its first sample.
	Anew bool `json:"anew,omitzero"`
}

// Task is a unit that can be cancelled: a statement or a transaction, a
// request, a background job. A task keeps its ID as long as it holds anything,
// so a transaction whose statement was cancelled is the same task.
type Task struct {
	// ID identifies the task. A source never reuses one.
	ID uint64 `json:"id,omitzero"`
	// Kind is a fingerprint of what the task does: the same work has the same
	// kind. 0 means unknown.
	Kind uint64 `json:"kind,omitzero"`
	// Owner is who runs the task, such as the session of a client: of its tasks each begins when the one before has
	// ended. 0 means unknown.
	Owner uint64 `json:"owner,omitzero"`
	// Started is the instant at which the task began.
	Started mono.Time `json:"started,omitzero"`
	// Done and Total are its progress, k of N in any unit. Total 0 means unknown.
	Done  uint64 `json:"done,omitzero"`
	Total uint64 `json:"total,omitzero"`
	// Starved is for how long, since it began, others than the tasks had the processor that it needed to go on: other
	// programs on the machine, say. It is judged as if it had begun, and got what it holds, so much later. Default 0.
	Starved time.Duration `json:"starved,omitzero"`
	// MayStarve is for how much longer that may have been so, of time of which nothing else is known. It makes the task younger, too, but takes no
	// blame from it. Default 0.
	MayStarve time.Duration `json:"may_starve,omitzero"`
	// Background tasks have no latency objective, so they are no victims.
	Background bool `json:"background,omitzero"`
	// Idle tasks hold things and run nothing, such as an idle transaction.
	Idle bool `json:"idle,omitzero"`
	// Barred says why the task must not be cancelled; NotBarred is the zero value.
	Barred Bar `json:"barred,omitzero"`
	// Steps are the ways in which the source can act on the task now. The empty
	// set means that it cannot be cancelled.
	Steps Steps `json:"steps,omitzero"`
	// Ending tells that the server has taken a cancel of the task, which goes on until it looks.
	Ending bool `json:"ending,omitzero"`
	// Undo is how long undoing the task's work is expected to take, for example
	// a rollback. The resources stay held meanwhile. 0 means at once or unknown.
	Undo time.Duration `json:"undo,omitzero"`
}

// Bar is a reason why a task must not be cancelled.
type Bar uint8

const (
	// NotBarred is no reason.
	NotBarred Bar = iota
	// Protected tasks carry a one-shot token: they repeat what was cancelled.
	Protected
	// Replication tasks feed another server.
	Replication
	// Schema tasks change tables or indexes.
	Schema
	// Backup tasks copy the data.
	Backup
	// Maintenance is work that must end for the server to live, such as a vacuum
	// against transaction wraparound.
	Maintenance
	// Denied tasks match a rule of the operator.
	Denied
	bars
)

// String returns the word that logs and metrics use.
func (b Bar) String() string { return word(barWords[:], int(b)) }

var barWords = [bars]string{"none", "protected", "replication", "schema", "backup", "maintenance", "denied"}

// Step is a way to act on a task. A larger step is harsher.
type Step uint8

const (
	// NoStep is none.
	NoStep Step = iota
	// Throttle slows the task down and loses none of its work.
	Throttle
	// Statement ends what the task is doing now.
	Statement
	// Session ends the task with everything that it holds.
	Session
	steps
)

// String returns the word that logs and metrics use.
func (s Step) String() string { return word(stepWords[:], int(s)) }

var stepWords = [steps]string{"none", "throttle", "statement", "session"}

// Steps is a set of steps: bit 1<<s stands for step s.
type Steps uint8

// StepsOf returns the set of the given steps.
func StepsOf(list ...Step) Steps {
	var set Steps
	for _, s := range list {
		if s > NoStep && s < steps {
			set |= 1 << s
		}
	}
	return set
}

// Has reports whether s is in the set.
func (set Steps) Has(s Step) bool { return s > NoStep && s < steps && set>>s&1 == 1 }

// after returns the mildest step of the set that is harsher than s, or NoStep.
func (set Steps) after(s Step) Step {
	for s++; s < steps; s++ {
		if set.Has(s) {
			return s
		}
	}
	return NoStep
}

// Resource is what tasks contend for.
type Resource struct {
	// Name is what people call it, for example "lock:orders" or "buffer pool".
	Name string `json:"name,omitzero"`
	// Kind says how its use and its contention are measured.
	Kind Kind `json:"kind,omitzero"`
	// Others is how many units a second of a System others than the tasks use: other programs on the machine, say. What
	// tasks lose to these no task is to blame for. Default 0: the tasks alone use it.
	Others float64 `json:"others,omitzero"`
	// Units is how many a Queue has in all, if the source knows. A task's blame is its part of them, not of those in use:
	// while most are free, tasks that wait were let in already and lack a processor to go on, say. Default 0: as many
	// as tasks hold.
	Units uint64 `json:"units,omitzero"`
}

// Kind is a kind of resource. Section 3.4 of the paper has the formulas.
type Kind uint8

const (
	// Lock is held by one task, or by several that share it.
	Lock Kind = iota
	// Memory is a pool or cache: tasks take units of it and evict those of others.
	Memory
	// Queue is a set of slots, such as the threads of a pool. Tasks wait for one.
	Queue
	// System is consumed at a rate: processors, disks, a log.
	System
	kinds
)

// String returns the word that logs and metrics use.
func (k Kind) String() string { return word(kindWords[:], int(k)) }

var kindWords = [kinds]string{"lock", "memory", "queue", "system"}

// Unset stands for an instant that does not apply: a Hold that does not hold or
// does not wait at present.
const Unset = mono.Never

// Hold is what one task has to do with one resource. Counters are cumulative
// since the task began; a source that can only sample adds, at each look, the
// time since its previous look.
type Hold struct {
	// Task and Resource are indices into the sample's slices.
	Task     int32 `json:"task,omitzero"`
	Resource int32 `json:"resource,omitzero"`
	// Gets is how often, or how many units, the task acquired. Lock and Queue:
	// acquisitions. Memory: units taken. System: units consumed, for example
	// nanoseconds of a processor or bytes written.
	Gets uint64 `json:"gets,omitzero"`
	// Frees is what the task gave back, in the unit of Gets.
	Frees uint64 `json:"frees,omitzero"`
	// Waits is how often the task was delayed. Memory: the units it had to evict.
	Waits uint64 `json:"waits,omitzero"`
	// WaitTime is the time that finished waits took; the present one is not in it.
	WaitTime time.Duration `json:"wait_time,omitzero"`
	// HoldTime is the time that finished holds took; the present one is not in it.
	HoldTime time.Duration `json:"hold_time,omitzero"`
	// WaitingSince is when the present wait began, or Unset.
	WaitingSince mono.Time `json:"waiting_since,omitzero"`
	// HeldSince is when the present hold began, or Unset.
	HeldSince mono.Time `json:"held_since,omitzero"`
	// Used is how many units the task holds now: slots, pages, bytes. 0 for a
	// task that holds (HeldSince) counts as one unit.
	Used uint64 `json:"used,omitzero"`
	// Shared tells that the present hold, or wait, of a Lock goes together with
	// other shared ones. A source that does not know leaves it false.
	Shared bool `json:"shared,omitzero"`
}

// Edge says that one task waits for another. A waiter may have several edges:
// it goes on when all its blockers have let go.
type Edge struct {
	// Waiter and Blocker are indices of tasks, Resource is what is waited for.
	Waiter   int32 `json:"waiter,omitzero"`
	Blocker  int32 `json:"blocker,omitzero"`
	Resource int32 `json:"resource,omitzero"`
}

// Finished counts foreground tasks that ended since the previous sample.
type Finished struct {
	// Count is how many ended, late or not. It is the throughput.
	Count uint64 `json:"count,omitzero"`
	// Timed is how many of Count the source measured, Late is how many of these
	// took longer than the objective. Both are 0 if it knows no latencies.
	Timed uint64 `json:"timed,omitzero"`
	Late  uint64 `json:"late,omitzero"`
}

// word returns list[i], or a word for what is out of range.
func word(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "unknown"
}
