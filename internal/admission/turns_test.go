package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/work"
)

// byTurns returns a gate of one slot in which senders take turns, and where peer 5 had fifty requests.
func byTurns(t *testing.T, change func(*Config)) *Gate {
	t.Helper()
	g := fixed(t, 1, func(c *Config) {
		c.QueueLimit, c.NoAQM = 1000, true
		c.Schedule.Senders = 16
		change(c)
	})
	for range 50 {
		g.Leave(at(time.Microsecond), arrives(t, g, &Ticket{Source: 2, Peer: 5}), work.Done)
	}
	return g
}

// arrives lets a ticket in.
func arrives(t *testing.T, g *Gate, r *Ticket) *Ticket {
	t.Helper()
	r.Deadline = mono.Never
	if v := g.Arrive(at(0), r); v == Shed {
		t.Fatalf("shed for %v", r.Reason())
	}
	return r
}

// TestBurstOfOnePeerWaitsBehindItself: twenty requests of a peer wait for one slot when one of another comes, that had
// much more so far. It waits for a round of both, by what is expected of its wait too.
func TestBurstOfOnePeerWaitsBehindItself(t *testing.T) {
	for _, test := range []struct {
		name         string
		burst, other Ticket
		change       func(*Config)
		want         int // its place
	}{
		{"no turns", Ticket{Source: 1, Peer: 3}, Ticket{Source: 2, Peer: 5}, func(c *Config) { c.Schedule.Senders = 0 }, 20},
		{"first in, first out", Ticket{Source: 1, Peer: 3}, Ticket{Source: 2, Peer: 5}, func(*Config) {}, 1},
		{"by deadline", Ticket{Source: 1, Peer: 3}, Ticket{Source: 2, Peer: 5}, func(c *Config) { c.Schedule.Order = schedule.EDF }, 1},
		{"inside a workflow", Ticket{Source: 1, Peer: 3, Flow: 2}, Ticket{Source: 2, Peer: 5, Flow: 2}, func(c *Config) { c.Schedule.Fair = true }, 1},
		{"two connections of one peer", Ticket{Source: 1, Peer: 3}, Ticket{Source: 2, Peer: 3}, func(*Config) {}, 20},
		{"two connections of unknown peers", Ticket{Source: 1}, Ticket{Source: 2}, func(*Config) {}, 1},
		{"for two clients", Ticket{Source: 1, Peer: 3, Whom: 8}, Ticket{Source: 1, Peer: 3, Whom: 9}, func(*Config) {}, 1},
		{"nothing is known", Ticket{}, Ticket{}, func(*Config) {}, 20},
	} {
		g := byTurns(t, test.change)
		running := arrives(t, g, &Ticket{Source: 1, Peer: 3})
		for range 20 {
			r := test.burst
			arrives(t, g, &r)
		}
		g.pace.gap.value = float64(time.Millisecond)
		other := test.other
		if got, want := g.Expect(at(0), &other), time.Duration(test.want+1)*time.Millisecond; got != want {
			t.Errorf("%s: expected to wait for %v, want %v", test.name, got, want)
		}
		arrives(t, g, &other)
		for place := 0; ; place++ {
			now := at(time.Duration(place+1) * time.Millisecond)
			g.Leave(now, running, work.Done)
			next, v := g.Next(now)
			if next == nil || v != Run {
				t.Fatalf("%s: nobody is next after %d", test.name, place)
			}
			if running = next; next == &other {
				if place != test.want {
					t.Errorf("%s: %d start before it, want %d", test.name, place, test.want)
				}
				break
			}
		}
	}
}

// TestWhoHasMostWaitingMakesRoom: the queue is full of a burst of peer 3, and of one request of peer 5, which had much
// more so far. What peer 5 sends takes the place of the last of the burst, and what peer 3 sends is refused, or takes
// that of another source of its own.
func TestWhoHasMostWaitingMakesRoom(t *testing.T) {
	for _, test := range []struct {
		name   string
		comes  Ticket
		leaves uint64 // peer; 0: nobody does
	}{
		{"who had more and has less waiting", Ticket{Source: 2, Peer: 5}, 3},
		{"a stranger", Ticket{Source: 9, Peer: 9}, 3},
		{"who made the queue", Ticket{Source: 1, Peer: 3}, 0},
		{"a new connection of his", Ticket{Source: 8, Peer: 3}, 3},
	} {
		g := byTurns(t, func(c *Config) { c.QueueLimit = 20 })
		arrives(t, g, &Ticket{Source: 1, Peer: 3})
		for range 10 {
			arrives(t, g, &Ticket{Source: 1, Peer: 3})
		}
		arrives(t, g, &Ticket{Source: 2, Peer: 5})
		for range 9 {
			arrives(t, g, &Ticket{Source: 1, Peer: 3})
		}
		comes := test.comes
		comes.Deadline = mono.Never
		v := g.Arrive(at(0), &comes)
		if (v == Shed) != (test.leaves == 0) {
			t.Errorf("%s: %v", test.name, v)
		}
		if v == Shed {
			continue
		}
		out, shed := g.Next(at(0))
		if shed != Shed || out.Peer != test.leaves || out.Reason() != work.Share {
			t.Errorf("%s: peer %d leaves, %v for %v, want %d", test.name, out.Peer, shed, out.Reason(), test.leaves)
		}
		if g.Waiting() != 20 {
			t.Errorf("%s: %d wait", test.name, g.Waiting())
		}
	}
}
