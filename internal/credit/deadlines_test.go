package credit

import (
	"math/rand/v2"
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

// However deadlines are mixed, each request is refused when its time is over, or a part of its wait later if one in front of it may wait
// for longer, and a moment that a long line takes. A plain look at all of them is the oracle.
func TestMixedDeadlines(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := newWallet(t, WalletConfig{})
		s := l.Open()
		l.OnGrant(0, s, wire.Grant{Epoch: 1, Seq: 1, Revive: time.Hour, Objective: time.Second})
		waiting, peak := map[*Waiter]bool{}, 0
		for now := mono.Time(0); now < mono.Time(2*time.Second); now = now.Add(time.Duration(r.IntN(int(ms)))) {
			if now < mono.Time(time.Second) && r.IntN(3) > 0 {
				w := &Waiter{Deadline: now.Add(time.Duration(1 + r.IntN(int(time.Second))))}
				if r.IntN(4) == 0 {
					w.Deadline = mono.Never
				}
				if step, _ := l.Submit(now, w); step == Wait {
					waiting[w] = true
				}
			}
			if r.IntN(8) == 0 {
				for w := range waiting {
					l.Cancel(w)
					delete(waiting, w)
					break
				}
			}
			peak = max(peak, len(waiting))
			most := time.Duration(peak) * lookEvery
			for w, step, reason := l.Next(now); w != nil; w, step, reason = l.Next(now) {
				if step != Refuse || reason != work.WalletExpired || w.expire > now || !waiting[w] {
					t.Fatalf("seed %d: %v, %v at %v of one that may wait until %v", seed, step, reason, now, w.expire)
				}
				delete(waiting, w)
			}
			for w := range waiting {
				if late := now.Sub(w.expire); late > w.expire.Sub(w.since)/lateBy+most {
					t.Fatalf("seed %d: one waits %v after its time of %v", seed, late, w.expire.Sub(w.since))
				}
			}
		}
		if l.len != len(waiting) {
			t.Errorf("seed %d: %d wait, expected %d", seed, l.len, len(waiting))
		}
	}
}

// BenchmarkMixedDeadlines is the refusal of one of as many as may wait before a server has granted anything, half of them with a tenth of
// the others' time.
func BenchmarkMixedDeadlines(b *testing.B) {
	const n = 16 * 1024
	var all [n]Waiter
	for b.Loop() {
		l := newWallet(b, WalletConfig{})
		l.Open()
		for range firstFlight {
			l.Submit(0, waiter())
		}
		for i := range all {
			all[i] = Waiter{Deadline: mono.Time(600*ms + time.Duration(i)*10*time.Microsecond)}
			if i%2 == 1 {
				all[i].Deadline /= 10
			}
			l.Submit(0, &all[i])
		}
		for l.Len() > 0 {
			now := l.NextWake()
			for w, _, _ := l.Next(now); w != nil; w, _, _ = l.Next(now) {
			}
			for _, _, ok := l.NextDemand(now); ok; _, _, ok = l.NextDemand(now) {
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/n, "ns/refusal")
}
