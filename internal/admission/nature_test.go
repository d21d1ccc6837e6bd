package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

type kindName string

func (k kindName) Kind() string { return string(k) }

// Streams whose clients send streams too are answered in time and stay open. That their slots come back late makes no polls of
// them, which may hold half of the slots at most.
func TestStreamsOfBothSidesAreNoPolls(t *testing.T) {
	const objective, answer, stays = 100 * time.Millisecond, 10 * time.Millisecond, time.Second
	for _, sample := range []bool{true, false} {
		g, err := New(Config{Objective: objective})
		if err != nil {
			t.Fatal(err)
		}
		events := map[mono.Time][]func(mono.Time){}
		refused := 0
		for now := mono.Time(0); now < mono.Time(20*time.Second); now = now.Add(time.Millisecond) {
			g.OnWake(now)
			for _, f := range events[now] {
				f(now)
			}
			delete(events, now)
			every, kind := 5*time.Millisecond, kindName("short")
			if now%mono.Time(100*time.Millisecond) == 0 {
				kind = "chat"
			} else if now%mono.Time(every) != 0 {
				continue
			}
			ticket := &Ticket{Kind: kind}
			ticket.Deadline = mono.Never
			if v := g.Arrive(now, ticket); v != Run {
				refused++
				continue
			}
			then := now.Add(answer)
			if kind == "short" {
				events[then] = append(events[then], func(now mono.Time) { g.Leave(now, ticket, work.Done) })
				continue
			}
			events[then] = append(events[then], func(now mono.Time) { g.Answer(now, ticket, sample) })
			then = now.Add(stays)
			events[then] = append(events[then], func(now mono.Time) { g.Leave(now, ticket, work.Released) })
		}
		if g.kinds.Any() || refused > 0 {
			t.Errorf("sample %v: %d of the requests found no slot, chat is said to be a poll: %v", sample, refused, g.kinds.Any())
		}
	}
}
