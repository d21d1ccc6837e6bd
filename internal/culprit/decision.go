package culprit

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Mode says what the engine's actions are worth.
type Mode uint8

const (
	// Monitor reports the Action that Enforce would have begun with, marked Would.
	Monitor Mode = iota
	// Enforce reports actions that the source must carry out.
	Enforce
	// Off observes nothing and decides nothing.
	Off
	modes
)

// String returns the word that files and flags use.
func (m Mode) String() string { return word(modeWords[:], int(m)) }

// ParseMode returns the mode of that name, and false if there is none.
func ParseMode(name string) (Mode, bool) {
	for m, word := range modeWords {
		if word == name {
			return Mode(m), true
		}
	}
	return Monitor, false
}

var modeWords = [modes]string{"monitor", "enforce", "off"}

// State is what the engine takes the application to be in.
type State uint8

const (
	// Idle: no foreground task is in flight and none ended.
	Idle State = iota
	// Normal: the objective is met, or throughput is still rising.
	Normal
	// Suspect: the objective is missed, and no cause is confirmed.
	Suspect
	// Overload: the objective is missed and no task explains it. Admission must
	// shed load.
	Overload
	// Named: a culprit is confirmed, and Why says what keeps it from being
	// cancelled.
	Named
	// Cancelled: a culprit was cancelled, and its relief is awaited.
	Cancelled
	// GivenUp: cancelling did not help. Nothing is cancelled until the objective
	// has been met for Config.Rearm.
	GivenUp
	states
)

// String returns the word that logs and metrics use.
func (s State) String() string { return word(stateWords[:], int(s)) }

var stateWords = [states]string{"idle", "normal", "suspect", "overload", "named", "cancelled", "given up"}

// Why says why a task or the whole sample leads to no action.
type Why uint8

const (
	// WhyNot is no obstacle.
	WhyNot Why = iota
	// Blind: a view failed, so the sample proves nothing.
	Blind
	// Rising: throughput is still rising, so demand explains the latency.
	Rising
	// Unexplained: traced resources explain less than half of the lost time.
	Unexplained
	// Unclear: no task, and no kind of task, has a clear share of the blame.
	Unclear
	// Ordinary: the task's use is usual for this resource, or its kind is that
	// of the tasks which wait.
	Ordinary
	// Waiting: the task mainly waits itself.
	Waiting
	// Young: the task is younger than the minimum age.
	Young
	// Fixed: the source has no step, or no further step, for the task.
	Fixed
	// BarredTask: Task.Barred has a reason.
	BarredTask
	// Lesser: another task is the better pick.
	Lesser
	// Dear: cancelling costs more than it is expected to save.
	Dear
	// Unconfirmed: fewer consecutive samples agree than required.
	Unconfirmed
	// Capped: a cap on cancels is reached.
	Capped
	// BackingOff: the previous cancel is being verified.
	BackingOff
	// Tripped: too many cancels brought no relief.
	Tripped
	// Monitoring: the mode is Monitor, and the action was reported before.
	Monitoring
	// Brief: tasks of a kind hog a resource together, of which none lasts long enough to
	// be cancelled: as one ends the next has begun.
	Brief
	// Starving: without what others than the tasks took of the processors, the task would be younger than the
	// minimum age.
	Starving
	whys
)

// String returns the word that logs and metrics use.
func (w Why) String() string { return word(whyWords[:], int(w)) }

var whyWords = [whys]string{"", "blind", "throughput rising", "unexplained", "no clear share", "ordinary use", "waits itself", "too young",
	"cannot be cancelled", "barred", "another is better", "not worth its price", "unconfirmed", "capped", "backing off", "tripped", "monitoring", "many brief tasks", "lacks a processor"}

// Decision is the engine's answer to one Sample. Its slices belong to the
// engine and are valid until the next call of Observe.
type Decision struct {
	// At is the sample's instant.
	At mono.Time
	// State is what the application is in, Why what keeps the engine from acting.
	State State
	Why   Why
	// Evidence is what State was concluded from.
	Evidence Evidence
	// Blame has one entry for each resource of the sample, in its order. It is
	// empty in the states Idle and Normal.
	Blame []Blame
	// Candidates are the tasks with the largest scores, best first, at most
	// Config.Candidates of them. It is empty in the states Idle and Normal.
	Candidates []Candidate
	// Action is what the source must do, if its Step is not NoStep.
	Action Action
	// Outcome reports on an earlier action, if its Verdict is not Pending.
	Outcome Outcome
	// Soon, if not 0, says after which time another look is worth its cost: a pick is
	// to be confirmed, or several tasks hog a resource together and one of them is
	// cancelled, or one of a limited kind is. A source may keep its own pace.
	Soon time.Duration
}

