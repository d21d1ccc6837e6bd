package credit

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

func newWallet(t testing.TB, cfg WalletConfig) *Wallet {
	t.Helper()
	l, err := NewWallet(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func waiter() *Waiter { return &Waiter{Deadline: mono.Never} }

// TestGrantsAreWindowsNotTokens: a grant repeated, reordered or lost changes
// nothing but when the next arrives.
func TestGrantsAreWindowsNotTokens(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	s := l.Open()
	grants := []struct {
		name  string
		g     wire.Grant
		limit int
	}{
		{"first", wire.Grant{Epoch: 1, Seq: 1, Window: 5}, 5},
		{"again", wire.Grant{Epoch: 1, Seq: 1, Window: 5}, 5},
		{"third before second", wire.Grant{Epoch: 1, Seq: 3, Window: 2}, 2},
		{"second, late", wire.Grant{Epoch: 1, Seq: 2, Window: 9}, 2},
		{"sequence wraps around", wire.Grant{Epoch: 1, Seq: 3 + 1<<31 - 1, Window: 4}, 4},
		{"and on", wire.Grant{Epoch: 1, Seq: 1, Window: 6}, 6},
		{"server restarted", wire.Grant{Epoch: 2, Seq: 1, Window: 7}, 7},
		{"absurd", wire.Grant{Epoch: 2, Seq: 2, Window: 1 << 31}, WindowLimit},
	}
	for _, tt := range grants {
		l.OnGrant(0, s, tt.g)
		if got := s.Limit(); got != tt.limit {
			t.Errorf("%s: limit %d, want %d", tt.name, got, tt.limit)
		}
	}
}

// TestZeroWindowWaitsAndRevives: zero credit exists, and does not last for ever
// when the next grant is lost.
func TestZeroWindowWaitsAndRevives(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	s := l.Open()
	l.OnGrant(0, s, wire.Grant{Seq: 1, Window: 0, Revive: 10 * time.Millisecond})
	a, b := waiter(), waiter()
	if step, _ := l.Submit(0, a); step != Wait {
		t.Fatalf("sent without credit")
	}
	l.Submit(0, b)
	if w, _, _ := l.Next(mono.Time(9 * time.Millisecond)); w != nil {
		t.Fatal("revived early")
	}
	if at := l.NextWake(); at != mono.Time(10*time.Millisecond) {
		t.Fatalf("wakes at %v, want 10ms", at)
	}
	if w, step, _ := l.Next(mono.Time(10 * time.Millisecond)); w != a || step != Send {
		t.Fatal("did not revive, or not the oldest")
	}
	if w, _, _ := l.Next(mono.Time(15 * time.Millisecond)); w != nil {
		t.Fatal("sent a second request unasked")
	}
	l.Return(a, 0)
	if w, _, _ := l.Next(mono.Time(15 * time.Millisecond)); w != nil {
		t.Fatal("sent another unasked before the time was over again")
	}
	if w, step, _ := l.Next(mono.Time(20 * time.Millisecond)); w != b || step != Send {
		t.Fatal("did not revive again")
	}
}

func TestServerWithoutCreditsIsNotLimited(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	s := l.Open()
	var sent []*Waiter
	for range 100 {
		w := waiter()
		if step, _ := l.Submit(0, w); step == Send {
			sent = append(sent, w)
		}
	}
	if len(sent) != firstFlight {
		t.Fatalf("%d sent before the first answer, want %d", len(sent), firstFlight)
	}
	l.OnPlainReply(s)
	l.Return(sent[0], time.Millisecond)
	n := 0
	for w, step, _ := l.Next(0); w != nil && step == Send; w, step, _ = l.Next(0) {
		n++
	}
	if n != 100-firstFlight {
		t.Errorf("%d more sent, want all %d", n, 100-firstFlight)
	}
}

// A server with a limit of its own in front gets as many before its first answer as the wallet says, and no more.
func TestFirstFlight(t *testing.T) {
	const most = 40
	l := newWallet(t, WalletConfig{FirstFlight: most})
	l.Open()
	for n := range most + 1 {
		if step, _ := l.Submit(0, waiter()); (step == Send) != (n < most) {
			t.Errorf("request %d before the first answer: sent %v", n, step == Send)
		}
	}
	if _, err := NewWallet(WalletConfig{FirstFlight: -1}); err == nil {
		t.Error("a negative first flight is no mistake")
	}
}

func TestQueueDropsTheOldest(t *testing.T) {
	l := newWallet(t, WalletConfig{QueueLimit: 2})
	s := l.Open()
	l.OnGrant(0, s, wire.Grant{Seq: 1, Window: 0, Revive: time.Hour})
	var ws []*Waiter
	for range 3 {
		w := waiter()
		ws = append(ws, w)
		l.Submit(0, w)
	}
	w, step, reason := l.Next(0)
	if w != ws[0] || step != Refuse || reason != work.WalletFull {
		t.Errorf("got %v %v, want the oldest refused as %v", step, reason, work.WalletFull)
	}
	if w, _, _ := l.Next(0); w != nil {
		t.Error("dropped more than one")
	}
}

func TestExpiryLeavesTimeForService(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	s := l.Open()
	first := waiter()
	l.Submit(0, first)
	l.Return(first, 4*time.Millisecond) // service takes 4 ms
	l.OnGrant(0, s, wire.Grant{Seq: 1, Window: 0, Revive: time.Hour})
	w := &Waiter{Deadline: mono.Time(10 * time.Millisecond)}
	l.Submit(0, w)
	at := l.NextWake()
	if latest := mono.Time(6 * time.Millisecond); at > latest || at <= 0 {
		t.Errorf("expires at %v, want no later than %v: 10 ms less the 4 that service takes", at, latest)
	}
	got, step, reason := l.Next(at)
	if got != w || step != Refuse || reason != work.WalletExpired {
		t.Errorf("got %v %v, want it refused as %v", step, reason, work.WalletExpired)
	}
	late := &Waiter{Deadline: mono.Time(time.Millisecond)}
	if step, reason := l.Submit(mono.Time(time.Millisecond), late); step != Refuse || reason != work.WalletExpired {
		t.Errorf("a request without budget: %v %v, want it refused", step, reason)
	}
}

func TestRequestsGoWhereCreditIsFree(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	a, b := l.Open(), l.Open()
	l.OnGrant(0, a, wire.Grant{Seq: 1, Window: 2, Revive: time.Hour})
	l.OnGrant(0, b, wire.Grant{Seq: 1, Window: 6, Revive: time.Hour})
	for range 8 {
		l.Submit(0, waiter())
	}
	if a.Outstanding() != 2 || b.Outstanding() != 6 {
		t.Errorf("outstanding %d and %d, want 2 and 6", a.Outstanding(), b.Outstanding())
	}
	if step, _ := l.Submit(0, waiter()); step != Wait {
		t.Error("sent beyond both windows")
	}
	l.Close(b)
	if l.Demand() != 1 {
		t.Errorf("demand %d, want the one that waits", l.Demand())
	}
}

// TestDemandIsToldOnceWhenNothingCarriesIt: a server without a reply to come is
// told once that requests wait, and once that none does any more.
func TestDemandIsToldOnceWhenNothingCarriesIt(t *testing.T) {
	l := newWallet(t, WalletConfig{Punctual: true})
	s := l.Open()
	l.OnGrant(0, s, wire.Grant{Seq: 1, Window: 0, Revive: time.Hour})
	if _, _, ok := l.NextDemand(0); ok {
		t.Fatal("told of no demand")
	}
	w := waiter()
	l.Submit(0, w)
	if win, n, ok := l.NextDemand(0); !ok || win != s || n != 1 {
		t.Fatalf("demand %d told %v, want 1", n, ok)
	}
	l.Submit(0, waiter())
	if _, _, ok := l.NextDemand(0); ok {
		t.Fatal("told again though it is no news")
	}
	l.Cancel(w)
	l.Cancel(l.Oldest())
	if _, n, ok := l.NextDemand(0); !ok || n != 0 {
		t.Fatal("not told that demand vanished")
	}
}

func TestReturnAndCancelCountOnce(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	s := l.Open()
	w := waiter()
	l.Submit(0, w)
	if l.Cancel(w) {
		t.Error("canceled a request that was sent")
	}
	l.Return(w, 0)
	l.Return(w, 0)
	if s.Outstanding() != 0 {
		t.Errorf("outstanding %d, want 0", s.Outstanding())
	}
}

// TestWalletProperties: whatever happens, no window is overrun but by one request
// at a time sent unasked, and every waiter ends exactly once.
func TestWalletProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := NewWallet(WalletConfig{QueueLimit: rapid.IntRange(1, 8).Draw(t, "queue"), MaxWait: time.Duration(rapid.IntRange(0, 50).Draw(t, "wait"))})
		if err != nil {
			t.Fatal(err)
		}
		servers := []*Window{l.Open(), l.Open()}
		now := mono.Time(0)
		var sent, queued []*Waiter
		submitted, ended := 0, 0
		seq := uint32(0)
		drop := func(ws []*Waiter, w *Waiter) []*Waiter {
			for i := range ws {
				if ws[i] == w {
					return append(ws[:i], ws[i+1:]...)
				}
			}
			t.Fatal("a waiter was named that did not wait")
			return nil
		}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "dt")))
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0:
				w := &Waiter{Deadline: now.Add(time.Duration(rapid.IntRange(-5, 100).Draw(t, "budget")))}
				submitted++
				switch step, _ := l.Submit(now, w); step {
				case Send:
					sent = append(sent, w)
				case Wait:
					queued = append(queued, w)
				case Refuse:
					ended++
				}
			case 1:
				if len(sent) > 0 {
					l.Return(sent[0], 1)
					sent = sent[1:]
					ended++
				}
			case 2:
				seq++
				l.OnGrant(now, servers[rapid.IntRange(0, 1).Draw(t, "server")], wire.Grant{Seq: seq, Window: uint32(rapid.IntRange(0, 5).Draw(t, "window")), Revive: 30})
			case 3:
				if len(queued) > 0 {
					w := queued[rapid.IntRange(0, len(queued)-1).Draw(t, "which")]
					if !l.Cancel(w) {
						t.Fatal("a waiting request could not be canceled")
					}
					queued = drop(queued, w)
					ended++
				}
			}
			before := [2]int{servers[0].outstanding, servers[1].outstanding}
			for w, step, _ := l.Next(now); w != nil; w, step, _ = l.Next(now) {
				queued = drop(queued, w)
				if step == Send {
					sent = append(sent, w)
				} else {
					ended++
				}
			}
			for i, s := range servers {
				// One request at a time may go unasked after a silence.
				if over := s.outstanding - max(s.Limit(), before[i]); over > 1 {
					t.Fatalf("server %d: %d outstanding, %d before, window %d", i, s.outstanding, before[i], s.Limit())
				}
			}
			if submitted != ended+len(sent)+len(queued) || l.Len() != len(queued) {
				t.Fatalf("submitted %d, ended %d, sent %d, queued %d (wallet says %d)", submitted, ended, len(sent), len(queued), l.Len())
			}
		}
	})
}

