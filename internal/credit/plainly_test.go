package credit

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// However little the others have, a server without credits is not limited; and when the last one of them goes or has credits,
// all is as before.
func TestServersWithoutCreditsAreNotLimitedByOthers(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	plainly, other := l.Open(), l.Open()
	l.OnPlainReply(plainly)
	l.OnGrant(0, other, wire.Grant{Window: 2, Epoch: 1, Seq: 1, Revive: time.Hour})
	for i := range 100 {
		if step, _ := l.Submit(0, waiter()); step != Send {
			t.Fatalf("request %d waits", i)
		}
	}
	if plainly.Outstanding() != 98 || other.Outstanding() != 2 {
		t.Errorf("outstanding %d and %d, expected 98 and 2", plainly.Outstanding(), other.Outstanding())
	}
	l.OnGrant(0, other, wire.Grant{Window: 300, Epoch: 1, Seq: 2, Revive: time.Hour})
	if all := l.offers.all; all != 298+202 {
		t.Errorf("%d requests count, expected 298 and 202", all)
	}
	l.OnGrant(0, plainly, wire.Grant{Window: 100, Epoch: 1, Seq: 1, Revive: time.Hour})
	if all := l.offers.all; all != 298+2 {
		t.Errorf("%d requests count, expected 298 and 2", all)
	}
	third := l.Open()
	l.OnPlainReply(third)
	l.Close(third)
	l.Close(other)
	if all := l.offers.all; all != 2 || l.offers.plains != 0 {
		t.Errorf("%d requests count, of %d servers without credits; expected 2 of 0", all, l.offers.plains)
	}
}

// Once the first requests to a server have taken long, as long polls do, and others wait, the driver hears that it is worth knowing
// whether the server has credits.
func TestSlowFirstAnswersAreAskedAfter(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	s := l.Open()
	for range firstFlight {
		l.Submit(0, waiter())
	}
	if at := l.NextWake(); at != mono.Never {
		t.Errorf("wakes at %v although nothing waits", at)
	}
	l.Submit(0, waiter())
	if _, _, ok := l.NextDemand(mono.Time(firstPatience) - 1); ok {
		t.Error("told while the answers may well come")
	}
	if at := l.NextWake(); at != mono.Time(firstPatience) {
		t.Errorf("wakes at %v, expected %v", at, firstPatience)
	}
	if w, n, ok := l.NextDemand(mono.Time(firstPatience)); !ok || w != s || n != Unheard {
		t.Errorf("told of %d, %v, expected nothing but that it is unheard", n, ok)
	}
	if _, _, ok := l.NextDemand(mono.Time(firstPatience)); ok {
		t.Error("told again though it is no news")
	}
	if at := l.NextWake(); at != mono.Time(firstSilence) {
		t.Errorf("wakes at %v, expected %v, when one may be sent unasked", at, firstSilence)
	}
	l.OnPlainReply(s)
	if _, step, _ := l.Next(mono.Time(firstPatience)); step != Send {
		t.Error("the server has no credits, and a request waits")
	}
}

// While a server has answered nothing, what is sent to it doubles with each time in which it is silent, so that long polls of one
// without credits are not held back for long.
func TestASilentServerIsSentMore(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	s := l.Open()
	const many = 1000
	for range many {
		l.Submit(0, waiter())
	}
	now, sent := mono.Time(0), firstFlight
	next := func() {
		for w, _, _ := l.Next(now); w != nil; w, _, _ = l.Next(now) {
		}
	}
	for next(); sent < many; next() {
		if n := s.Outstanding(); n != sent {
			t.Fatalf("%d are outstanding at %v, expected %d", n, now, sent)
		}
		now = now.Add(firstSilence - 1)
		if next(); s.Outstanding() != sent {
			t.Fatal("more are sent too soon")
		}
		now, sent = now.Add(1), 2*sent
	}
	if s.Outstanding() != many || now > mono.Time(8*firstSilence) {
		t.Errorf("%d are outstanding at %v, expected all", s.Outstanding(), now)
	}
	l.Reset(s)
	if s.Limit() != firstFlight {
		t.Errorf("%d may be sent to its next life, expected %d", s.Limit(), firstFlight)
	}
}

