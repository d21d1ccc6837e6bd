package live

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// The holder of the lock ends what was handed over, in the order in which it came, and Leave returns when its
// ticket has left: also where the holder does not call finish.
func TestHandedOver(t *testing.T) {
	for _, finishes := range []bool{true, false} {
		g := newGate(t, 3, GateConfig{})
		client := g.Connect(func(wire.Grant) {})
		var tickets []*Ticket
		for range 3 {
			tickets = append(tickets, enter(t, g, Request{Client: client, Request: work.Request{Asks: true}}))
		}
		g.mu.Lock()
		var wg sync.WaitGroup
		for i, ticket := range tickets {
			wg.Go(func() { ticket.Leave(work.Done) })
			until(t, "the ticket to be handed over", func() bool { return g.handed.Load() == tickets[i] })
		}
		if finishes {
			g.finish(g.now())
		} else {
			g.mu.Unlock()
		}
		wg.Wait()
		var last uint32
		for i, ticket := range tickets {
			grant, ok := ticket.Grant()
			if !ticket.Left() || !ok || grant.Seq <= last {
				t.Errorf("finishes %v: ticket %d left %v, with the grant %+v %v, want one later than %d", finishes, i, ticket.Left(), grant, ok, last)
			}
			last = grant.Seq
		}
		if s := g.Stats(); s.Running != 0 || s.Served[work.Done] != 3 {
			t.Errorf("%d run, %d were served, want 0 and 3", s.Running, s.Served[work.Done])
		}
	}
}

// TestNothingIsLost: however many leave at once, some of them twice, each counts once, and slots and credits
// are back in the end. The gate admits so few that some wait, so that leaving wakes others.
func TestNothingIsLost(t *testing.T) {
	var told atomic.Int64
	g := newGate(t, 3, GateConfig{
		Config:  admission.Config{Objective: 50 * time.Millisecond},
		Observe: func(Event) { told.Add(1) },
	})
	const callers, each = 8, 400
	var served, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		var client *Client
		if i%2 == 0 {
			client = g.Connect(func(wire.Grant) {})
			defer client.Close()
		}
		wg.Go(func() {
			var ticket Ticket // used again and again, as edges do
			for j := range each {
				if g.Admit(context.Background(), Request{Client: client}, &ticket) != nil {
					refused.Add(1)
					continue
				}
				served.Add(1)
				if j%4 == 0 {
					var twice sync.WaitGroup
					twice.Go(func() { ticket.Leave(work.Done) })
					ticket.Leave(work.Done)
					twice.Wait()
				} else {
					ticket.Leave(work.Done)
				}
				if !ticket.Left() {
					t.Error("a ticket has not left after Leave")
				}
				if j%16 == 0 {
					g.Stats()
				}
			}
		})
	}
	wg.Wait()
	s := g.Stats()
	count := func(of []uint64) (n int64) {
		for _, c := range of {
			n += int64(c)
		}
		return n
	}
	if done, shed := count(s.Served[:]), count(s.Shed[:]); s.Running != 0 || s.Waiting != 0 || done != served.Load() || shed != refused.Load() || done+shed != callers*each || told.Load() != callers*each {
		t.Errorf("%d run, %d wait, %d of %d served and %d of %d refused are counted, %d of %d events", s.Running, s.Waiting, done, served.Load(), shed, refused.Load(), told.Load(), callers*each)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	pool := g.node.Gate().Pool()
	if err := pool.Check(); err != nil || pool.Pending() != 0 || g.handed.Load() != nil {
		t.Errorf("the pool has %d requests, expected none (%v); handed over: %v", pool.Pending(), err, g.handed.Load())
	}
}

// An instant that was read before the lock was taken is none before the last that the node knows.
func TestTimeOfTheNode(t *testing.T) {
	g := newGate(t, 1, GateConfig{})
	g.mu.Lock()
	defer g.mu.Unlock()
	late := g.at(Now().Add(time.Second))
	if early := g.at(late.Add(-time.Millisecond)); early != late {
		t.Errorf("%v after %v, want the latter again", early, late)
	}
}
