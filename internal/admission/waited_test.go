package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// What a request waited at its client is part of its objective: with one slot taken
// and nothing else known, it may wait here for as much less.
func TestWaitAtTheClientCounts(t *testing.T) {
	start := mono.Time(time.Hour)
	ends := func(waited time.Duration) time.Duration {
		g := fixed(t, 1)
		first := &Ticket{}
		first.Deadline = mono.Never
		g.Arrive(start, first)
		second := &Ticket{Waited: waited}
		second.Deadline = mono.Never
		if v := g.Arrive(start, second); v != Wait {
			t.Fatalf("the second request: %v, want wait", v)
		}
		return g.staleAt(second).Sub(start)
	}
	if fresh, old := ends(0), ends(30*time.Millisecond); fresh-old != 30*time.Millisecond {
		t.Errorf("a fresh request may wait %v, one that waited 30ms already %v, want 30ms less", fresh, old)
	}
}

// TestSpentAtTheClient: the service takes half of the objective. In an overload, what waited for most of the
// objective before it was sent is refused although a slot is free, and what waited for little or not at all runs. While nothing is refused, all run.
func TestSpentAtTheClient(t *testing.T) {
	g := fixed(t, 2)
	objective, now := g.Objective(), mono.Time(time.Hour)
	for range 2 * decideEvery {
		k := &Ticket{}
		k.Deadline = mono.Never
		if v := g.Arrive(now, k); v != Run {
			t.Fatalf("a request at an idle gate: %v, want run", v)
		}
		now = now.Add(objective / 2)
		g.Leave(now, k, work.Done)
	}
	for _, tt := range []struct {
		waited, deadline time.Duration // in hundredths of the objective; 0: no deadline
		refused          float64       // share of the arrivals of late
		want             Verdict
		reason           work.Reason
	}{
		{0, 0, 1, Run, work.None},
		{1, 0, 1, Run, work.None},
		{30, 0, 1, Run, work.None},
		{80, 0, 1, Shed, work.Delay},
		{80, 20, 1, Shed, work.Infeasible},
		{150, 0, 1, Shed, work.Delay},
		{80, 0, 0, Run, work.None},
		{150, 0, 0, Run, work.None},
	} {
		k := &Ticket{Waited: tt.waited * objective / 100}
		if k.Deadline = mono.Never; tt.deadline > 0 {
			k.Deadline = now.Add(tt.deadline * objective / 100)
		}
		g.demand.refused, g.demand.idle = tt.refused, now
		if v := g.Arrive(now, k); v != tt.want || k.Reason() != tt.reason {
			t.Errorf("after %d %% of the objective: %v (%v), want %v (%v)", int64(tt.waited), v, k.Reason(), tt.want, tt.reason)
		}
		if k.Running() {
			g.Leave(now.Add(objective/2), k, work.Done)
			now = now.Add(objective)
		}
	}
}
