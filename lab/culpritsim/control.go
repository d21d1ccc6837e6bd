package culpritsim

import (
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// ours is the engine at work.
type ours struct {
	engine  *culprit.Engine
	actions []culprit.Action
	debug   func(*culprit.Decision)
}

func (o *ours) Observe(s *culprit.Sample) ([]culprit.Action, time.Duration) {
	d := o.engine.Observe(s)
	if o.debug != nil {
		o.debug(d)
	}
	o.actions = o.actions[:0]
	if d.Action.Step != culprit.NoStep || d.Action.Limit.Kind != 0 {
		o.actions = append(o.actions, d.Action)
	}
	return o.actions, d.Soon
}

// troubled reports whether two foreground tasks wait for longer than the objective:
// the least that a plain tool is told.
func troubled(s *culprit.Sample, objective time.Duration) bool {
	late := 0
	for i := range s.Holds {
		h := &s.Holds[i]
		if t := &s.Tasks[h.Task]; !t.Background && h.WaitingSince != culprit.Unset && s.At.Sub(h.WaitingSince) > objective {
			late++
		}
	}
	return late >= 2
}

// oldest cancels the task that has run longest, as pt-kill does with the statements
// that are busy for longer than a limit. It begins with what is older than ten
// objectives and acts once a second.
type oldest struct {
	objective time.Duration
	next      mono.Time
	steps     map[uint64]culprit.Step
	actions   []culprit.Action
}

func (o *oldest) Observe(s *culprit.Sample) ([]culprit.Action, time.Duration) {
	if s.At < o.next || !troubled(s, o.objective) {
		return nil, 0
	}
	var first *culprit.Task
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if t.Steps != 0 && s.At.Sub(t.Started) > 10*o.objective && !o.taken(t) && (first == nil || t.Started < first.Started) {
			first = t
		}
	}
	if first == nil {
		return nil, 0
	}
	step := culprit.Statement
	if o.steps[first.ID] == culprit.Statement || !first.Steps.Has(step) {
		step = culprit.Session
	}
	o.steps[first.ID] = step
	o.next = s.At.Add(time.Second)
	o.actions = append(o.actions[:0], culprit.Action{Task: first.ID, Step: step})
	return o.actions, 0
}

func (o *oldest) taken(t *culprit.Task) bool { return o.steps[t.ID] == culprit.Session }

// victimsDropped cancels every foreground task that has waited for the objective,
// as Protego drops requests whose waits for locks near it.
type victimsDropped struct {
	objective time.Duration
	actions   []culprit.Action
}

func (d *victimsDropped) Observe(s *culprit.Sample) ([]culprit.Action, time.Duration) {
	d.actions = d.actions[:0]
	for i := range s.Holds {
		h := &s.Holds[i]
		if t := &s.Tasks[h.Task]; !t.Background && h.WaitingSince != culprit.Unset && s.At.Sub(h.WaitingSince) > d.objective {
			d.actions = append(d.actions, culprit.Action{Task: t.ID, Step: culprit.Statement})
		}
	}
	return d.actions, 0
}
