package credit

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// TestGroupsPickAsOneByOne: a wallet that keeps its servers in groups picks as one that
// looks at each of them, whatever they grant and answer, and whatever time passes.
func TestGroupsPickAsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wallets [2]*Wallet
		var windows [2][]*Window
		var sent [2][]*Waiter
		for i := range wallets {
			wallets[i], _ = NewWallet(WalletConfig{})
		}
		wallets[1].groupUp()
		now := mono.Time(time.Hour)
		seq := uint32(0)
		number := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "which") }
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "pause")) * time.Millisecond * 10)
			what := rapid.IntRange(0, 11).Draw(t, "what")
			n, k := len(windows[0]), 0
			switch {
			case what == 0 || n == 0:
				for i, l := range wallets {
					windows[i] = append(windows[i], l.Open())
				}
				continue
			case what == 1:
				if k = number(n); rapid.IntRange(0, 3).Draw(t, "close") > 0 {
					for i, l := range wallets {
						l.Reset(windows[i][k])
					}
					continue
				}
				for i, l := range wallets {
					l.Close(windows[i][k])
				}
			case what < 5:
				k = number(n)
				seq++
				g := wire.Grant{Window: uint32(rapid.IntRange(0, 4).Draw(t, "window")), Epoch: uint32(1 + number(2)), Seq: seq, Revive: 50 * time.Millisecond}
				for i, l := range wallets {
					l.OnGrant(now, windows[i][k], g)
				}
			case what == 5:
				k = number(n)
				for i, l := range wallets {
					l.OnPlainReply(windows[i][k])
				}
			case what < 8:
				if len(sent[0]) > 0 {
					k = number(len(sent[0]))
					for i, l := range wallets {
						l.Return(sent[i][k], time.Millisecond)
						sent[i] = append(sent[i][:k:k], sent[i][k+1:]...)
					}
				}
			default:
				var picked [2]string
				for i, l := range wallets {
					w := &Waiter{Deadline: now.Add(time.Second)}
					if step, _ := l.Submit(now, w); step == Wait {
						picked[i] = "none"
						l.Cancel(w)
						continue
					}
					picked[i] = fmt.Sprint(w.window.number)
					sent[i] = append(sent[i], w)
				}
				if picked[0] != picked[1] {
					t.Fatalf("the groups pick server %s, expected %s", picked[1], picked[0])
				}
			}
			var told [2]string
			for i, l := range wallets {
				w, d, ok := l.NextDemand(now)
				if ok {
					told[i] = fmt.Sprint(w.number, d)
				}
			}
			if told[0] != told[1] {
				t.Fatalf("told %q, expected %q", told[1], told[0])
			}
		}
	})
}

// BenchmarkPick is a request to one of so many servers, and its answer.
func BenchmarkPick(b *testing.B) {
	for _, servers := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint(servers), func(b *testing.B) {
			l, _ := NewWallet(WalletConfig{})
			for i := range servers {
				w := l.Open()
				l.OnGrant(0, w, wire.Grant{Window: uint32(4 + i%16), Epoch: 1, Seq: 1})
			}
			w := &Waiter{Deadline: mono.Never}
			b.ReportAllocs()
			for b.Loop() {
				l.Submit(0, w)
				l.NextDemand(0)
				l.Return(w, time.Millisecond)
			}
		})
	}
}
