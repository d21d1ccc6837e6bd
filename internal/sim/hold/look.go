package hold

import (
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
)

// look shows the application to the controller, carries out what it wants and
// returns the time to the next look.
func (a *app) look() time.Duration {
	s := &a.sample
	s.At = a.engine.Now()
	s.Tasks, s.Holds = s.Tasks[:0], s.Holds[:0]
	s.Finished, a.finished = a.finished, culprit.Finished{}
	for r := range a.shares {
		a.shares[r].run(s.At, a.cfg.Resources[r].Slots)
	}
	for i, n := range a.alive {
		s.Tasks = append(s.Tasks, a.show(n))
		for r := range a.cfg.Resources {
			a.showHold(int32(i), n, r)
		}
	}
	if a.cfg.Controller == nil {
		return a.cfg.Every
	}
	actions, soon := a.cfg.Controller.Observe(s)
	if soon == 0 || soon > a.cfg.Every {
		soon = a.cfg.Every
	}
	for _, action := range actions {
		if action.Would {
			continue
		}
		if l := action.Limit; l.Kind != 0 {
			if !slices.ContainsFunc(a.cfg.Guests, func(g Guest) bool { return g.Culprit && g.Program.Kind == l.Kind }) {
				a.report.WrongLimits++
			}
			a.limits[l.Kind] = s.At.Add(l.For)
		}
		for _, n := range a.alive {
			if t := &a.tasks[n]; t.id == action.Task && action.Step != culprit.NoStep {
				a.note(n, action.Step)
				a.engine.At(s.At.Add(a.cfg.Delay), event{what: obey, n: n, gen: t.gen, step: action.Step})
			}
		}
	}
	return soon
}

// show describes a task.
func (a *app) show(n int32) culprit.Task {
	t := &a.tasks[n]
	out := culprit.Task{ID: t.id, Kind: t.program.Kind, Started: t.started, Idle: t.state == resting, Steps: culprit.StepsOf(culprit.Statement)}
	if t.program.Known {
		out.Total = uint64(t.program.total() / time.Microsecond)
		did := t.done
		if t.state == running {
			did += min(a.engine.Now().Sub(t.opStart), t.opTime)
		}
		out.Done = min(uint64(did/time.Microsecond), out.Total)
	}
	if t.guest >= 0 {
		g := &a.cfg.Guests[t.guest]
		out.Background, out.Barred, out.Steps = g.Background, g.Barred, g.Steps
		out.Undo = a.undo(n)
		if out.Idle && out.Steps.Has(culprit.Session) {
			out.Steps = culprit.StepsOf(culprit.Session)
		}
	}
	if t.state == undoing {
		out.Steps = 0
	}
	return out
}

func (a *app) undo(n int32) time.Duration {
	t := &a.tasks[n]
	return time.Duration(float64(t.done+min(a.engine.Now().Sub(t.opStart), t.opTime)) * a.cfg.Guests[t.guest].Undo)
}

// showHold describes what a task has to do with a resource, if anything.
func (a *app) showHold(i, n int32, r int) {
	c := a.tasks[n].cells[r]
	if c.gets == 0 && c.waits == 0 {
		return
	}
	h := culprit.Hold{Task: i, Resource: int32(r), Gets: c.gets, Frees: c.frees, Waits: c.waits, WaitTime: c.waitTime, HoldTime: c.holdTime,
		WaitingSince: c.waitingSince, HeldSince: c.heldSince, Used: uint64(c.used), Shared: c.shared}
	switch a.cfg.Resources[r].Kind {
	case culprit.System:
		for k := range a.shares[r].jobs {
			if j := &a.shares[r].jobs[k]; j.task == n {
				had, lost := a.shares[r].account(j, a.engine.Now())
				h.Gets += uint64(had)
				h.WaitTime += lost
			}
		}
	case culprit.Memory:
		if a.cfg.Resources[r].History {
			h.Used, h.Gets, h.Frees = a.versions(n, r), h.Frees+h.Gets, 0
		}
		if a.tasks[n].load >= 0 {
			h.Frees = h.Gets // hot pages belong to all
		}
	}
	a.sample.Holds = append(a.sample.Holds, h)
}

// note records an action for the report.
func (a *app) note(n int32, step culprit.Step) {
	t := &a.tasks[n]
	c := Cancel{At: a.engine.Now(), Step: step, Kind: t.program.Kind, Foreground: t.load >= 0}
	if t.guest >= 0 {
		c.Culprit, c.Target = a.cfg.Guests[t.guest].Culprit, a.cfg.Guests[t.guest].Target
	} else {
		a.report.Dropped++
	}
	a.report.Cancels = append(a.report.Cancels, c)
}

// cancel takes effect: the task stops, undoes its work and lets go. A statement
// that keeps its locks leaves an idle task; an idle task has no statement.
func (a *app) cancel(n int32, step culprit.Step) {
	t := &a.tasks[n]
	if t.state == undoing || t.state == resting && step < culprit.Session {
		return
	}
	if t.guest < 0 {
		a.finish(n, false)
		return
	}
	g := &a.cfg.Guests[t.guest]
	after := a.undo(n)
	if step == culprit.Throttle {
		a.slow(n)
		return
	}
	for r := range a.cfg.Resources {
		if a.tasks[n].cells[r].waitingSince != culprit.Unset || a.cfg.Resources[r].Kind == culprit.System {
			a.leave(n, r)
		}
	}
	t = &a.tasks[n]
	t.gen++ // what it was doing is over
	if g.Keeps && step < culprit.Session {
		t.state = resting
		return
	}
	t.state = undoing
	a.engine.At(a.engine.Now().Add(after), event{what: undone, n: n, gen: t.gen})
}

// slow cuts the weight of a task to a tenth, wherever it works.
func (a *app) slow(n int32) {
	for r := range a.shares {
		s := &a.shares[r]
		s.run(a.engine.Now(), a.cfg.Resources[r].Slots)
		for i := range s.jobs {
			if j := &s.jobs[i]; j.task == n {
				left := (j.until - s.clock) * j.weight
				j.weight /= 10
				s.weight -= 9 * j.weight
				j.until = s.clock + left/j.weight
			}
		}
		a.shareNext(r)
	}
}
