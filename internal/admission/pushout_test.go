package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// crowd is a gate with one slot, in a queue of five places, all of a sender that had
// fifty requests.
func crowd(t *testing.T, greedy Ticket) *Gate {
	t.Helper()
	g := fixed(t, 1, func(c *Config) { c.QueueLimit = 5 })
	for range 50 {
		r := greedy
		r.Deadline = mono.Never
		g.Arrive(at(0), &r)
		g.Leave(at(time.Microsecond), &r, work.Done)
	}
	for range 6 {
		r := greedy
		r.Deadline = mono.Never
		if v := g.Arrive(at(time.Millisecond), &r); v == Shed {
			t.Fatalf("shed for %v while there is room", r.Reason())
		}
	}
	return g
}

// TestWhoHadMoreMakesRoom: the queue is full. Who comes from a sender that had less takes
// the place of the newest request of the one that had more, who is told at the next call of
// Next; who comes from the latter is refused.
func TestWhoHadMoreMakesRoom(t *testing.T) {
	for _, test := range []struct {
		name           string
		greedy, polite Ticket
		want           Verdict
	}{
		{"two connections", Ticket{Source: 1}, Ticket{Source: 2}, Wait},
		{"the same connection", Ticket{Source: 1}, Ticket{Source: 1}, Shed},
		{"nobody tells connections apart", Ticket{}, Ticket{}, Shed},
		{"another connection of the same peer", Ticket{Source: 1, Peer: 9}, Ticket{Source: 2, Peer: 9}, Wait},
		{"another peer", Ticket{Source: 1, Peer: 9}, Ticket{Source: 2, Peer: 8}, Wait},
		{"a new connection beside another class", Ticket{Source: 1}, Ticket{Source: 2, Request: work.Request{Class: work.Interactive}}, Shed},
	} {
		g := crowd(t, test.greedy)
		polite := test.polite
		polite.Deadline = mono.Never
		if v := g.Arrive(at(time.Millisecond), &polite); v != test.want {
			t.Errorf("%s: %v %v, want %v", test.name, v, polite.Reason(), test.want)
			continue
		}
		if test.want == Shed {
			continue
		}
		if wake := g.NextWake(); wake > at(time.Millisecond) {
			t.Errorf("%s: wakes at %v, want at once", test.name, wake)
		}
		out, v := g.Next(at(time.Millisecond))
		if out == nil || v != Shed || out.Reason() != work.Share || out.Source != test.greedy.Source {
			t.Errorf("%s: %+v %v, want a request of the other shed for its share", test.name, out, v)
		}
		if out, _ := g.Next(at(time.Millisecond)); out != nil || g.Waiting() != 5 {
			t.Errorf("%s: %d wait, want 5, and nobody else pushed out", test.name, g.Waiting())
		}
	}
}

// TestAPeerOfManyConnectionsIsOne: a greedy peer opens a connection for each request. Each
// connection had little, and the peer much.
func TestAPeerOfManyConnectionsIsOne(t *testing.T) {
	g := fixed(t, 1, func(c *Config) { c.QueueLimit = 5 })
	source := uint64(100)
	send := func(peer uint64) (*Ticket, Verdict) {
		source++
		r := &Ticket{Source: source, Peer: peer}
		r.Deadline = mono.Never
		return r, g.Arrive(at(time.Millisecond), r)
	}
	for range 50 {
		r, _ := send(9)
		g.Leave(at(time.Millisecond+1), r, work.Done)
	}
	for range 6 {
		send(9)
	}
	if _, v := send(9); v != Shed {
		t.Errorf("a seventh of the greedy peer: %v, want it shed", v)
	}
	if _, v := send(8); v != Wait {
		t.Errorf("the first of another peer: %v, want it to wait", v)
	}
}

// TestWaitersAreWhatWaits: whatever leaves the queue, by its turn, its deadline, its caller or
// for others, is no waiter any more.
func TestWaitersAreWhatWaits(t *testing.T) {
	g := crowd(t, Ticket{Source: 1})
	check := func(after string) {
		t.Helper()
		if len(g.waiters.tickets) != g.Waiting() {
			t.Fatalf("after %s %d waiters, %d wait", after, len(g.waiters.tickets), g.Waiting())
		}
		for i, o := range g.waiters.tickets {
			if o.place != i || !o.task.Waiting() {
				t.Fatalf("after %s the one in place %d says %d, waiting %v", after, i, o.place, o.task.Waiting())
			}
		}
	}
	check("arrivals")
	g.Cancel(at(time.Millisecond), g.waiters.tickets[2])
	check("a cancel")
	hasty := &Ticket{Source: 2}
	hasty.Deadline = at(20 * time.Millisecond)
	g.Arrive(at(time.Millisecond), hasty)
	other := &Ticket{Source: 3}
	other.Deadline = mono.Never
	g.Arrive(at(time.Millisecond), other)
	check("one pushed out")
	for out, _ := g.Next(at(50 * time.Millisecond)); out != nil; out, _ = g.Next(at(50 * time.Millisecond)) {
		check("what was late")
	}
	g.Leave(at(60*time.Millisecond), g.running.head, work.Done)
	g.Next(at(60 * time.Millisecond))
	check("a turn")
}
