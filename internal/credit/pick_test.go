package credit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// TestOnlyFreeServersArePicked: whatever servers grant and answer, and whatever time passes, a request goes to a server that
// has a credit free or may be asked unasked, and waits only if there is none.
func TestOnlyFreeServersArePicked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, _ := NewWallet(WalletConfig{})
		var windows []*Window
		var sent []*Waiter
		now := mono.Time(time.Hour)
		seq := uint32(0)
		number := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "which") }
		free := func(w *Window) bool { return w.Limit() > w.outstanding || now >= w.UnaskedAt() }
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "pause")) * time.Millisecond * 10)
			what := rapid.IntRange(0, 11).Draw(t, "what")
			switch n := len(windows); {
			case what == 0 || n == 0:
				windows = append(windows, l.Open())
			case what == 1:
				if k := number(n); rapid.IntRange(0, 3).Draw(t, "close") > 0 {
					l.Reset(windows[k])
				} else {
					l.Close(windows[k])
					windows = slices.Delete(windows, k, k+1)
				}
			case what < 5:
				seq++
				g := wire.Grant{Window: uint32(rapid.IntRange(0, 4).Draw(t, "window")), Epoch: uint32(1 + number(2)), Seq: seq, Revive: 50 * time.Millisecond}
				l.OnGrant(now, windows[number(n)], g)
			case what == 5:
				l.OnPlainReply(windows[number(n)])
			case what < 8:
				if len(sent) > 0 {
					k := number(len(sent))
					l.Return(sent[k], time.Millisecond)
					sent = slices.Delete(sent, k, k+1)
				}
			default:
				any := slices.ContainsFunc(windows, free)
				w := &Waiter{Deadline: now.Add(time.Second)}
				if step, _ := l.Submit(now, w); step == Wait {
					if l.Cancel(w); any {
						t.Fatal("a request waits although a server is free")
					}
					continue
				}
				w.window.outstanding--
				if !slices.Contains(windows, w.window) || w.window.Limit() <= w.window.outstanding && !any {
					t.Fatal("a request was sent where nothing was free")
				}
				w.window.outstanding++
				sent = append(sent, w)
			}
		}
	})
}

// TestServersGetWhatTheyHaveFree: a request at a time goes to servers in proportion to their windows, and no server waits
// much longer for its next one than the others.
func TestServersGetWhatTheyHaveFree(t *testing.T) {
	for _, windows := range [][]int{{1}, {1, 1}, {1, 3}, {1, 2, 3, 4, 5}, {1, 100}, {7, 7, 7, 7}, {1, 0, 9, 1, 20, 1, 1}} {
		l, _ := NewWallet(WalletConfig{})
		sum, at := 0, map[*Window]int{}
		for _, n := range windows {
			w := l.Open()
			l.OnGrant(0, w, wire.Grant{Window: uint32(n), Epoch: 1, Seq: 1, Revive: time.Hour})
			sum += n
			at[w] = 0
		}
		got, w := map[*Window]int{}, &Waiter{Deadline: mono.Never}
		for i := range 20 * sum {
			if step, _ := l.Submit(0, w); step != Send {
				t.Fatalf("%v: request %d waits", windows, i)
			}
			to := w.window
			if gap, most := i-at[to], 3*sum/to.Limit()+3; gap > most {
				t.Errorf("%v: the server with %d had nothing for %d requests, expected %d at most", windows, to.Limit(), gap, most)
			}
			got[to]++
			at[to] = i
			l.Return(w, time.Millisecond)
		}
		for i, server := range l.offers.servers {
			if want := 20 * windows[i]; got[server] < want-3 || got[server] > want+3 {
				t.Errorf("%v: the server with %d got %d requests, expected %d", windows, windows[i], got[server], want)
			}
		}
	}
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