// Before a server has granted anything, no request is refused because many wait: it may have no credits.
func TestNobodyIsRefusedByAnUnknownServer(t *testing.T) {
	for _, grants := range []bool{false, true} {
		l := newWallet(t, WalletConfig{QueueLimit: 4})
		s := l.Open()
		for range firstFlight + 10 {
			l.Submit(0, waiter())
		}
		if w, _, reason := l.Next(0); w != nil {
			t.Fatalf("a request is refused: %v", reason)
		}
		sent, refused := 0, 0
		if grants {
			l.OnGrant(0, s, wire.Grant{Epoch: 1, Seq: 1, Window: firstFlight, Revive: time.Hour})
		} else {
			l.OnPlainReply(s)
		}
		for w, step, _ := l.Next(0); w != nil; w, step, _ = l.Next(0) {
			if step == Send {
				sent++
			} else {
				refused++
			}
		}
		if !grants && sent != 10 || grants && (refused != 6 || sent != 0) {
			t.Errorf("grants %v: %d of 10 were sent and %d refused", grants, sent, refused)
		}
	}
}

// That requests wait is told to a server whose first grant is of nothing, although the driver has asked before whether it has credits
// at all; and so is its next life, which knows nothing of what the one before was told.
func TestDemandIsToldAfterAFirstGrantOfNothing(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	s := l.Open()
	var sent []*Waiter
	for range firstFlight {
		w := waiter()
		l.Submit(0, w)
		sent = append(sent, w)
	}
	l.Submit(0, waiter())
	now := mono.Time(firstPatience)
	if _, n, ok := l.NextDemand(now); !ok || n != Unheard {
		t.Fatalf("told of %d, %v, expected that the server is unheard", n, ok)
	}
	l.OnGrant(now, s, wire.Grant{Epoch: 1, Seq: 1, Revive: time.Hour})
	for _, w := range sent {
		l.Return(w, ms)
	}
	for life := range uint64(2) {
		if life > 0 {
			now = now.Add(2 * time.Hour)
			l.OnGrant(now, s, wire.Grant{Epoch: 1 + uint32(life), Seq: 1, Revive: time.Hour})
		}
		if w, n, ok := l.NextDemand(now); !ok || w != s || n != 1 {
			t.Errorf("life %d: told of %d, %v, expected 1", life, n, ok)
		}
		if _, n, ok := l.NextDemand(now); ok {
			t.Errorf("life %d: told of %d again", life, n)
		}
	}
}

// Nor do requests pile up without limit where a server answers nothing.
func TestWaitsForAnUnknownServerAreLimited(t *testing.T) {
	const most = 4
	l := newWallet(t, WalletConfig{QueueLimit: most})
	l.Open()
	refused := 0
	for range firstFlight + 100*most {
		l.Submit(0, waiter())
		for w, step, reason := l.Next(0); w != nil; w, step, reason = l.Next(0) {
			if refused++; step != Refuse || reason != work.WalletFull {
				t.Fatalf("%v, %v", step, reason)
			}
		}
	}
	if l.Len() != unheardMost*most || refused != 100*most-l.Len() {
		t.Errorf("%d wait and %d were refused", l.Len(), refused)
	}
}

// TestASilentServerThatHasAll: to a server that has as many as may be and is silent, one more is sent now and then. The driver is not
// woken again and again in between.
func TestASilentServerThatHasAll(t *testing.T) {
	l := newWallet(t, WalletConfig{FirstFlight: WindowLimit})
	s := l.Open()
	for range WindowLimit + 2 {
		l.Submit(0, waiter())
	}
	now := s.UnaskedAt()
	for w, _, _ := l.Next(now); w != nil; w, _, _ = l.Next(now) {
	}
	if at := l.NextWake(); at <= now || s.Outstanding() != WindowLimit+1 {
		t.Errorf("at %v %d are outstanding, and the next wake is at %v", now, s.Outstanding(), at)
	}
}
