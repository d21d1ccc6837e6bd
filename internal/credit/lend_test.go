package credit

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// Credits are lent while a single server that has said what it grants has them and nothing waits; what is outstanding after that
// counts as if it had gone through the wallet.
func TestLend(t *testing.T) {
	l := newWallet(t, WalletConfig{})
	lends := func(want *Window, when string) {
		t.Helper()
		if got := l.Lend(); got != want {
			t.Errorf("%s: lends %p, expected %p", when, got, want)
		}
	}
	s := l.Open()
	lends(nil, "unknown")
	l.OnPlainReply(s)
	lends(s, "without credits")
	l.OnGrant(0, s, wire.Grant{Epoch: 1, Seq: 1, Window: 2, Revive: time.Hour})
	lends(s, "with credits")
	other := l.Open()
	lends(nil, "two servers")
	l.Close(other)
	lends(s, "one again")
	a, b, c := waiter(), waiter(), waiter()
	s.Sent(1, a)
	l.Settle(s, 1)
	if step, _ := l.Submit(mono.Time(time.Second), b); step != Send {
		t.Error("the second request of a window of two is not sent")
	}
	l.Settle(s, 2)
	if step, _ := l.Submit(mono.Time(time.Minute), c); step != Wait {
		t.Error("a third request of a window of two is sent")
	}
	lends(nil, "one waits")
	if at, want := s.UnaskedAt(), mono.Time(time.Second+silence*time.Hour); at != want {
		t.Errorf("one is sent unasked at %v, expected %v: the last was sent then", at, want)
	}
	l.Return(a, 5)
	if w, step, _ := l.Next(mono.Time(time.Minute)); w != c || step != Send {
		t.Error("a credit came back, and nobody got it")
	}
	l.Return(b, 0)
	l.Return(c, 0)
	if s.Outstanding() != 0 {
		t.Errorf("%d are outstanding", s.Outstanding())
	}
	l.OnPart(a, .5)
	lends(nil, "workflows have parts")
}
