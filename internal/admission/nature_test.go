package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/slots"
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

// teach has g learn that polls are long by nature: they come beside short requests, and outlive an objective of 100 ms.
func teach(t *testing.T, g *Gate, now mono.Time) mono.Time {
	t.Helper()
	for range 16 {
		poll := &Ticket{Kind: kindName("poll"), Request: work.Request{Deadline: mono.Never}}
		if v := g.Arrive(now, poll); v != Run {
			t.Fatalf("a poll: %v, expected run", v)
		}
		for range 10 {
			short := &Ticket{Kind: kindName("short"), Request: work.Request{Deadline: mono.Never}}
			if v := g.Arrive(now, short); v != Run {
				t.Fatalf("a short request: %v, expected run", v)
			}
			now = now.Add(11 * time.Millisecond)
			g.Leave(now, short, work.Done)
		}
		g.OnWake(now)
		g.Leave(now, poll, work.Done)
	}
	if !g.kinds.Any() || g.unasked != 0 {
		t.Fatalf("polls are known: %v, and %d requests are here", g.kinds.Any(), g.unasked)
	}
	return now
}

// TestTicketsAreUsedAgain: a driver that uses a ticket again need not Reset it. Nothing of the request before counts.
func TestTicketsAreUsedAgain(t *testing.T) {
	g, err := New(Config{Objective: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	poll := &Ticket{Kind: kindName("poll"), Request: work.Request{Deadline: mono.Never}}
	now := mono.Time(time.Hour)
	for range 3 { // a stream
		poll.Arrived = 0
		if v := g.Arrive(now, poll); v != Run {
			t.Fatalf("a stream: %v, expected run", v)
		}
		now = now.Add(10 * time.Millisecond)
		g.Answer(now, poll, true)
		now = now.Add(30 * time.Millisecond)
		g.Leave(now, poll, work.Released)
		if took := g.Slots().Service(); took != 10*time.Millisecond {
			t.Fatalf("streams that are answered after 10ms seem to take %v", took)
		}
	}
	poll.Arrived = 0
	g.Arrive(now, poll)
	now = now.Add(101 * time.Millisecond)
	if g.OnWake(now); g.kinds.Empty() {
		t.Error("a poll that is not answered within the objective is not one, as the request before was answered")
	}
	g.Leave(now, poll, work.Done)
	poll.crowds, poll.nature, poll.Kind, poll.Arrived = true, g.kinds.Begin("poll"), nil, 0
	if v := g.Arrive(now, poll); v != Run || poll.nature != nil {
		t.Errorf("a request of no kind: %v, of the nature %v; expected to run, of none", v, poll.nature)
	}
}

// TestPollsAreWatchedBeside: a gate that refuses nothing says of polls what one that refuses does with them.
func TestPollsAreWatchedBeside(t *testing.T) {
	g, err := New(Config{Objective: 100 * time.Millisecond, Slots: slots.Config{Initial: 4, Max: 8}})
	if err != nil {
		t.Fatal(err)
	}
	now := teach(t, g, mono.Time(time.Hour))
	var held []*Ticket
	for i := 0; g.Slots().Free() || i < 16; i++ { // more than the slots
		short := &Ticket{Kind: kindName("short"), Request: work.Request{Deadline: mono.Never}}
		g.Observe(now, short)
		held = append(held, short)
	}
	poll := &Ticket{Kind: kindName("poll"), Request: work.Request{Deadline: mono.Never}}
	before := g.Slots().InUse()
	if v, wait := g.Observe(now, poll); v != Run || wait != 0 || g.Slots().InUse() != before {
		t.Errorf("a poll would %v after %v, for %v, and %d slots are taken, not %d; expected to run beside", v, wait, poll.Reason(), g.Slots().InUse(), before)
	}
	for _, k := range append(held, poll) {
		g.Leave(now, k, work.Done)
	}
	if g.Slots().Running() != 0 || g.unasked != 0 {
		t.Errorf("in the end %d run and %d are counted", g.Slots().Running(), g.unasked)
	}
}

// TestOthersWithoutAKind: requests of which nobody says what they do are others, too: beside them polls remain polls.
func TestOthersWithoutAKind(t *testing.T) {
	g, err := New(Config{Objective: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	now := teach(t, g, mono.Time(time.Hour))
	for range 50 {
		poll := &Ticket{Kind: kindName("poll"), Request: work.Request{Deadline: mono.Never}}
		g.Arrive(now, poll)
		other := &Ticket{Request: work.Request{Deadline: mono.Never}}
		g.Arrive(now, other)
		g.Leave(now.Add(10*time.Millisecond), other, work.Done)
		now = now.Add(101 * time.Millisecond)
		g.OnWake(now)
		g.Leave(now, poll, work.Done)
		if !g.kinds.Any() {
			t.Fatal("polls count as the only kind")
		}
	}
}

// TestWithoutASlotIsNoCrowd: who runs without a slot takes nothing from clients with credits.
func TestWithoutASlotIsNoCrowd(t *testing.T) {
	g, err := New(Config{Objective: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	now := teach(t, g, mono.Time(time.Hour))
	g.Pool().Register(now)
	var polls []*Ticket
	for range 2 {
		poll := &Ticket{Kind: kindName("poll"), Request: work.Request{Deadline: mono.Never}}
		if v := g.Arrive(now, poll); v != Run || !poll.Lent() {
			t.Fatalf("a poll: %v, beside: %v", v, poll.Lent())
		}
		polls = append(polls, poll)
	}
	if slow := (&Ticket{Kind: kindName("slow"), Request: work.Request{Deadline: mono.Never}}); g.Arrive(now, slow) == Run {
		polls = append(polls, slow)
	}
	if g.unasked != 1 {
		t.Errorf("%d of two polls and one other count, expected 1", g.unasked)
	}
	for range 20 {
		short := &Ticket{Kind: kindName("short"), Request: work.Request{Deadline: mono.Never}}
		g.Arrive(now, short)
		now = now.Add(11 * time.Millisecond)
		g.Leave(now, short, work.Done)
	}
	g.OnWake(now)
	if slow := polls[len(polls)-1]; !slow.Lent() || g.unasked != 0 {
		t.Errorf("gave its slot back: %v, and %d count; expected none", slow.Lent(), g.unasked)
	}
	for _, k := range polls {
		g.Leave(now, k, work.Done)
	}
	if g.unasked != 0 {
		t.Errorf("%d count in the end", g.unasked)
	}
}

// TestPollsAreRefusedWithTheirCause: a poll that is one too many is refused for its kind, not for what its client has.
func TestPollsAreRefusedWithTheirCause(t *testing.T) {
	g, err := New(Config{Objective: 100 * time.Millisecond, Slots: slots.Config{Initial: 4, Max: 8}})
	if err != nil {
		t.Fatal(err)
	}
	now := teach(t, g, mono.Time(time.Hour))
	for range 64 {
		poll := &Ticket{Kind: kindName("poll"), Request: work.Request{Deadline: mono.Never}}
		if g.Arrive(now, poll) != Run {
			if why := g.Because(now, poll); why.Reason != work.Share || !why.Long {
				t.Errorf("a poll too many is refused for %v, as one of a long kind: %v", why.Reason, why.Long)
			}
			return
		}
	}
	t.Error("64 polls ran at once")
}