func TestConfigsReportEveryMistake(t *testing.T) {
	_, err := NewPool(Config{Interval: -1, Additive: 2, Decrease: -1, MaxWindow: -1, InitialWindow: -1, MinTotal: -1, Lease: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"TargetDelay", "Interval", "Additive", "Decrease", "MaxWindow", "InitialWindow", "MinTotal", "Lease"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("the error does not name %s: %v", field, err)
		}
	}
	_, err = NewWallet(WalletConfig{QueueLimit: -1, MaxWait: -1})
	if err == nil || !strings.Contains(err.Error(), "QueueLimit") || !strings.Contains(err.Error(), "MaxWait") {
		t.Errorf("the error does not name both mistakes: %v", err)
	}
}

// TestSlowReplyDoesNotHoldTheQueue: a request that takes for ever, such as a
// stream, may use up the window; those behind it must not wait for its reply.
func TestSlowReplyDoesNotHoldTheQueue(t *testing.T) {
	const revive = 10 * time.Millisecond
	l := newWallet(t, WalletConfig{})
	s := l.Open()
	l.OnGrant(0, s, wire.Grant{Seq: 1, Window: 1, Revive: revive})
	l.Submit(0, waiter())
	if step, _ := l.Submit(1, waiter()); step != Wait {
		t.Fatal("sent beyond the window")
	}
	if _, _, ok := l.NextDemand(1); ok {
		t.Error("told while the reply may well come")
	}
	if got := l.NextWake(); got != mono.Time(revive) {
		t.Errorf("wakes at %v, want %v, when the server counts as silent", got, revive)
	}
	if _, n, ok := l.NextDemand(mono.Time(revive)); !ok || n != 1 {
		t.Error("the server was not told that a request waits behind a slow one")
	}
	if _, _, ok := l.NextDemand(mono.Time(revive)); ok {
		t.Error("told again though it is no news")
	}
	unasked := mono.Time(silence * revive)
	if got := l.NextWake(); got != unasked {
		t.Errorf("wakes at %v, want %v, when one may be sent unasked", got, unasked)
	}
	if w, _, _ := l.Next(unasked - 1); w != nil {
		t.Error("sent unasked too early")
	}
	if _, step, _ := l.Next(unasked); step != Send {
		t.Error("nothing sent though the server was silent for long")
	}
	l.Submit(unasked, waiter())
	if w, _, _ := l.Next(unasked + 1); w != nil {
		t.Error("a second one sent unasked at once")
	}
}

