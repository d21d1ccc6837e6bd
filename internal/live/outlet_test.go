package live

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/seda"
	"github.com/spillgate/spillgate/internal/baseline/semaphore"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Another policy decides in a gate: who waits has its turn when a slot is free, who
// gives up makes room, and who does not fit is refused with a hint.
func TestGateOfAnotherPolicy(t *testing.T) {
	door, err := semaphore.New(semaphore.Config{Limit: 1, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGateOf(door, time.Minute)
	defer g.Close()
	count := func(f func() int) func() int {
		return func() int { g.mu.Lock(); defer g.mu.Unlock(); return f() }
	}
	waiting := count(door.Waiting)
	first, err := g.Enter(t.Context(), Request{Client: g.Connect(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := first.Grant(); ok {
		t.Error("a semaphore grants")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := g.Enter(ctx, Request{})
		ended <- err
	}()
	until(t, "a request that waits", func() bool { return waiting() == 1 })
	_, err = g.Enter(t.Context(), Request{})
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != work.QueueFull || refusal.Pushback != time.Minute {
		t.Errorf("one too many: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the one who gave up: %v", err)
	}
	go func() {
		second, err := g.Enter(context.Background(), Request{})
		if err == nil {
			second.Leave(work.Done)
		}
		ended <- err
	}()
	until(t, "the next that waits", func() bool { return waiting() == 1 })
	first.Leave(work.Done)
	if err := <-ended; err != nil {
		t.Errorf("the next: %v", err)
	}
	if n := count(door.Running)(); n != 0 {
		t.Errorf("%d still run", n)
	}
	if s := g.Stats(); s.Served[work.Done] != 2 || s.Shed[work.QueueFull] != 1 || s.Shed[work.Canceled] != 1 {
		t.Errorf("%+v", s.Tallies)
	}
}

// An outlet's requests go as its policy lets them: with one credit one at a time; the
// credit of one that was lost is there again.
func TestOutlet(t *testing.T) {
	wallet, err := baseline.NewWallet(credit.WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	wallet.OnGrant(Now(), wire.Grant{Epoch: 1, Seq: 1, Window: 1, Revive: time.Hour})
	o := NewOutlet(wallet, nil)
	defer o.Close()
	first, err := o.Submit(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	submit := func(ctx context.Context) {
		s, err := o.Submit(ctx, 0)
		if err == nil {
			s.Lost()
		}
		ended <- err
	}
	waiting := func() bool { o.mu.Lock(); defer o.mu.Unlock(); return wallet.Demand() == 1 }
	go submit(ctx)
	until(t, "a request that waits", waiting)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the one who gave up: %v", err)
	}
	go submit(t.Context())
	until(t, "the next that waits", waiting)
	first.Answered(baseline.Feedback{Grant: wire.Grant{Epoch: 1, Seq: 2, Window: 1, Revive: time.Hour}, HasGrant: true})
	if err := <-ended; err != nil {
		t.Errorf("the next: %v", err)
	}
	if n := wallet.Window().Outstanding(); n != 0 {
		t.Errorf("%d credits are still taken", n)
	}
}

// A policy that acts by itself is woken: this one holds a request back until its
// rate allows it.
func TestOutletWakesItsPolicy(t *testing.T) {
	policy, err := seda.New(seda.Config{Target: time.Second, MinRate: 200, MaxInitRate: 201, Burst: 1, MaxWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	o := NewOutlet(policy, nil)
	defer o.Close()
	for i := range 5 {
		s, err := o.Submit(t.Context(), 0)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		s.Answered(baseline.Feedback{})
	}
}
