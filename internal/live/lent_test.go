package live

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/wire"
)

// granted returns a wallet with one server that has granted so much.
func granted(t *testing.T, window uint32) (*Wallet, *Server) {
	t.Helper()
	w, err := NewWallet(credit.WalletConfig{QueueLimit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	s := w.Open(nil)
	s.OnGrant(wire.Grant{Epoch: 1, Seq: 1, Window: window, Revive: time.Hour})
	return w, s
}

// TestFreeCreditsNeedNoLock: while nothing waits, a request gets a credit and gives it back although the wallet is locked.
func TestFreeCreditsNeedNoLock(t *testing.T) {
	w, s := granted(t, 3)
	w.mu.Lock()
	var a, b Permit
	for range 3 {
		if w.AcquireTo(t.Context(), &a) != nil || !w.TryAcquireTo(t.Context(), &b) || a.Server() != s || b.Asks() {
			t.Fatal("no permit, or another one")
		}
		a.Return(0)
		a.Return(0) // does not count
		b.Return(1)
	}
	w.mu.Unlock()
	if n := s.Outstanding(); n != 0 {
		t.Errorf("%d are outstanding, expected none", n)
	}
	if err := w.AcquireTo(t.Context(), &a); err != nil || s.Outstanding() != 1 {
		t.Errorf("%v, %d are outstanding, expected 1", err, s.Outstanding())
	}
	s.OnGrant(wire.Grant{Epoch: 1, Seq: 2, Window: 1, Revive: time.Hour})
	if w.TryAcquireTo(t.Context(), &b) {
		t.Error("a second credit of a window of one")
	}
	a.Return(0)
	if !w.TryAcquireTo(t.Context(), &b) {
		t.Error("no credit though it came back")
	}
	b.Return(0)
}

// TestSilenceCountsFromTheLastRequest: to a server whose window long requests have used up, others that come and give up meanwhile are
// no sign of life. It is told of them, and the next one is sent unasked once it is silent for long.
func TestSilenceCountsFromTheLastRequest(t *testing.T) {
	w, s := granted(t, 2)
	var told atomic.Int64
	s.notify = func(demand int) { told.Add(int64(demand)) }
	now := Now()
	var long [2]Permit
	for i := range long {
		if err := w.AcquireAt(t.Context(), now, &long[i]); err != nil {
			t.Fatal(err)
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	var p Permit
	for after := range 4 { // Revive is an hour, and four of them are silence
		if err := w.AcquireAt(gone, now.Add(time.Duration(after)*time.Hour), &p); err == nil {
			t.Fatalf("a third request is sent after %d hours", after)
		}
	}
	if told.Load() == 0 {
		t.Error("the server was not told that requests wait")
	}
	if err := w.AcquireAt(gone, now.Add(5*time.Hour), &p); err != nil {
		t.Errorf("after 5 hours without an answer: %v, expected one unasked", err)
	}
}

// TestLentCreditsAreBounded: however requests come and go, no more are out than the server granted, none waits for ever, and
// all credits come back.
func TestLentCreditsAreBounded(t *testing.T) {
	const window, senders, each = 3, 16, 2000
	w, s := granted(t, window)
	var out, most atomic.Int64
	var all sync.WaitGroup
	for n := range uint64(senders) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(n, 1))
			var p Permit
			for range each {
				if r.IntN(4) == 0 {
					if !w.TryAcquireTo(t.Context(), &p) {
						continue
					}
				} else if err := w.AcquireTo(t.Context(), &p); err != nil {
					t.Error(err)
					return
				}
				now := out.Add(1)
				for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
				}
				out.Add(-1)
				p.Return(time.Duration(r.IntN(100)))
			}
		})
	}
	all.Wait()
	if n := most.Load(); n > window {
		t.Errorf("%d were out at once, expected at most %d", n, window)
	}
	if n := s.Outstanding(); n != 0 || w.Waiting() != 0 {
		t.Errorf("%d are outstanding and %d wait, expected none", n, w.Waiting())
	}
}

// TestLentCreditsFollowGrants: grants that change all the time, resets and other servers lose no credit and no request.
func TestLentCreditsFollowGrants(t *testing.T) {
	w, s := granted(t, 4)
	stop := make(chan struct{})
	var all, changes sync.WaitGroup
	changes.Go(func() {
		for seq := uint32(2); ; seq++ {
			select {
			case <-stop:
				return
			default:
			}
			s.OnGrant(wire.Grant{Epoch: 1, Seq: seq, Window: 1 + seq%7, Revive: time.Millisecond})
			if seq%64 == 0 {
				s.Reset()
			}
			if seq%32 == 0 {
				other := w.Open(nil)
				other.OnPlainReply()
				other.Close()
			}
			if seq%16 == 0 {
				s.OnPlainReply()
			}
		}
	})
	for range 8 {
		all.Go(func() {
			var p Permit
			for range 1000 {
				if err := w.AcquireTo(t.Context(), &p); err != nil {
					t.Error(err)
					return
				}
				p.Return(1)
			}
		})
	}
	all.Wait()
	close(stop)
	changes.Wait()
	if n := s.Outstanding(); n != 0 || w.Waiting() != 0 {
		t.Errorf("%d are outstanding and %d wait, expected none", n, w.Waiting())
	}
}

// BenchmarkPermit is a credit there and back.
func BenchmarkPermit(b *testing.B) {
	w, err := NewWallet(credit.WalletConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	w.Open(nil).OnGrant(wire.Grant{Epoch: 1, Seq: 1, Window: 64, Revive: time.Hour})
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var p Permit
		for pb.Next() {
			now := Now()
			if err := w.AcquireAt(ctx, now, &p); err != nil {
				b.Error(err)
				return
			}
			p.ReturnAt(now, nil, 1001)
		}
	})
}
