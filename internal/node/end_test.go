package node

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/work"
)

// What a request of a workflow takes is learned from those that were in time, and from
// others only while there were none.
func TestTotalsPreferWhatWasInTime(t *testing.T) {
	n := rated(t, Config{})
	expected := func(workflow string) time.Duration {
		_, stay := arrive(t, n, start, workflow, Tags{})
		return stay.Total.Service
	}
	took := func(workflow string, d time.Duration, o work.Outcome) {
		ticket, _ := arrive(t, n, start, workflow, Tags{})
		n.Took(start, ticket, progress.Result{Service: d, Work: d}, o)
		n.Leave(start, ticket, o)
		n.Feedback(start, ticket)
	}
	took("w", 8*time.Second, work.Late)
	if got := expected("w"); got != 8*time.Second {
		t.Errorf("of a workflow that was late only, %v is known, expected 8s", got)
	}
	took("v", time.Second, work.Done)
	for range 100 {
		took("v", 8*time.Second, work.Late)
	}
	if got := expected("v"); got != time.Second {
		t.Errorf("late requests made %v of one that takes 1s", got)
	}
}

// Only what is Done becomes Late, and requests with an objective of their own say nothing
// of the gate's. The change is said with the request that brings it.
func TestEndJudgesTheObjective(t *testing.T) {
	const objective = 100 * time.Millisecond
	n, err := New(Config{Config: admission.Config{Objective: objective}})
	if err != nil {
		t.Fatal(err)
	}
	now := start
	pass := func(took, own time.Duration, o work.Outcome) (work.Outcome, *Reach) {
		ticket := &admission.Ticket{Request: work.Request{Deadline: mono.Never}, Objective: own}
		if v := n.Arrive(now, ticket); v != admission.Run {
			t.Fatalf("%v, reason %v, expected to run", v, ticket.Reason())
		}
		now = now.Add(took)
		o, reach := n.End(now, ticket, o)
		n.Leave(now, ticket, o)
		n.Feedback(now, ticket)
		return o, reach
	}
	for _, tt := range []struct {
		took, own time.Duration
		o, want   work.Outcome
	}{
		{objective, 0, work.Done, work.Done},
		{objective + 1, 0, work.Done, work.Late},
		{objective + 1, 0, work.Dropped, work.Dropped},
		{objective + 1, 0, work.Ignored, work.Ignored},
		{objective + 1, 2 * objective, work.Done, work.Done},
		{objective, objective / 2, work.Done, work.Late},
	} {
		if got, reach := pass(tt.took, tt.own, tt.o); got != tt.want || reach != nil {
			t.Errorf("%v after %v of %v: %v and %v, expected %v and no change", tt.o, tt.took, tt.own, got, reach, tt.want)
		}
	}
	for range 4 * reachSample {
		if _, reach := pass(3*objective, 4*objective, work.Done); reach != nil || n.Unreachable() {
			t.Fatalf("requests with an objective of their own: %+v", reach)
		}
	}
	var said []Reach
	for range 4 * reachSample {
		if _, reach := pass(3*objective, 0, work.Done); reach != nil {
			said = append(said, *reach)
		}
	}
	if len(said) != 1 || said[0] != (Reach{objective, true, 3 * objective}) || !n.Unreachable() {
		t.Errorf("all take three objectives: %+v, expected one change", said)
	}
}
