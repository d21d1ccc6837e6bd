package live

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// The two halves of Admit say before anybody waits whether the request runs, waits or is refused.
func TestArriveThenAwait(t *testing.T) {
	g, err := NewGate(GateConfig{Config: admission.Config{Objective: time.Minute, Slots: slots.Config{Initial: 1, Max: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	var first, second, third, fourth Ticket

	runs := g.Arrive(ctx, Request{}, &first)
	if runs.Waits() || runs.Shed() {
		t.Fatal("with a free slot the request does not run at once")
	}
	if err := runs.Await(ctx); err != nil {
		t.Fatal(err)
	}
	waits := g.Arrive(ctx, Request{}, &second)
	if !waits.Waits() || waits.Shed() {
		t.Fatal("without a free slot the request does not wait")
	}
	gives := g.Arrive(ctx, Request{}, &third)
	cancel()
	var refusal *Refusal
	if err := gives.Await(ctx); !errors.As(err, &refusal) || refusal.Reason != work.Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up got %v", err)
	}
	first.Leave(work.Done)
	if err := waits.Await(t.Context()); err != nil {
		t.Error(err)
	}
	second.Leave(work.Done)
	gone := g.Arrive(ctx, Request{}, &fourth)
	if !gone.Shed() || gone.Waits() {
		t.Error("a request that nobody waits for is not refused on arrival")
	}
	if err := gone.Await(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("its refusal is %v", err)
	}
	if s := g.Stats(); s.Running != 0 {
		t.Errorf("%d requests still run", s.Running)
	}
}

// A permit is used again, also after it waited, and its last grant opens the window at once.
func TestAPermitIsUsedAgain(t *testing.T) {
	w, err := NewWallet(credit.WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s := w.Open(nil)
	s.OnGrant(wire.Grant{Epoch: 1, Seq: 1, Window: 1, Revive: time.Hour})
	var a, b Permit
	for seq := uint32(2); seq < 8; seq += 2 {
		if err := w.AcquireTo(t.Context(), &a); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- w.AcquireTo(t.Context(), &b) }()
		for w.Waiting() == 0 {
			time.Sleep(time.Millisecond)
		}
		a.ReturnWith(wire.Grant{Epoch: 1, Seq: seq, Window: 1, Revive: time.Hour}, time.Millisecond)
		a.ReturnWith(wire.Grant{Epoch: 1, Seq: seq, Window: 1, Revive: time.Hour}, time.Millisecond) // does nothing
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if n := s.Outstanding(); n != 1 {
			t.Errorf("%d outstanding, expected 1", n)
		}
		b.ReturnWith(wire.Grant{Epoch: 1, Seq: seq + 1, Window: 1, Revive: time.Hour}, time.Millisecond)
	}
	if n := s.Outstanding(); n != 0 {
		t.Errorf("%d outstanding at the end", n)
	}
}
