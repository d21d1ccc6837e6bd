package live

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

// refusedNow returns the refusal of a request that has no time left.
func refusedNow(t *testing.T, g *Gate) *Refusal {
	t.Helper()
	_, err := g.Enter(t.Context(), Request{
		Request: work.Request{Workflow: "buy", Class: work.Interactive, Priority: 3, Attempt: 1, Deadline: 1}, Waited: 5 * time.Millisecond,
	})
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("a request out of time: %v, want a refusal", err)
	}
	return refusal
}

func TestExplain(t *testing.T) {
	g, err := NewGate(GateConfig{Config: admission.Config{
		Objective: time.Minute, QueueLimit: 7, Slots: slots.Config{Min: 1, Max: 1, Initial: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	if got := g.Refused(5); got != nil {
		t.Fatalf("a gate that refused nothing explains %+v", got)
	}
	holder, err := g.Enter(t.Context(), Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Leave(work.Done)

	first := refusedNow(t, g)
	e, ok := g.Explain(first.ID)
	if !ok || e.ID != first.ID || e.Reason != work.Expired || e.Workflow != "buy" || e.Class != work.Interactive || e.Priority != 3 || e.Attempt != 1 ||
		e.Limit != 1 || e.Running != 1 || e.QueueLimit != 7 || e.Objective != time.Minute || e.Waited != 5*time.Millisecond || e.Left != 0 || e.Credits || e.Would {
		t.Errorf("explained as %+v, %v", e, ok)
	}
	if d := time.Since(e.At); d < 0 || d > time.Hour {
		t.Errorf("dated %v ago", d)
	}
	for _, id := range []RefusalID{0, first.ID + 1, first.ID ^ 1<<40} {
		if e, ok := g.Explain(id); ok {
			t.Errorf("%v is explained as %+v", id, e)
		}
	}

	// The newest are remembered, and no more than that.
	var last *Refusal
	for range MostExplained {
		last = refusedNow(t, g)
	}
	if _, ok := g.Explain(first.ID); ok {
		t.Error("more refusals are remembered than MostExplained")
	}
	all := g.Refused(2 * MostExplained)
	if len(all) != MostExplained || all[0].ID != last.ID || all[len(all)-1].ID != first.ID+1 {
		t.Errorf("%d refusals are remembered, the newest %v, want %d and %v", len(all), all[0].ID, MostExplained, last.ID)
	}
	if got := g.Refused(2); len(got) != 2 || got[1].ID != last.ID-1 {
		t.Errorf("the newest two are %+v", got)
	}
}

// A request that would have been refused is explained too.
func TestExplainMonitor(t *testing.T) {
	g, err := NewGate(GateConfig{Mode: Monitor, Config: admission.Config{Objective: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	ticket, err := g.Enter(context.Background(), Request{Request: work.Request{Deadline: mono.Time(1)}})
	if err != nil {
		t.Fatal(err)
	}
	ticket.Leave(work.Done)
	if all := g.Refused(1); len(all) != 1 || !all[0].Would || all[0].Reason != work.Expired {
		t.Errorf("explained as %+v", all)
	}
}

func TestRefusalIDs(t *testing.T) {
	id := RefusalID(0x5f3a0c1e0000002a)
	if got, err := ParseRefusalID(id.String()); got != id || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "0", "0000000000000000", "5f3a0c1e0000002", "5f3a0c1e0000002a0", "+f3a0c1e0000002a", "xf3a0c1e0000002a"} {
		if id, err := ParseRefusalID(text); err == nil {
			t.Errorf("%q is taken for %v", text, id)
		}
	}
}
