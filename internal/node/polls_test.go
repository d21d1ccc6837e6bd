package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// limitedBy has a request of a workflow call a callee, which announces a limit.
func limitedBy(t *testing.T, n *Node, now mono.Time, workflow string, callee Callee, limited bool) {
	t.Helper()
	ticket, _ := arrive(t, n, now, workflow, Tags{})
	n.Call(now, ticket, callee.Who(), 0)
	n.OnAnswer(now, ticket, callee, &baseline.Feedback{Rate: 1000, HasRate: limited})
	n.Leave(now, ticket, work.Done)
	n.Feedback(now, ticket)
}

// polls returns the workflows that are asked for at now.
func polls(n *Node, now mono.Time) (names []string) {
	for p, ok := n.NextPoll(now); ok; p, ok = n.NextPoll(now) {
		if p.Tags.Process != 7 {
			names = append(names, fmt.Sprintf("by %d", p.Tags.Process))
		}
		names = append(names, p.Tags.Workflow)
	}
	return names
}

// A limit is asked for when no answer has confirmed it for a period, once a
// period, until it is lifted or forgotten.
func TestSilentLimitsArePolled(t *testing.T) {
	n := rated(t, Config{})
	below, mute := &who{process: NewProcess(9, "below")}, &who{process: NewProcess(8, "mute"), silent: true}
	limitedBy(t, n, start, "a", below, true)
	limitedBy(t, n, start, "b", below, true)
	limitedBy(t, n, start, "c", mute, true)
	limitedBy(t, n, start, "d", below, false)
	expect := func(after time.Duration, want ...string) {
		t.Helper()
		if got := polls(n, start.Add(after)); !slices.Equal(got, want) {
			t.Errorf("after %v asked for %v, want %v", after, got, want)
		}
	}
	expect(0) // this was a look
	expect(999 * time.Millisecond)
	limitedBy(t, n, start.Add(900*time.Millisecond), "b", below, true)
	expect(time.Second, "a")
	expect(1100 * time.Millisecond)
	expect(2100*time.Millisecond, "a", "b")
	n.OnPollAnswer(start.Add(2200*time.Millisecond), below, &wire.Reply{Process: 9, Workflow: "a", HasRate: true, Rate: 5})
	expect(3100*time.Millisecond, "b")
	n.OnPollAnswer(start.Add(3200*time.Millisecond), below, &wire.Reply{Process: 9, Workflow: "b"})
	expect(4100*time.Millisecond, "a")
	if n.Limited() != 1 {
		t.Errorf("%d limits are known, want that of a", n.Limited())
	}
	expect(13 * time.Second) // longer than the rates remember
	if n.Limited() != 0 {
		t.Errorf("%d limits are known after all was forgotten", n.Limited())
	}
}

// Only the answer of the process that was asked counts, and for what was asked.
func TestUnaskedAnswersDoNothing(t *testing.T) {
	n := rated(t, Config{})
	below := &who{process: NewProcess(9, "below")}
	limitedBy(t, n, start, "a", below, true)
	for _, r := range []wire.Reply{{Process: 8, Workflow: "a"}, {Process: 9, Workflow: "b"}} {
		n.OnPollAnswer(start, below, &r)
	}
	n.OnPollAnswer(start, &who{process: NewProcess(9, "below")}, &wire.Reply{Process: 9, Workflow: "a"})
	if n.Limited() != 1 {
		t.Errorf("%d limits are known, want 1", n.Limited())
	}
	n.OnPollAnswer(start, below, &wire.Reply{Process: 9, Workflow: "a"})
	if n.Limited() != 0 {
		t.Errorf("%d limits are known after the last was lifted", n.Limited())
	}
}

// However many callees there are, a bounded number of limits is remembered, and
// each is asked for once a period.
func TestPollsAreBounded(t *testing.T) {
	n := rated(t, Config{})
	most := n.gate.Rates(start).Config().MaxPeers
	for i := range 3 * most {
		limitedBy(t, n, start, "w", &who{process: NewProcess(uint64(i)+100, "below")}, true)
	}
	if n.Limited() != most {
		t.Errorf("%d limits are known, want %d", n.Limited(), most)
	}
	if got := len(polls(n, start.Add(2*time.Second))); got != most {
		t.Errorf("asked %d times, want %d", got, most)
	}
}
