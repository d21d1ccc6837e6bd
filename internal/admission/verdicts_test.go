package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// TestBeyondTheWindow: a request beyond its client's window runs while there is a free slot
// and nobody else waits for a credit. Its own client's demand is nobody else's.
func TestBeyondTheWindow(t *testing.T) {
	for _, tt := range []struct {
		name        string
		own, others int // demand
		want        work.Reason
	}{
		{"nobody waits", 0, 0, work.None},
		{"only its client waits", 5, 0, work.None},
		{"another client waits", 0, 1, work.Share},
		{"both wait", 5, 1, work.Share},
	} {
		g := fixed(t, 100)
		now := at(time.Second)
		own, other := g.Pool().Register(now), g.Pool().Register(now)
		if tt.others > 0 {
			g.Pool().OnDemand(now, other, tt.others)
		}
		var last *Ticket
		for range own.Window() + 1 {
			last = &Ticket{Client: own}
			last.Deadline, last.Demand = mono.Never, tt.own
			g.Arrive(now, last)
		}
		if !g.Slots().Free() {
			t.Fatal("no slot is free")
		}
		if last.Reason() != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, last.Reason(), tt.want)
		}
	}
}

// TestStaleAtItsTurn: whose turn comes, by the order of the queue, may have less time left
// than whoever has waited longest: it is refused then, and its slot goes to the next.
func TestStaleAtItsTurn(t *testing.T) {
	g := fixed(t, 1)
	now := at(time.Second)
	enter := func(priority work.Priority, waited time.Duration) (*Ticket, Verdict) {
		k := &Ticket{Waited: waited}
		k.Deadline, k.Priority = mono.Never, priority
		return k, g.Arrive(now, k)
	}
	running, _ := enter(0, 0)
	oldest, v := enter(5, 0)
	if v != Wait {
		t.Fatalf("the first to wait: %v", v)
	}
	short, v := enter(0, 90*ms) // before the oldest, and with a tenth of the objective left
	if v != Wait {
		t.Fatalf("the second to wait: %v for %v", v, short.Reason())
	}
	now = now.Add(15 * ms)
	g.Leave(now, running, work.Done)
	if k, v := g.Next(now); k != short || v != Shed || k.Reason() != work.Delay {
		t.Errorf("first: %v for %v, want the one without time shed for delay", v, k.Reason())
	}
	if k, v := g.Next(now); k != oldest || v != Run {
		t.Errorf("then: %v, want the other to run", v)
	}
	if k, _ := g.Next(now); k != nil || g.Slots().InUse() != 1 {
		t.Errorf("%d slots in use, want 1 and nothing further", g.Slots().InUse())
	}
}
