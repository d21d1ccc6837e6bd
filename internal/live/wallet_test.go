package live

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/wire"
)

// TestPlainReplies: a server that grants nothing is not limited from its first answer on,
// and after each Reset from the next; one that grants is held to its grant whatever
// answers come without one.
func TestPlainReplies(t *testing.T) {
	w, err := NewWallet(credit.WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s := w.Open(nil)
	const tries = 100
	sent := func() int {
		var permits []*Permit
		for range tries {
			if p := w.TryAcquire(t.Context()); p != nil {
				permits = append(permits, p)
			}
		}
		for _, p := range permits {
			p.Return(time.Millisecond)
		}
		return len(permits)
	}
	for round := range 3 {
		if n := sent(); n == 0 || n == tries {
			t.Errorf("round %d: %d of %d sent to a server that said nothing yet", round, n, tries)
		}
		for range 2 {
			s.OnPlainReply()
			if n := sent(); n != tries {
				t.Errorf("round %d: %d of %d sent to a server without credits", round, n, tries)
			}
		}
		s.OnGrant(wire.Grant{Seq: 1, Window: 7, Revive: time.Hour})
		for range 2 {
			s.OnPlainReply()
			if n := sent(); n != 7 {
				t.Errorf("round %d: %d sent, 7 granted", round, n)
			}
		}
		s.Reset()
	}
}

// A permit that is under way when its context ends is the caller's all the same, who gives
// it back: it would be lost otherwise.
func TestPermitUnderWayWhenTheContextEnds(t *testing.T) {
	w, err := NewWallet(credit.WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s := w.Open(nil)
	for seq := range uint32(64) {
		s.OnGrant(wire.Grant{Epoch: 1, Seq: 2*seq + 1, Window: 0, Revive: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		permits := make(chan *Permit)
		go func() {
			p, err := w.Acquire(ctx)
			if err != nil {
				t.Error(err)
			}
			permits <- p
		}()
		until(t, "the request to wait", func() bool { return w.Waiting() == 1 })
		// The context ends, and before the waiter can say so, there is a credit for it.
		w.mu.Lock()
		cancel()
		runtime.Gosched()
		now := Now()
		w.core.OnGrant(now, s.window, wire.Grant{Epoch: 1, Seq: 2*seq + 2, Window: 1, Revive: time.Hour})
		w.finish(now)
		if p := <-permits; p == nil || s.Outstanding() != 1 {
			t.Fatalf("permit %v, %d outstanding", p, s.Outstanding())
		} else {
			p.Return(0)
		}
	}
	if n := s.Outstanding(); n != 0 {
		t.Errorf("%d outstanding in the end", n)
	}
}

// TestAcquireOr: a wait ends when what it is for is lost, without an error and without a credit; and channels of
// waits that ended in any way are fit for others.
func TestAcquireOr(t *testing.T) {
	w, err := NewWallet(credit.WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s := w.Open(nil)
	s.OnGrant(wire.Grant{Epoch: 1, Seq: 1, Window: 1, Revive: time.Hour})
	var held Permit
	if ok, err := w.AcquireOr(t.Context(), nil, &held); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for range 3 {
		lost := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		type end struct {
			ok  bool
			err error
		}
		ends := make(chan end, 2)
		for range 2 {
			go func() {
				ok, err := w.AcquireOr(ctx, lost, new(Permit))
				ends <- end{ok, err}
			}()
		}
		for w.Waiting() != 2 {
			time.Sleep(time.Millisecond)
		}
		close(lost)
		for range 2 {
			if e := <-ends; e.ok || e.err != nil {
				t.Errorf("lost: %v, %v", e.ok, e.err)
			}
		}
		go func() {
			ok, err := w.AcquireOr(ctx, nil, new(Permit))
			ends <- end{ok, err}
		}()
		for w.Waiting() != 1 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		if e := <-ends; e.ok || !errors.Is(e.err, context.Canceled) {
			t.Errorf("canceled: %v, %v", e.ok, e.err)
		}
		if n, waiting := s.Outstanding(), w.Waiting(); n != 1 || waiting != 0 {
			t.Errorf("%d outstanding, %d wait; want 1 and 0", n, waiting)
		}
	}
	held.Return(0)
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if ok, err := w.AcquireOr(late, nil, new(Permit)); ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after its deadline: %v, %v", ok, err)
	}
	if n := s.Outstanding(); n != 0 {
		t.Errorf("%d outstanding at the end", n)
	}
}
