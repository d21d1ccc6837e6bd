package credit

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// A wait for a credit is worth a sixth of the shorter of the caller's deadline and
// the server's objective, and MaxWait replaces both.
func TestWaitFollowsTheObjective(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name                string
		deadline, objective time.Duration // 0: none, unknown
		maxWait, want       time.Duration // 0: for ever
	}{
		{"nothing known", 0, 0, 0, 0},
		{"deadline alone", 600 * ms, 0, 0, 100 * ms},
		{"objective alone", 0, 300 * ms, 0, 50 * ms},
		{"a deadline of ten objectives", 3000 * ms, 300 * ms, 0, 50 * ms},
		{"a deadline of half an objective", 150 * ms, 300 * ms, 0, 25 * ms},
		{"MaxWait lengthens", 600 * ms, 300 * ms, 400 * ms, 400 * ms},
		{"MaxWait ends with the deadline", 600 * ms, 300 * ms, 900 * ms, 600 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := NewWallet(WalletConfig{MaxWait: tt.maxWait})
			if err != nil {
				t.Fatal(err)
			}
			now := mono.Time(time.Second)
			win := l.Open()
			l.OnGrant(now, win, wire.Grant{Seq: 1, Window: 0, Revive: time.Hour, Objective: tt.objective})
			w := Waiter{Deadline: mono.Never}
			if tt.deadline > 0 {
				w.Deadline = now.Add(tt.deadline)
			}
			if step, reason := l.Submit(now, &w); step != Wait {
				t.Fatalf("Submit = %v, %v, want a wait", step, reason)
			}
			want := mono.Never
			if tt.want > 0 {
				want = now.Add(tt.want)
			}
			if w.expire != want {
				t.Errorf("the wait ends after %v, want %v", w.expire.Sub(now), tt.want)
			}
		})
	}
}

// Requests that began to wait before the objective was known wait no longer for it.
func TestObjectiveEndsWaitsThatBeganBefore(t *testing.T) {
	l, err := NewWallet(WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(time.Second)
	win := l.Open()
	waiters := make([]Waiter, firstFlight+2)
	for i := range waiters {
		waiters[i].Deadline = mono.Never
		l.Submit(now, &waiters[i])
	}
	if l.Len() != 2 || l.Oldest().expire != mono.Never {
		t.Fatalf("%d wait until %v, want 2 for ever", l.Len(), l.Oldest().expire)
	}
	now = now.Add(10 * time.Millisecond)
	l.OnGrant(now, win, wire.Grant{Seq: 1, Window: firstFlight, Revive: time.Hour, Objective: 600 * time.Millisecond})
	if at := l.NextWake(); at != mono.Time(time.Second+100*time.Millisecond) {
		t.Errorf("the first wait ends at %v, want 1.1s", at)
	}
	for i := range 2 {
		if w, step, _ := l.Next(now.Add(time.Second)); w == nil || step != Refuse {
			t.Errorf("waiter %d: %v, want it refused", i, step)
		}
	}
}

// A reply that frees the only credit of a client, which has more to send, carries the
// credit that the pool gives back to it at once.
func TestReplyCarriesWhatItsOwnReturnFed(t *testing.T) {
	p, err := NewPool(Config{TargetDelay: time.Millisecond, InitialWindow: 1})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(time.Second)
	c := p.Register(now)
	p.NextGrant()
	for i := range 20 {
		now = now.Add(time.Duration(i) * time.Millisecond)
		p.OnRequest(now, c, 1)
		if g := p.OnReply(now, c); int(g.Window) != c.Window() {
			t.Fatalf("reply %d carries a window of %d, the account holds %d", i, g.Window, c.Window())
		}
		p.SetTotal(now, float64(i%2)) // from none to one, and back
	}
}
