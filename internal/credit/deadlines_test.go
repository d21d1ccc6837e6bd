package credit

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

const ms = time.Millisecond

// The wait for a credit follows the objective that servers say, up and down, and that of a server that has gone does not count.
func TestObjectiveOfTheServersThatAreThere(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	a, b := l.Open(), l.Open()
	say := func(w *Window, seq uint32, objective time.Duration) {
		l.OnGrant(0, w, wire.Grant{Epoch: 1, Seq: seq, Revive: time.Hour, Objective: objective})
	}
	expect := func(when string, want time.Duration) {
		t.Helper()
		w := waiter()
		l.Submit(0, w)
		if w.expire != mono.Time(want) {
			t.Errorf("%s: waits until %v, expected %v", when, time.Duration(w.expire), want)
		}
		l.Cancel(w)
	}
	say(b, 1, 0)
	say(a, 1, 60*ms)
	expect("the first says 60 ms", 10*ms)
	say(b, 2, 600*ms)
	expect("the other says 600 ms", 10*ms)
	say(a, 2, 1200*ms)
	expect("the first says 1.2 s", 100*ms)
	say(a, 3, 300*ms)
	expect("the first says 300 ms", 50*ms)
	l.Close(a)
	expect("the first is gone", 100*ms)
	l.Close(b)
	expect("both are gone", 100*ms)
}

// A request with a short deadline is refused in time although one that came before may wait for longer.
func TestShortDeadlinesBehindLongOnes(t *testing.T) {
	for _, parted := range []bool{false, true} {
		l := newWallet(t, WalletConfig{})
		s := l.Open()
		l.OnGrant(0, s, wire.Grant{Epoch: 1, Seq: 1, Revive: time.Hour, Objective: 600 * ms})
		if parted {
			l.OnPart(waiter(), 1)
		}
		long := waiter()
		l.Submit(0, long)
		short, shorter := &Waiter{Deadline: mono.Time(30 * ms)}, &Waiter{Deadline: mono.Time(12 * ms)}
		l.Submit(0, short)
		l.Submit(0, shorter)
		for _, tt := range []struct {
			w  *Waiter
			at time.Duration
		}{{shorter, 2 * ms}, {short, 5 * ms}, {long, 100 * ms}} {
			if at := l.NextWake(); at != mono.Time(tt.at) {
				t.Errorf("wakes at %v, expected %v", time.Duration(at), tt.at)
			}
			if w, _, _ := l.Next(mono.Time(tt.at) - 1); w != nil {
				t.Errorf("refused before %v", tt.at)
			}
			if w, step, reason := l.Next(mono.Time(tt.at)); w != tt.w || step != Refuse || reason != work.WalletExpired {
				t.Errorf("at %v: %v, %v, expected the request that is due", tt.at, step, reason)
			}
			if w, _, _ := l.Next(mono.Time(tt.at)); w != nil {
				t.Errorf("another one is refused at %v", tt.at)
			}
		}
		if l.len != 0 {
			t.Errorf("%d still wait", l.len)
		}
	}
}

// Nor does it get a credit that comes too late for it.
func TestExpiredRequestsGetNoCredit(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	s := l.Open()
	l.OnGrant(0, s, wire.Grant{Epoch: 1, Seq: 1, Revive: time.Hour, Objective: 600 * ms})
	long, short := waiter(), &Waiter{Deadline: mono.Time(30 * ms)}
	l.Submit(0, long)
	l.Submit(0, short)
	now := mono.Time(20 * ms)
	l.OnGrant(now, s, wire.Grant{Epoch: 1, Seq: 2, Window: 2, Revive: time.Hour, Objective: 600 * ms})
	for range 2 {
		switch w, step, _ := l.Next(now); w {
		case long:
			if step != Send {
				t.Errorf("the long one: %v", step)
			}
		case short:
			if step != Refuse {
				t.Errorf("the short one: %v", step)
			}
		default:
			t.Error("one is missing")
		}
	}
}
