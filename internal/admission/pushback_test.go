package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/work"
)

// limited returns a gate whose workflow "w" has been held to a rate, in requests/s,
// by a process that it calls, since 100 ms.
func limited(t *testing.T, rate float64) *Gate {
	t.Helper()
	g := fixed(t, 100, func(c *Config) { c.Rates = &rates.Config{MaxWait: 1000 * time.Hour} })
	first := &Ticket{Request: work.Request{Workflow: "w", Deadline: mono.Never}}
	if v := g.Arrive(0, first); v != Run {
		t.Fatal(v)
	}
	to := g.Rates(0).Peer(0, "below", "1")
	g.Call(0, first, to, 0)
	g.OnAnswer(0, first, to, rate, false)
	g.Leave(0, first, work.Done)
	g.OnWake(at(100 * ms))
	if got := g.Rates(at(100 * ms)).Rate(first.rated.Workflow); got != rate {
		t.Fatalf("the rate is %v, want %v", got, rate)
	}
	return g
}

// A refused client is told when what waits of its workflow has gone at the rate of
// the workflow.
func TestPushbackForRate(t *testing.T) {
	for _, test := range []struct {
		rate    float64
		backlog int
		later   time.Duration // than the last token was taken
		want    time.Duration
	}{
		{10, 1, 0, 100 * ms},
		{10, 5, 0, 500 * ms},
		{10, 5, 40 * ms, 460 * ms}, // the next token is nearly there
		{100, 5, 0, 50 * ms},
		{1000, 5, 0, 10 * ms}, // 5 ms, and never less than a tenth of the objective
		{2, 20, 0, 10 * time.Second},
		{2, 21, 0, 10 * time.Second}, // the limit
		{0.1, 1, 0, 10 * time.Second},
		{0.1, 10_000, 0, 10 * time.Second},
	} {
		g, now := limited(t, test.rate), at(100*ms)
		waits := 0
		for waits < test.backlog {
			if g.Arrive(now, &Ticket{Request: work.Request{Workflow: "w", Deadline: mono.Never}}) == Wait {
				waits++
			}
		}
		now = now.Add(test.later)
		hurried := &Ticket{Request: work.Request{Workflow: "w", Deadline: now.Add(100 * time.Microsecond)}}
		if v := g.Arrive(now, hurried); v != Shed || hurried.Reason() != work.Rate && hurried.Reason() != work.QueueFull {
			t.Fatalf("%v/s, backlog %d: %v for %v", test.rate, test.backlog, v, hurried.Reason())
		}
		if got := g.Pushback(now, hurried).Round(time.Microsecond); got != test.want {
			t.Errorf("%v/s, backlog %d, %v later: come back after %v, want %v", test.rate, test.backlog, test.later, got, test.want)
		}
		// It is the workflow's own line that counts, and not on the way out.
		other := &Ticket{Request: work.Request{Workflow: "v", Deadline: mono.Never}}
		g.Arrive(now, other)
		if other.reason = work.Rate; g.Pushback(now, other) != 10*ms {
			t.Errorf("another workflow: come back after %v", g.Pushback(now, other))
		}
		late := &Ticket{Request: work.Request{Workflow: "w", Deadline: mono.Never}}
		g.Drain()
		if g.Arrive(now, late); g.Pushback(now, late) != 10*ms {
			t.Errorf("%v: come back after %v", late.Reason(), g.Pushback(now, late))
		}
	}
}

// What nobody should send again is not told a time, however much waits.
func TestPushbackOfTheHopeless(t *testing.T) {
	g := limited(t, 10)
	now := at(100 * ms)
	for range 5 {
		g.Arrive(now, &Ticket{Request: work.Request{Workflow: "w", Deadline: mono.Never}})
	}
	dead := &Ticket{Request: work.Request{Workflow: "w", Deadline: now}}
	if g.Arrive(now, dead); g.Pushback(now, dead) != -1 {
		t.Errorf("%v: come back after %v", dead.Reason(), g.Pushback(now, dead))
	}
}