// TestSmallWindowsAreVisited: a server with few free credits gets its part, or
// its window would stay small because nothing tells it of demand.
func TestSmallWindowsAreVisited(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	a, b := l.Open(), l.Open()
	l.OnGrant(0, a, wire.Grant{Seq: 1, Window: 9, Revive: time.Hour})
	l.OnGrant(0, b, wire.Grant{Seq: 1, Window: 1, Revive: time.Hour})
	visits := map[*Window]int{}
	for range 100 {
		w := waiter()
		if step, _ := l.Submit(0, w); step != Send {
			t.Fatal("not sent")
		}
		visits[w.Window()]++
		l.Return(w, 0)
	}
	if visits[a] != 90 || visits[b] != 10 {
		t.Errorf("%d and %d of 100 requests one by one, want 90 and 10", visits[a], visits[b])
	}
}

// TestLateTimers: who is refused knows within a fifth of the budget, also by a timer that
// is late.
func TestLateTimers(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct{ late, budget, want time.Duration }{
		{0, 60 * ms, 10 * ms},
		{2 * ms, 60 * ms, 10 * ms},
		{3 * ms, 60 * ms, 9 * ms},
		{3 * ms, 30 * ms, 3 * ms},
		{3 * ms, 10 * ms, ms / 2}, // a twentieth
	} {
		l := newWallet(t, WalletConfig{Late: test.late})
		l.OnGrant(0, l.Open(), wire.Grant{Epoch: 1, Seq: 1, Revive: time.Second})
		if step, _ := l.Submit(0, &Waiter{Deadline: mono.Time(test.budget)}); step != Wait {
			t.Fatalf("without a credit: %v", step)
		}
		if at := l.NextWake(); at != mono.Time(test.want) {
			t.Errorf("timers %v late, budget %v: refused after %v, want %v", test.late, test.budget, time.Duration(at), test.want)
		}
	}
}

// TestAServerThatNamesNoPauseIsNotFlooded: whatever a server says, a client without credits sends one request unasked in a
// millisecond at most.
func TestAServerThatNamesNoPauseIsNotFlooded(t *testing.T) {
	l, err := NewWallet(WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	w := l.Open()
	l.OnGrant(0, w, wire.Grant{Epoch: 1, Seq: 1})
	now, sent := mono.Time(0), 0
	for range 100 {
		for range 10 {
			if step, _ := l.Submit(now, &Waiter{Deadline: mono.Never}); step == Send {
				sent++
			}
			for c, step, _ := l.Next(now); c != nil; c, step, _ = l.Next(now) {
				if step == Send {
					sent++
				}
			}
		}
		now = now.Add(leastRevive / 10)
	}
	if sent < 1 || sent > 11 {
		t.Errorf("%d requests were sent unasked in 10 ms, expected 1 to 11", sent)
	}
}
