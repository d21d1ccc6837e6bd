package mesh_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/work"
)

// TestHopelessLeaveABusyWorker: who waits and can no longer be in time is refused
// then, not when the worker is free, and not by its client at the deadline.
func TestHopelessLeaveABusyWorker(t *testing.T) {
	stage := func(d time.Duration) mesh.Stage {
		return mesh.Stage{Service: "a", Steps: []mesh.Step{mesh.Work(mesh.Fixed(d))}}
	}
	at := func(name string, at ...time.Duration) mesh.Group {
		return mesh.Group{Mix: []mesh.Part{{Workflow: name, Weight: 1}}, Load: mesh.Load{Trace: at}}
	}
	control := mesh.Bare("lstf", admission.Config{Schedule: schedule.Config{Order: schedule.LSTF}})
	r := run(t, mesh.Config{
		Services: []mesh.Service{{Name: "a"}},
		Workflows: []mesh.Workflow{
			{Name: "short", Root: stage(50 * ms), Deadline: mesh.Deadline{After: 100 * ms}},
			{Name: "long", Root: stage(time.Second)},
		},
		// The first says what a short one takes, the second comes while a long one runs.
		Groups:  []mesh.Group{at("short", 0, 1200*ms), at("long", time.Second)},
		Control: control, Length: 3 * time.Second,
	})
	if n := &r.Workflows[0]; n.Good != 1 || n.Refused[work.Infeasible] != 1 || n.GaveUp != 0 {
		t.Errorf("%d in time, %d refused as infeasible, %d given up; expected 1, 1 and 0", n.Good, n.Refused[work.Infeasible], n.GaveUp)
	}
}
