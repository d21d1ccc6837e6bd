package live

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/work"
)

// A gate that only monitors lets all in, and each ticket says what would have become of it.
func TestTicketsSayWhatWouldHaveBeen(t *testing.T) {
	g, err := NewGate(GateConfig{Config: admission.Config{Objective: time.Second}, Mode: Monitor})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for ctx, want := range map[context.Context]work.Reason{t.Context(): work.None, late: work.Expired} {
		ticket, err := g.Enter(ctx, Request{})
		if err != nil {
			t.Fatal(err)
		}
		if got := ticket.Would(); got != want {
			t.Errorf("a ticket says %v, expected %v", got, want)
		}
		ticket.Leave(work.Done)
	}
	if n := g.Stats().Would[work.Expired]; n != 1 {
		t.Errorf("the gate counted %d, expected 1", n)
	}
}
