package live

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// What is done after the objective or after the deadline is late, whoever says that it
// is done. The objective counts from the instant at which the caller meant to send, as
// far as that is known, and is that of the method where it has one.
func TestDoneTooLateIsLate(t *testing.T) {
	const objective = time.Hour
	soon := func() work.Request { return work.Request{Deadline: Now().Add(time.Millisecond)} }
	for _, tt := range []struct {
		name string
		r    func() Request
		want work.Outcome
	}{
		{"in time", func() Request { return Request{} }, work.Done},
		{"came long ago", func() Request { return Request{Arrived: Now().Add(-2 * objective)} }, work.Late},
		{"came a while ago", func() Request { return Request{Arrived: Now().Add(-objective / 2)} }, work.Done},
		{"waited for a credit", func() Request { return Request{Waited: 2 * objective} }, work.Late},
		{"both together", func() Request { return Request{Arrived: Now().Add(-objective / 2), Waited: objective / 2} }, work.Late},
		{"after its deadline", func() Request { return Request{Request: soon()} }, work.Late},
		{"a method that may take longer", func() Request { return Request{Waited: 2 * objective, Objective: 3 * objective} }, work.Done},
		{"a method that may not", func() Request { return Request{Waited: objective / 2, Objective: objective / 2} }, work.Late},
	} {
		var seen Event
		g, err := NewGate(GateConfig{Config: admission.Config{Objective: objective}, Mode: Monitor, Observe: func(e Event) { seen = e }})
		if err != nil {
			t.Fatal(err)
		}
		ticket := enter(t, g, tt.r())
		if d := ticket.core.Deadline; tt.name == "after its deadline" {
			time.Sleep(d.Sub(Now()) + time.Millisecond)
		}
		ticket.Leave(work.Done)
		if seen.Outcome != tt.want {
			t.Errorf("%s: %v, expected %v", tt.name, seen.Outcome, tt.want)
		}
		if n := g.Stats().Served[tt.want]; n != 1 {
			t.Errorf("%s: %d requests are counted as %v, expected 1", tt.name, n, tt.want)
		}
		g.Close()
	}
}

// How long late work took is known all the same; only what is no work is not.
func TestLateWorkIsASampleOfServiceTime(t *testing.T) {
	g, err := NewGate(GateConfig{Config: admission.Config{Objective: time.Microsecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for range 16 {
		ticket := enter(t, g, Request{})
		time.Sleep(time.Millisecond)
		ticket.Leave(work.Done)
	}
	s := g.Stats()
	if s.Served[work.Late] != 16 {
		t.Errorf("%d of 16 were late", s.Served[work.Late])
	}
	if s.Service < time.Millisecond/2 {
		t.Errorf("a request takes %v, expected about a millisecond", s.Service)
	}
}

// What a request of a workflow takes is learned from those that were in time.
func TestAGateLearnsTotalsFromWhatWasInTime(t *testing.T) {
	g, err := NewGate(GateConfig{Config: admission.Config{Objective: time.Hour, Schedule: schedule.Config{Order: schedule.SJF}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	in := func(waited, took time.Duration) (expected wire.Progress) {
		ticket := enter(t, g, Request{Request: work.Request{Workflow: "w"}, Waited: waited})
		time.Sleep(took)
		ticket.Leave(work.Done)
		return ticket.Total()
	}
	in(0, 0)
	known := in(2*time.Hour, 20*time.Millisecond)
	if known == (wire.Progress{}) {
		t.Error("nothing is expected after a request that was in time")
	}
	if got := in(0, 0); got != known {
		t.Errorf("a late request changed what is expected from %v to %v", known, got)
	}
}

// Retries are paid for by answers that helped somebody.
func TestLateAnswersEarnNoRetries(t *testing.T) {
	w, err := NewWallet(credit.WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	server := w.Open(nil)
	server.OnGrant(wire.Grant{Epoch: 1, Seq: 1, Window: 8, Objective: time.Hour})
	over, end := context.WithCancel(t.Context())
	end()
	busy := wire.Shed{Reason: work.Delay, Retryable: true}
	for _, tt := range []struct {
		name string
		ctx  context.Context
		from *Server
		ago  time.Duration
		want work.Reason
	}{
		{"in time", t.Context(), server, time.Minute, work.None},
		{"nobody said an objective", t.Context(), nil, 2 * time.Hour, work.None},
		{"after the objective", t.Context(), server, 2 * time.Hour, work.RetryBudget},
		{"after the deadline", over, server, 0, work.RetryBudget},
	} {
		var r Retries
		for range 10 {
			r.Earn(tt.ctx, tt.from, Now().Add(-tt.ago))
		}
		if got := r.Ask(t.Context(), busy); got != tt.want {
			t.Errorf("%s: %v, expected %v", tt.name, got, tt.want)
		}
	}
}
