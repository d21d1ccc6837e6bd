package admission

import (
	"testing"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// TestWhatIsLateBecauseOfTheSlots: the limit asks whether fewer are late less often. The wait for the slot makes a
// request late, one for a rate does not, whatever the limit is, and a request whose objective is longer is not.
func TestWhatIsLateBecauseOfTheSlots(t *testing.T) {
	g := fixed(t, 1)
	first, waits, long := &Ticket{}, &Ticket{}, &Ticket{Objective: 5 * 100 * ms}
	for _, k := range []*Ticket{first, waits} {
		k.Deadline = mono.Never
		g.Arrive(at(0), k)
	}
	g.Leave(at(20*ms), first, work.Done)
	if k, v := g.Next(at(20 * ms)); k != waits || v != Run {
		t.Fatalf("%v of %p, want the one that waits to run", v, k)
	}
	if first.slot.Waited != 0 || waits.slot.Waited != 20*ms {
		t.Errorf("waited for the slot for %v and %v, want 0 and 20ms", first.slot.Waited, waits.slot.Waited)
	}
	g.Leave(at(30*ms), waits, work.Done)
	long.Deadline = mono.Never
	g.Arrive(at(40*ms), long)
	if long.slot.Waited != -4*100*ms {
		t.Errorf("a request with five times the objective: %v, want four of them less", long.slot.Waited)
	}

	g = limited(t, 10)
	now := at(100 * ms)
	shaped := &Ticket{Request: work.Request{Workflow: "w", Deadline: mono.Never}}
	for g.Arrive(now, shaped) == Run {
		g.Leave(now, shaped, work.Done)
		shaped = &Ticket{Request: work.Request{Workflow: "w", Deadline: mono.Never}}
	}
	now = now.Add(100 * ms)
	g.OnWake(now)
	if k, v := g.Next(now); k != shaped || v != Run {
		t.Fatalf("%v of %p, want the one that waited for its rate to run", v, k)
	}
	if shaped.slot.Waited != 0 {
		t.Errorf("waited for its rate: %v, want no time for a slot", shaped.slot.Waited)
	}
}
