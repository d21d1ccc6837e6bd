package credit

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/wire"
)

// Servers without credits take any number of requests, but of those that others could take only their part: beside servers with
// credits, as while one after the other gets a gate, or one is turned off; and beside one that has not answered yet.
func TestServersWithoutCreditsTakeTheirPart(t *testing.T) {
	const none, fresh = -1, -2
	for _, tt := range []struct {
		name    string
		windows []int
	}{
		{"one of two has credits", []int{none, 16}},
		{"one of three has credits", []int{none, 16, none}},
		{"one of three has none", []int{16, none, 16}},
		{"one is new", []int{none, none, fresh}},
		{"none has credits", []int{none, none, none}},
	} {
		l := newWallet(t, WalletConfig{})
		got := map[*Window]int{}
		var servers []*Window
		for _, n := range tt.windows {
			w := l.Open()
			servers = append(servers, w)
			switch n {
			case none:
				l.OnPlainReply(w)
			case fresh:
			default:
				l.OnGrant(0, w, wire.Grant{Window: uint32(n), Epoch: 1, Seq: 1, Revive: time.Hour})
			}
		}
		const requests, atOnce = 3000, 6
		var under []*Waiter
		for range requests {
			w := waiter()
			if step, _ := l.Submit(0, w); step != Send {
				t.Fatalf("%s: a request waits", tt.name)
			}
			got[w.window]++
			if under = append(under, w); len(under) == atOnce {
				l.Return(under[0], time.Millisecond)
				under = under[1:]
			}
		}
		equal := requests / len(servers)
		for i, s := range servers {
			if got[s] < equal/2 || got[s] > 2*equal {
				t.Errorf("%s: server %d of %v got %d of %d requests, expected about %d", tt.name, i, tt.windows, got[s], requests, equal)
			}
		}
	}
}