// Suspects reports whether one task, or several of a kind, are clearly to blame: the pick,
// confirmed or not, or tasks that cannot be cancelled, whose kind may be kept out.
func (d *Decision) Suspects() bool {
	for i := range d.Candidates {
		if d.Candidates[i].Why == WhyNot {
			return true
		}
	}
	return d.Why == Fixed || d.Why == Brief
}

// Doubts reports whether one task would clearly be to blame if it were older, or had had a processor for longer: it may be suspected soon.
func (d *Decision) Doubts() bool { return d.Why == Young || d.Why == Starving }

// Evidence is what the engine saw in a sample and the few before it.
type Evidence struct {
	// InFlight is how many foreground tasks run or wait; Late how many of them
	// are older than the objective; Stuck how many of the late wait at present.
	InFlight, Late, Stuck int
	// LateShare is the share of late tasks among those that met or missed the
	// objective lately, each counted once.
	LateShare float64
	// Throughput is the present rate of completions in 1/s, Baseline the rate in
	// normal times and Noise its deviation.
	Throughput, Baseline, Noise float64
}

// Blame is what one resource costs the foreground.
type Blame struct {
	// Lost is the share of in-flight time that is lost to the resource: the
	// weight C_r of its gains. 0 to 1.
	Lost float64
	// Level is the contention level of the resource's kind: Lock and Queue, wait
	// time ÷ use time; Memory, evictions ÷ gets; System, lost ÷ executed time.
	Level float64
	// Explains is the share of the missed objective that the resource explains.
	Explains float64
}

// Candidate is a task that others wait for.
type Candidate struct {
	// Task and Kind are those of the Task.
	Task, Kind uint64
	// Score is Σ_r Lost_r × gain_r ÷ Σ_r Lost_r, with gains as shares of the
	// resource and transitive victims included: the part of the lost time that
	// cancelling the task ends. 0 to 1.
	Score float64
	// Gain is the expected future use that cancelling frees, on the resource that
	// contributes most to Score: time for Lock and Queue, units for the others.
	Gain float64
	// Resource is the index of that resource.
	Resource int32
	// Victims is how many foreground tasks wait behind the task.
	Victims float64
	// Remaining is how long the task is expected to go on.
	Remaining time.Duration
	// Net is the price: victim-seconds saved, less those that the cancel itself
	// costs and the work that must be done again.
	Net float64
	// Dominated tells that another task is at least as good in every respect.
	Dominated bool
	// Dam marks a task that holds nothing of the resource: its pending exclusive
	// request keeps others waiting.
	Dam bool
	// Why says why the task is not the pick; WhyNot marks the pick.
	Why Why
	// Barred is the reason if Why is BarredTask.
	Barred Bar
}

// Action is a cancel.
type Action struct {
	// Task is the ID of the task to act on, and Kind its kind.
	Task, Kind uint64
	// Step is what to do. NoStep: nothing.
	Step Step
	// Would tells that the mode is Monitor: report it and do nothing.
	Would bool
	// Limit restrains tasks of the same kind meanwhile, or clients would resend
	// the culprit at once.
	Limit Limit
}

// Limit is a temporary, one-shot admission limit: no task of a kind begins for a
// while. It ends by itself.
type Limit struct {
	// Kind is the fingerprint; 0 means no limit.
	Kind uint64
	// For is how long the limit stands.
	For time.Duration
}

// Verdict is how an action ended.
type Verdict uint8

const (
	// Pending: nothing is verified, or not yet.
	Pending Verdict = iota
	// Relieved: the victims went on.
	Relieved
	// Futile: the task let go and the victims still wait.
	Futile
	// Ignored: the task still holds what the victims wait for.
	Ignored
	verdicts
)

// String returns the word that logs and metrics use.
func (v Verdict) String() string { return word(verdictWords[:], int(v)) }

var verdictWords = [verdicts]string{"pending", "relieved", "futile", "ignored"}

// Outcome says what an earlier Action came to.
type Outcome struct {
	// Verdict is Pending if this sample decided nothing.
	Verdict Verdict
	// Task and Step are those of the Action.
	Task uint64
	Step Step
	// After is the time from the Action to this sample.
	After time.Duration
}
