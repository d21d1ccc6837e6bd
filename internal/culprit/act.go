package culprit

import (
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// cancels is what the engine remembers of its actions.
type cancels struct {
	recent    []mono.Time // of the last minute, oldest first
	total     uint64
	completed uint64 // foreground tasks that ended since the engine began
	taken     []stepTaken
	kinds     []knownKind // of culprits
	pending   pending
	futile    int // actions in a row that brought no relief
	notBefore mono.Time
	tripped   bool
}

// stepTaken is the harshest step taken on a task that is there, or was lately.
type stepTaken struct {
	task uint64
	step Step
	seen mono.Time // at the last look that showed the task
}

// reported is the step taken on a task that an action was only reported of: none is harsher.
const reported = steps

// keepGone is for how long the step taken on a task is remembered that is gone: a view
// may miss a task once, and it must not be cancelled twice. The caps bound how many
// steps a minute brings.
const keepGone = time.Minute

// knownKind is the kind of a task that was cancelled; no victim had it.
type knownKind struct {
	kind  uint64
	until mono.Time
}

// know enters a limit and forgets those that are over.
func (c *cancels) know(l Limit, at mono.Time) {
	kept := c.kinds[:0]
	for _, k := range c.kinds {
		if k.kind != l.Kind && k.until > at {
			kept = append(kept, k)
		}
	}
	if c.kinds = kept; l.Kind != 0 {
		c.kinds = append(c.kinds, knownKind{l.Kind, at.Add(l.For)})
	}
}

// knows reports whether a task of a kind was a culprit lately.
func (c *cancels) knows(kind uint64, at mono.Time) bool {
	for _, k := range c.kinds {
		if k.kind == kind && k.until > at {
			return true
		}
	}
	return false
}

// limited reports whether no task of a kind should begin: one was a culprit lately, and
// actions are carried out. Where they are only reported, nothing kept it from beginning.
func (e *Engine) limited(kind uint64) bool {
	return e.cfg.Mode == Enforce && e.cancels.knows(kind, e.view.s.At)
}

// pending is the action whose relief is awaited.
type pending struct {
	active   bool
	task     uint64
	step     Step
	at       mono.Time
	first    mono.Time // when the first of several was, that went before without a pause
	stuck    int
	several  bool
	dam      bool
	patience time.Duration
}

// stepTaken returns the harshest step taken on a task.
func (e *Engine) stepTaken(task uint64) Step {
	for _, t := range e.cancels.taken {
		if t.task == task {
			return t.step
		}
	}
	return NoStep
}

// rearm closes the trip and forgets what was futile.
func (c *cancels) rearm() { c.tripped, c.futile, c.notBefore = false, 0, 0 }

// forget ends what hangs on the mode: no relief is awaited any more. What monitored was only
// reported.
func (c *cancels) forget(monitored bool) {
	c.pending = pending{}
	if monitored {
		c.kinds = c.kinds[:0]
		c.taken = slices.DeleteFunc(c.taken, func(t stepTaken) bool { return t.step == reported })
	}
}

// patience is how long relief is awaited: an objective, because the requests that
// waited end only then in time again, and two samples, because one may have been
// taken while the cancel was under way.
func (e *Engine) patience(undo time.Duration) time.Duration {
	return max(e.cfg.Objective, 2*e.view.dt) + undo
}

// act turns a confirmed pick into an action, or says what keeps it back.
func (e *Engine) act(d *Decision, c *contender, several bool) {
	v, done := &e.view, &e.cancels
	t := &v.s.Tasks[c.task]
	another, limited := e.another(c, several), e.limited(t.Kind)
	switch {
	case done.tripped:
		return
	case !limited && !e.confirmed(e.agreed.samples, e.agreed.span): // one of a limited kind should not have begun
		d.Why = Unconfirmed
		if rest := e.cfg.Objective/2 - e.agreed.span; e.agreed.samples > 1 && rest > 0 {
			d.Soon = rest // this look came too early by that much; the next of its source may come a period later
		}
		return
	case done.pending.active && !another, !limited && v.s.At < done.notBefore:
		d.State, d.Why = Cancelled, BackingOff
		return
	case e.capped(v.s.At):
		d.State, d.Why = Named, Capped
		return
	}
	d.Action = Action{Task: t.ID, Kind: t.Kind, Step: c.step, Limit: e.limit(v, c)}
	e.recent.late = [lateWindows]lateness{} // what comes now shows whether it helped
	e.recent.delayed.forget()
	done.know(d.Action.Limit, v.s.At)
	done.recent = append(done.recent, v.s.At)
	done.total++
	if e.cfg.Mode == Monitor {
		// What would have followed is not known: the task is reported once.
		d.State, d.Why, d.Action.Would = Named, Monitoring, true
		done.take(t.ID, reported, v.s.At)
		return
	}
	d.State = Cancelled
	if several {
		d.Soon = e.cfg.Objective / 4
	}
	done.take(t.ID, c.step, v.s.At)
	first := v.s.At
	if done.pending.active && another {
		first = done.pending.first
	}
	done.pending = pending{active: true, task: t.ID, step: c.step, at: v.s.At, first: first, stuck: v.stuck, several: several, dam: c.dam, patience: e.patience(t.Undo)}
}

// another reports whether the pending action was on another of several tasks that
// hog a resource together, and took effect or is about to. Then relief comes with the last of them. A
// task of a kind that was cancelled lately is one of them, in whatever number they come. Those that
// are idle keep what they have for a client that does something else: it may keep a slot even so, or all clients may have stopped. There
// something must have ended since the first of them was cancelled.
func (e *Engine) another(c *contender, several bool) bool {
	p, t := &e.cancels.pending, &e.view.s.Tasks[c.task]
	if !p.active || p.task == t.ID || !(p.several && several || e.limited(t.Kind)) {
		return false
	}
	if t.Idle && e.recent.still >= e.view.s.At.Sub(p.first) {
		return false
	}
	there := e.now.find(p.task)
	return there < 0 || !e.view.hogs(there) || e.view.s.Tasks[there].Ending
}

// replaced reports whether a task of a limited kind has just taken the place of one that was
// cancelled: one that waited for the same slots as their victims, say. "Just" is as long as
// relief is awaited.
func (e *Engine) replaced() bool {
	v := &e.view
	for i := range v.s.Tasks {
		t := &v.s.Tasks[i]
		if t.Barred == NotBarred && t.Steps != 0 && e.stepTaken(t.ID) == NoStep && e.limited(t.Kind) && v.hogs(i) &&
			v.s.At.Sub(t.Started) < e.cfg.MinAge+e.patience(0) {
			return true
		}
	}
	return false
}

// take notes a step.
func (c *cancels) take(task uint64, step Step, at mono.Time) {
	for i := range c.taken {
		if c.taken[i].task == task {
			c.taken[i].step = step
			return
		}
	}
	c.taken = append(c.taken, stepTaken{task, step, at})
}

// innocents reports whether others than culprits may have the kind of c: victims have
// it, or tasks of it came and went in normal times and none was a culprit lately. An
// unknown kind may be anybody's.
func (e *Engine) innocents(v *view, c *contender) bool {
	kind := v.s.Tasks[c.task].Kind
	return kind == 0 || c.common || e.normal.regular(kind, v.s.At) && !e.limited(kind)
}

// limit returns the admission limit for the kind of c, or clients would send the
// culprit again. A kind that innocents have as well is not limited: that would drop
// them.
func (e *Engine) limit(v *view, c *contender) Limit {
	kind := v.s.Tasks[c.task].Kind
	if e.innocents(v, c) {
		return Limit{}
	}
	return Limit{Kind: kind, For: e.cfg.LimitFor}
}

// fixedTogether reports whether the first candidate cannot be cancelled and is one of
// several of a kind that hog a resource together, none of which can be: a limit on the
// kind is what is left. As with several that can be cancelled, throughput must fall.
func (e *Engine) fixedTogether(v *view) bool {
	first := &e.found[0]
	if first.why != Fixed || first.common || !e.normal.falling(&e.recent) {
		return false
	}
	sum := 0.0
	for k := range e.found {
		if c := &e.found[k]; c.why == Fixed && v.s.Tasks[c.task].Kind == v.s.Tasks[first.task].Kind {
			sum += c.score
		}
	}
	return sum >= e.cfg.Clear
}

// brief returns the first candidate of a kind that hogs a resource in many short tasks, -1
// if there is none: together they are to blame for more than all others, no innocent has
// the kind, and they are background work. Foreground tasks that are short are demand,
// however many come, and left to admission. What has come and gone for long while the
// application was well is innocent; before it was, nothing is brief. Throughput need not
// fall: short tasks let the others through in between, too late.
func (e *Engine) brief(v *view) int {
	if e.normal.seen < settled {
		return -1
	}
	all := scalar(e.weights, e.graph.nobody)
	for k := range e.found {
		all += e.found[k].score
	}
	for k := range e.found {
		first := &e.found[k]
		kind := v.s.Tasks[first.task].Kind
		if first.why != Young || !v.divided(first.resource) && !v.contended(first.resource) || v.victim(first.task) || first.common || kind == 0 || e.normal.old(kind, v.s.At) && !e.limited(kind) {
			continue
		}
		sum := 0.0
		for j := range e.found {
			if c := &e.found[j]; c.why == Young && v.s.Tasks[c.task].Kind == kind {
				sum += c.score
			}
		}
		if sum > e.cfg.Clear*all {
			return k
		}
	}
	return -1
}

// keepLimit cancels a task of a limited kind, for sources that cannot keep one from
// beginning, or that do not see it while it waits in a queue. It must hold what others lose
// time to, but the objective need not be missed again, and it may be of any age: it would not
// have begun. Harsher steps are for a task that harms: see act.
func (e *Engine) keepLimit(d *Decision) {
	v, done := &e.view, &e.cancels
	if e.cfg.Mode != Enforce || len(done.kinds) == 0 || done.tripped || e.capped(v.s.At) {
		return
	}
	for i := range v.s.Tasks {
		t := &v.s.Tasks[i]
		step := t.Steps.after(NoStep)
		if t.Barred != NotBarred || step == NoStep || e.stepTaken(t.ID) != NoStep || !e.limited(t.Kind) || !v.hogs(i) {
			continue
		}
		d.Action = Action{Task: t.ID, Kind: t.Kind, Step: step}
		d.Soon = e.cfg.Objective / 4 // its client tries again, and others may have begun with it
		done.recent = append(done.recent, v.s.At)
		done.total++
		done.take(t.ID, step, v.s.At)
		return
	}
}

// shed limits the kind of a culprit that cannot be cancelled, once.
func (e *Engine) shed(d *Decision, c *contender, l Limit) {
	if l.Kind == 0 || e.cancels.tripped || e.cancels.knows(l.Kind, d.At) {
		return
	}
	e.cancels.know(l, d.At)
	d.Action = Action{Task: e.view.s.Tasks[c.task].ID, Kind: l.Kind, Limit: l, Would: e.cfg.Mode == Monitor}
}

// capped reports whether a cap forbids a further cancel at an instant.
func (e *Engine) capped(at mono.Time) bool {
	c := &e.cancels
	minute, second := 0, 0
	kept := c.recent[:0]
	for _, was := range c.recent {
		if at.Sub(was) >= time.Minute {
			continue
		}
		kept = append(kept, was)
		minute++
		if at.Sub(was) < time.Second {
			second++
		}
	}
	c.recent = kept
	free := float64(e.cfg.PerSecond)
	return minute >= e.cfg.PerMinute || second >= e.cfg.PerSecond || float64(c.total) >= free+e.cfg.PerCompletion*float64(c.completed)
}

// verify says what the pending action has come to. It forgets the steps taken on
// tasks that are gone for long.
func (e *Engine) verify(miss bool) Outcome {
	c, p := &e.cancels, &e.cancels.pending
	kept := c.taken[:0]
	for _, t := range c.taken {
		if e.now.find(t.task) >= 0 {
			t.seen = e.view.s.At
		}
		if e.view.s.At.Sub(t.seen) < keepGone {
			kept = append(kept, t)
		}
	}
	c.taken = kept
	if !p.active {
		return Outcome{}
	}
	out := Outcome{Task: p.task, Step: p.step, After: e.view.s.At.Sub(p.at)}
	there := e.now.find(p.task)
	switch {
	// Fewer that wait are no relief if none has ended: they gave up, or were refused.
	case !miss || e.view.stuck <= p.stuck/2 && e.view.stuck < p.stuck && e.recent.still < out.After:
		out.Verdict = Relieved
		c.futile = 0
	case out.After < p.patience:
		return Outcome{}
	case there >= 0 && (e.view.hogs(there) || p.dam && e.view.behind[there]):
		out.Verdict = Ignored
		c.futile++
	case e.replaced():
		return Outcome{}
	default:
		out.Verdict = Futile
		c.futile++
		c.notBefore = e.view.s.At.Add(p.patience << min(c.futile-1, 6))
	}
	c.tripped = c.tripped || c.futile >= e.cfg.Trip
	p.active = false
	return out
}
