package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

// serving is a gate with four slots in front of which many requests of two kinds always wait. It returns how many of each ended
// in ten seconds, and the time that they held slots.
func serving(t *testing.T, cfg Config, took map[kindName]time.Duration, done time.Duration) (ended map[kindName]int, held map[kindName]time.Duration) {
	t.Helper()
	cfg.Objective, cfg.NoAQM, cfg.NoCredit, cfg.Slots = 100*time.Second, true, true, slots.Config{Min: 4, Max: 4, Initial: 4}
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended, held = map[kindName]int{}, map[kindName]time.Duration{}
	events := map[mono.Time][]*Ticket{}
	waiting := map[kindName]int{}
	begin := func(now mono.Time, ticket *Ticket) {
		then := now.Add(took[ticket.Kind.(kindName)])
		events[then] = append(events[then], ticket)
	}
	for now := mono.Time(0); now < mono.Time(10*time.Second); now = now.Add(time.Millisecond) {
		for _, kind := range []kindName{"a", "b"} {
			for waiting[kind] < 40 {
				ticket := &Ticket{Kind: kind, Done: done}
				ticket.Deadline = mono.Never
				switch g.Arrive(now, ticket) {
				case Run:
					begin(now, ticket)
				case Wait:
					waiting[kind]++
				case Shed:
					t.Fatalf("a request of %s is refused: %v", kind, ticket.Reason())
				}
			}
		}
		for _, ticket := range events[now] {
			kind := ticket.Kind.(kindName)
			ended[kind]++
			held[kind] += took[kind]
			g.Leave(now, ticket, work.Done)
		}
		delete(events, now)
		for {
			ticket, v := g.Next(now)
			if ticket == nil {
				break
			}
			waiting[ticket.Kind.(kindName)]--
			if v != Run {
				t.Fatalf("a request that waits is refused: %v", ticket.Reason())
			}
			begin(now, ticket)
		}
	}
	return ended, held
}

// Kinds of which one holds a slot twenty times as long have as much of the slots' time each. Kinds that take about as long, and
// requests that had work done for them further up, are served in the order of arrival: as many of each.
func TestKindsShareTheSlotsTime(t *testing.T) {
	apart := map[kindName]time.Duration{"a": 40 * time.Millisecond, "b": 2 * time.Millisecond}
	alike := map[kindName]time.Duration{"a": 12 * time.Millisecond, "b": 10 * time.Millisecond}
	_, held := serving(t, Config{}, apart, 0)
	if part := float64(held["a"]) / float64(held["a"]+held["b"]); part < 0.45 || part > 0.6 {
		t.Errorf("the long ones have %.2f of the slots' time, want about half", part)
	}
	for what, ended := range map[string]map[kindName]int{
		"alike":             func() map[kindName]int { e, _ := serving(t, Config{}, alike, 0); return e }(),
		"worked for before": func() map[kindName]int { e, _ := serving(t, Config{}, apart, time.Millisecond); return e }(),
	} {
		if a, b := ended["a"], ended["b"]; a < b-50 || a > b+50 {
			t.Errorf("%s: %d and %d have ended, want as many of each", what, a, b)
		}
	}
}

// As many kinds are known as may be, however many there are, and those of which many ended stay.
func TestOnlySoManyKindsAreToldApart(t *testing.T) {
	l := &lengths{}
	l.meet("often").ends = lengthMemory
	for i := range 10 * mostLengths {
		l.meet(string(rune('a'+i%26)) + string(rune('a'+i/26))).ends = 1
	}
	if len(l.known) != mostLengths || l.known["often"] == nil {
		t.Errorf("%d kinds are known, want %d, and the one of which many ended: %v", len(l.known), mostLengths, l.known["often"] != nil)
	}
}
