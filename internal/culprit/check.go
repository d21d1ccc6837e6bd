package culprit

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Check reports the first thing in the sample that a source must not send: too
// many entries, an index or a kind out of range, an instant in the future. The
// engine treats a sample with a mistake as blind.
func (s *Sample) Check() error {
	for _, l := range [...]struct {
		name       string
		have, most int
	}{{"tasks", len(s.Tasks), MaxTasks}, {"resources", len(s.Resources), MaxResources}, {"holds", len(s.Holds), MaxHolds}, {"edges", len(s.Edges), MaxEdges}} {
		if l.have > l.most {
			return fmt.Errorf("culprit: a sample with %d %s; expected at most %d", l.have, l.name, l.most)
		}
	}
	if s.At == mono.Never || s.At < 0 {
		return fmt.Errorf("culprit: a sample at %d ns; expected an instant from 0 on", int64(s.At))
	}
	if !(s.Taken >= 0 && s.Taken <= 1) {
		return fmt.Errorf("culprit: others took %g of the processors; expected 0 to 1", s.Taken)
	}
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.Started > s.At || t.Started < 0 || t.Undo < 0 || t.Barred >= bars || t.Starved < 0 || t.MayStarve < 0 {
			return fmt.Errorf("culprit: task %d began at %v, takes %v to undo, is barred for reason %d, starved for %v and %v; expected a start from 0 to %v, an undo of 0 or more, a known reason, 0 or more",
				t.ID, t.Started, t.Undo, t.Barred, t.Starved, t.MayStarve, s.At)
		}
	}
	for i := range s.Resources {
		r := &s.Resources[i]
		if r.Kind >= kinds {
			return fmt.Errorf("culprit: resource %q is of kind %d; expected one below %d", r.Name, r.Kind, kinds)
		}
		if !(r.Others >= 0 && r.Others < 1e18) {
			return fmt.Errorf("culprit: others use %g units a second of resource %q; expected 0 to 1e18", r.Others, r.Name)
		}
	}
	return s.checkLinks()
}

// checkLinks checks what refers to tasks and resources.
func (s *Sample) checkLinks() error {
	within := func(i int32, n int) bool { return i >= 0 && int(i) < n }
	for i := range s.Holds {
		h := &s.Holds[i]
		if !within(h.Task, len(s.Tasks)) || !within(h.Resource, len(s.Resources)) {
			return fmt.Errorf("culprit: hold %d is of task %d and resource %d; the sample has %d and %d", i, h.Task, h.Resource, len(s.Tasks), len(s.Resources))
		}
		if since(s.At, h.WaitingSince) < 0 || since(s.At, h.HeldSince) < 0 || h.WaitTime < 0 || h.HoldTime < 0 {
			return fmt.Errorf("culprit: hold %d waits since %v and holds since %v, after %v and %v; expected instants up to %v and durations of 0 or more",
				i, h.WaitingSince, h.HeldSince, h.WaitTime, h.HoldTime, s.At)
		}
	}
	for i, e := range s.Edges {
		if !within(e.Waiter, len(s.Tasks)) || !within(e.Blocker, len(s.Tasks)) || !within(e.Resource, len(s.Resources)) {
			return fmt.Errorf("culprit: edge %d is from task %d to %d over resource %d; the sample has %d tasks and %d resources",
				i, e.Waiter, e.Blocker, e.Resource, len(s.Tasks), len(s.Resources))
		}
	}
	return nil
}

// since returns the time from then to now, 0 for Unset, negative for a time to come.
func since(now, then mono.Time) time.Duration {
	if then == Unset {
		return 0
	}
	return now.Sub(then)
}
