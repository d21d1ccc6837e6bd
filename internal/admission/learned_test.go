package admission

import (
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/work"
)

// busyLine is a gate in front of four workers of 5 ms, asked for twice what they do, long enough that it
// knows them; and the instant at which that ends.
func busyLine(t *testing.T) (*Gate, mono.Time) {
	t.Helper()
	g, err := New(Config{Objective: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	const workers, takes, gap = 4, 5 * time.Millisecond, 625 * time.Microsecond
	var free [workers]mono.Time
	type end struct {
		t  *Ticket
		at mono.Time
	}
	var running []end
	begin := func(now mono.Time, tk *Ticket) {
		w := 0
		for i := range free {
			if free[i] < free[w] {
				w = i
			}
		}
		free[w] = max(free[w], now).Add(takes)
		running = append(running, end{tk, free[w]})
	}
	now := mono.Time(0)
	for range 20_000 {
		now = now.Add(gap)
		for len(running) > 0 && running[0].at <= now {
			done := running[0]
			running = running[1:]
			g.Leave(done.at, done.t, work.Done)
			for next, v := g.Next(done.at); next != nil; next, v = g.Next(done.at) {
				if v == Run {
					begin(done.at, next)
				}
			}
		}
		tk := &Ticket{Request: work.Request{Deadline: mono.Never}}
		if g.Arrive(now, tk) == Run {
			begin(now, tk)
		}
	}
	if l := g.Slots(); l.Limit() > 64 || l.Knee() == 0 {
		t.Fatalf("a limit of %d with a knee of %v in front of four workers; expected a gate that knows them", l.Limit(), l.Knee())
	}
	return g, now
}

// A change of the objective changes what follows from it, and nothing that was learned.
func TestSetObjectiveKeepsWhatWasLearned(t *testing.T) {
	g, now := busyLine(t)
	limit, knee, pace, credits := g.limit.Limit(), g.limit.Knee(), g.pace, g.pool.Total()
	if err := g.SetObjective(now, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if g.limit.Limit() != limit || g.limit.Knee() != knee || g.pace != pace || g.pool.Total() != credits {
		t.Errorf("limit %d, knee %v, credits %d, pace %+v; expected %d, %v, %d, %+v", g.limit.Limit(), g.limit.Knee(), g.pool.Total(), g.pace, limit, knee, credits, pace)
	}
	fresh, err := New(Config{Objective: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if g.Config() != fresh.Config() || g.pool.Config() != fresh.pool.Config() {
		t.Errorf("the configuration is\n%+v, expected that of a new gate\n%+v", g.Config(), fresh.Config())
	}
	if before := min(g.cfg.MaxDelay, g.worth.wait); before <= 40*time.Millisecond {
		t.Errorf("a wait of at most %v is worth while at 300 ms; expected more than the target delay at 100 ms", before)
	}
	for _, wrong := range []time.Duration{0, -time.Second} {
		if g.SetObjective(now, wrong) == nil || g.Objective() != 300*time.Millisecond {
			t.Errorf("an objective of %v was taken", wrong)
		}
	}
}

// A configured target delay stays, and an objective below it is a mistake that changes nothing.
func TestSetObjectiveKeepsWhatWasConfigured(t *testing.T) {
	g, err := New(Config{Objective: 100 * time.Millisecond, TargetDelay: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.SetObjective(0, 40*time.Millisecond); err == nil || g.Objective() != 100*time.Millisecond {
		t.Errorf("an objective below the target delay: %v, objective %v", err, g.Objective())
	}
	if err := g.SetObjective(0, time.Second); err != nil || g.Config().TargetDelay != 50*time.Millisecond || g.pool.Config().TargetDelay != 50*time.Millisecond {
		t.Errorf("%v, target delay %v, expected 50ms", err, g.Config().TargetDelay)
	}
}

// A gate that takes the place of another begins where that one was, within its own bounds.
func TestLearn(t *testing.T) {
	old, now := busyLine(t)
	k := old.Learned()
	next, err := New(Config{Objective: 200 * time.Millisecond, Schedule: schedule.Config{Order: schedule.LSTF}})
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Learn(k); err != nil {
		t.Fatal(err)
	}
	if next.limit.Knee() != old.limit.Knee() || next.limit.Limit() > 64 || math.Abs(next.pace.residence()-old.pace.residence()) > old.pace.residence()/2 {
		t.Errorf("limit %d, knee %v, residence %v; expected about %d, %v, %v", next.limit.Limit(), next.limit.Knee(), next.pace.residence(),
			old.limit.Limit(), old.limit.Knee(), old.pace.residence())
	}
	if next.worth.objective != 200*time.Millisecond || next.limit.InUse() != 0 || next.Delay(now) != 0 {
		t.Errorf("objective %v, %d running, delay %v; expected its own objective and nobody inside", next.worth.objective, next.limit.InUse(), next.Delay(now))
	}
	bounded := Config{Objective: 200 * time.Millisecond}
	bounded.Slots.Min, bounded.Slots.Max = 40, 50
	narrow, err := New(bounded)
	if err != nil {
		t.Fatal(err)
	}
	if err := narrow.Learn(k); err != nil || narrow.limit.Limit() != 40 {
		t.Errorf("%v, a limit of %d, expected 40, the least that is configured", err, narrow.limit.Limit())
	}
	if err := old.Learn(k); err == nil {
		t.Error("a gate that has seen requests learned from another")
	}
}

// A hold that has never opened is as long as the new one from the start.
func TestSetHoldOfAHoldThatNeverOpened(t *testing.T) {
	g, err := New(Config{Objective: 100 * time.Millisecond, Hold: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	g.SetHold(2 * time.Second)
	g.keep(0, g.hold.length/2)
	if !g.Holding(0) || !g.Holding(mono.Time(1900*time.Millisecond)) {
		t.Errorf("holding: %v, and %v after 1.9 s, expected both", g.Holding(0), g.Holding(mono.Time(1900*time.Millisecond)))
	}
}
