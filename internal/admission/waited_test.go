package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/schedule"
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
	now = learn(t, g, now, objective/2)
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

// TestTheSocketIsNoWaitAtTheClient: what was sent at once is not refused by estimate while a slot is free, also if it lay in a socket for long.
func TestTheSocketIsNoWaitAtTheClient(t *testing.T) {
	g := fixed(t, 2)
	objective, now := g.Objective(), mono.Time(time.Hour)
	now = learn(t, g, now, objective*7/10)
	g.OnLag(now, objective*2/5)
	g.demand.refused, g.demand.idle = 1, now
	k := &Ticket{Waited: objective / 10}
	k.Deadline = mono.Never
	if v := g.Arrive(now, k); v != Shed {
		t.Errorf("after a wait at the client, and in the socket: %v, want shed", v)
	}
	g.demand.refused = 1
	k = &Ticket{Arrived: now}
	k.Deadline = mono.Never
	if v := g.Arrive(now, k); v != Run {
		t.Errorf("after a wait in the socket alone: %v (%v), want run", v, k.Reason())
	}
}

// TestByDeadlineWhoHasLittleLeftDoesNotWait: where the order is by deadline, who waited at its client goes before those that wait here.
func TestByDeadlineWhoHasLittleLeftDoesNotWait(t *testing.T) {
	for order, want := range map[schedule.Order]Verdict{schedule.FIFO: Shed, schedule.EDF: Wait} {
		g := fixed(t, 1, func(c *Config) { c.Schedule.Order = order })
		objective, now := g.Objective(), mono.Time(time.Hour)
		now = learn(t, g, now, objective*3/10)
		g.pace.gap.value = float64(objective * 3 / 10) // nothing has waited yet
		for range 2 {
			k := &Ticket{}
			k.Deadline = now.Add(objective)
			if v := g.Arrive(now, k); v == Shed {
				t.Fatalf("%v: the slot is free, or one waits: %v", order, k.Reason())
			}
		}
		k := &Ticket{Waited: objective * 3 / 10}
		k.Deadline = now.Add(objective * 7 / 10)
		if v := g.Arrive(now, k); v != want {
			t.Errorf("%v: one with 70 of 100 ms left, behind two of 30 ms: %v (%v), want %v", order, v, k.Reason(), want)
		}
	}
}

// learn has a gate serve requests of one length, and returns when they have ended.
func learn(t *testing.T, g *Gate, now mono.Time, length time.Duration) mono.Time {
	t.Helper()
	for range 2 * decideEvery {
		k := &Ticket{}
		k.Deadline = mono.Never
		if v := g.Arrive(now, k); v != Run {
			t.Fatalf("a request at an idle gate: %v, want run", v)
		}
		now = now.Add(length)
		g.Leave(now, k, work.Done)
	}
	return now
}
