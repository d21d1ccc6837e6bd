package culpritsim

import (
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// watched is a controller that checks what the engine must never do.
type watched struct {
	ours
	cfg     culprit.Config // with the defaults of an Engine, where they matter
	taken   map[uint64]culprit.Step
	times   []mono.Time
	broken  []string
	firstAt mono.Time // of the first action
	looks   int
	suspect int // looks that were neither idle nor normal
}

func watch(cfg culprit.Config) (*watched, error) {
	e, err := culprit.New(cfg)
	if err != nil {
		return nil, err
	}
	w := &watched{ours: ours{engine: e}, cfg: cfg, taken: map[uint64]culprit.Step{}, firstAt: mono.Never}
	return w, nil
}

func (w *watched) Observe(s *culprit.Sample) ([]culprit.Action, time.Duration) {
	if err := s.Check(); err != nil {
		w.fail(s.At, "the simulator showed a wrong sample: %v", err)
	}
	w.debug = func(d *culprit.Decision) { w.check(s, d) }
	return w.ours.Observe(s)
}

func (w *watched) fail(at mono.Time, format string, args ...any) {
	if len(w.broken) < 5 {
		w.broken = append(w.broken, at.String()+": "+fmt.Sprintf(format, args...))
	}
}

// check holds a decision against the invariants.
func (w *watched) check(s *culprit.Sample, d *culprit.Decision) {
	w.looks++
	if d.State > culprit.Normal {
		w.suspect++
	}
	sum := 0.0
	for _, c := range d.Candidates {
		if c.Score < 0 || c.Score > 1+1e-9 || math.IsNaN(c.Net) || math.IsInf(c.Net, 0) || math.IsNaN(c.Score) {
			w.fail(s.At, "candidate %d has score %v and net %v", c.Task, c.Score, c.Net)
		}
		if !c.Dam {
			sum += c.Score
		}
	}
	if sum > 1+1e-6 {
		w.fail(s.At, "the scores sum to %v", sum)
	}
	for r, b := range d.Blame {
		if !(b.Lost >= 0 && b.Lost <= 1 && b.Explains >= 0 && b.Explains <= 1+1e-9) {
			w.fail(s.At, "blame %+v on resource %d", b, r)
		}
	}
	if d.Action.Step != culprit.NoStep {
		w.action(s, d)
	}
}

func (w *watched) action(s *culprit.Sample, d *culprit.Decision) {
	w.firstAt = min(w.firstAt, s.At)
	var t *culprit.Task
	for i := range s.Tasks {
		if s.Tasks[i].ID == d.Action.Task {
			t = &s.Tasks[i]
		}
	}
	switch {
	case t == nil:
		w.fail(s.At, "action on task %d, which is not there", d.Action.Task)
		return
	case t.Barred != culprit.NotBarred:
		w.fail(s.At, "task %d is barred: %v", t.ID, t.Barred)
	case !t.Steps.Has(d.Action.Step):
		w.fail(s.At, "task %d has no step %v", t.ID, d.Action.Step)
	case s.At.Sub(t.Started) < w.cfg.Objective:
		w.fail(s.At, "task %d is %v old", t.ID, s.At.Sub(t.Started))
	case w.taken[t.ID] >= d.Action.Step:
		w.fail(s.At, "task %d had step %v already", t.ID, w.taken[t.ID])
	case s.Blind != "":
		w.fail(s.At, "an action on a blind sample")
	}
	w.taken[t.ID] = d.Action.Step
	w.times = append(w.times, s.At)
	if n := len(w.times); n > 10 && w.times[n-1].Sub(w.times[n-11]) < time.Second {
		w.fail(s.At, "more than 10 actions within a second")
	}
}
