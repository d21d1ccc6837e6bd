package live

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/work"
)

// TestAbandonedTicketsHoldNothing: a request whose goroutine never comes gives
// back what it held, whether it ran, waited or was refused.
func TestAbandonedTicketsHoldNothing(t *testing.T) {
	g := newGate(t, 1, GateConfig{})
	runs := g.Arrive(Request{})
	waits := g.Arrive(Request{})
	past := Request{}
	past.Deadline = Now() - 1
	refused := g.Arrive(past)
	var wg sync.WaitGroup
	for _, ticket := range []*Ticket{waits, refused, runs, waits, refused, runs} {
		wg.Go(ticket.Abandon)
	}
	wg.Wait()
	if s := g.Stats(); s.Running != 0 || s.Waiting != 0 || s.Shed[work.Expired] != 1 {
		t.Errorf("running %d, waiting %d, expired %d, want 0, 0, 1", s.Running, s.Waiting, s.Shed[work.Expired])
	}
	enter(t, g, Request{}).Leave(work.Done)
}

func TestAbandonAfterTheEndDoesNothing(t *testing.T) {
	g := newGate(t, 1, GateConfig{})
	first := g.Arrive(Request{})
	if err := first.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	first.Leave(work.Done)
	second := enter(t, g, Request{})
	first.Abandon()
	if n := g.Stats().Running; n != 1 {
		t.Errorf("%d running, want the second request alone", n)
	}
	second.Leave(work.Done)

	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	held := enter(t, g, Request{})
	waits := g.Arrive(Request{})
	var refusal *Refusal
	if err := waits.Wait(canceled); !errors.As(err, &refusal) {
		t.Fatalf("Wait: %v, want a refusal", err)
	}
	waits.Abandon()
	held.Leave(work.Done)
	if s := g.Stats(); s.Running != 0 || s.Waiting != 0 || s.Shed[work.Canceled] != 1 {
		t.Errorf("running %d, waiting %d, canceled %d, want 0, 0, 1", s.Running, s.Waiting, s.Shed[work.Canceled])
	}
}
