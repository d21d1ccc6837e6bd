package credit

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	_ "github.com/spillgate/spillgate/internal/seeded"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// queueUp returns a wallet with a window of one that is taken, in which n requests of each
// workflow wait, as they came: one of each in turn. What is sent is told the parts.
func queueUp(t *testing.T, parts map[string]float64, n int, names ...string) (*Wallet, *Window, *Waiter) {
	t.Helper()
	l, err := NewWallet(WalletConfig{MaxWait: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	win := l.Open()
	l.OnGrant(0, win, wire.Grant{Window: 1, Revive: time.Hour})
	first := &Waiter{Workflow: names[0], Deadline: mono.Never}
	if step, _ := l.Submit(0, first); step != Send {
		t.Fatal("the first request was not sent")
	}
	for _, name := range names {
		l.OnPart(&Waiter{Workflow: name}, parts[name])
	}
	for range n {
		for _, name := range names {
			if step, _ := l.Submit(0, &Waiter{Workflow: name, Deadline: mono.Never}); step != Wait {
				t.Fatal("a request did not wait")
			}
		}
	}
	return l, win, first
}

// sendOn lets k requests go, one after the other, and counts them by workflow.
func sendOn(t *testing.T, l *Wallet, under *Waiter, k int) map[string]int {
	t.Helper()
	sent := map[string]int{}
	for range k {
		l.Return(under, time.Millisecond)
		w, step, _ := l.Next(0)
		if w == nil || step != Send {
			t.Fatalf("%d were sent, and then none", len(sent))
		}
		sent[w.Workflow]++
		under = w
	}
	return sent
}

// TestWaitersGoByTheirParts: credits go to waiting requests in proportion to what the server
// said of their workflows, and in order of arrival where it said nothing.
func TestWaitersGoByTheirParts(t *testing.T) {
	for _, test := range []struct {
		parts map[string]float64
		a, b  int
	}{
		{map[string]float64{"a": 3, "b": 1}, 30, 10},
		{map[string]float64{"a": 0.5, "b": 2}, 8, 32},
		{map[string]float64{"a": 3}, 30, 10}, // one of whom nothing was said has 1
		{nil, 20, 20},
	} {
		l, _, first := queueUp(t, test.parts, 40, "a", "b")
		sent := sendOn(t, l, first, 40)
		if d := sent["a"] - test.a; d < -2 || d > 2 {
			t.Errorf("parts %v: %d of a and %d of b went, want %d and %d", test.parts, sent["a"], sent["b"], test.a, test.b)
		}
	}
}

// TestAWorkflowThatComesBackOwesNothing: one that sent nothing for long is not owed what it did
// not ask for, and one that was alone does not pay for it.
func TestAWorkflowThatComesBackOwesNothing(t *testing.T) {
	l, _, first := queueUp(t, map[string]float64{"a": 1}, 100, "a")
	l.OnPart(&Waiter{Workflow: "b"}, 1)
	l.Return(first, time.Millisecond)
	var under *Waiter
	for range 50 {
		if under != nil {
			l.Return(under, time.Millisecond)
		}
		under, _, _ = l.Next(0)
	}
	for range 20 {
		l.Submit(0, &Waiter{Workflow: "b", Deadline: mono.Never})
	}
	if sent := sendOn(t, l, under, 20); sent["a"] < 9 || sent["a"] > 11 {
		t.Errorf("%v were sent of 20, want ten each", sent)
	}
}

// TestWhoWaitedBeforePartsWereKnownGoesFirst: a server speaks of parts only with its first
// answer. What waits by then is in order of arrival.
func TestWhoWaitedBeforePartsWereKnownGoesFirst(t *testing.T) {
	l, _, first := queueUp(t, nil, 2, "a", "b")
	l.OnPart(first, 3)
	l.Submit(0, &Waiter{Workflow: "a", Deadline: mono.Never})
	var order string
	for under := first; l.Len() > 0; {
		l.Return(under, 0)
		under, _, _ = l.Next(0)
		order += under.Workflow
	}
	if order != "ababa" {
		t.Errorf("sent in the order %s, want ababa", order)
	}
}

// TestLanesAreBounded: however many workflows there are, a wallet keeps so many lanes, and none
// loses a request.
func TestLanesAreBounded(t *testing.T) {
	l, _, first := queueUp(t, map[string]float64{"a": 1}, 1, "a")
	for i := range 3 * maxLanes {
		l.Submit(0, &Waiter{Workflow: strconv.Itoa(i), Deadline: mono.Never})
	}
	if n := len(l.lanes.byName); n > maxLanes+1 {
		t.Errorf("%d lanes, want at most %d", n, maxLanes+1)
	}
	if sent := sendOn(t, l, first, 3*maxLanes+1); len(sent) != 3*maxLanes+1 || l.Len() != 0 {
		t.Errorf("%d workflows were sent and %d wait, want all and none", len(sent), l.Len())
	}
	if lane := l.lanes.of("another"); lane.name != "another" {
		t.Errorf("nothing waits, and another workflow shares the lane %q, want one of its own", lane.name)
	}
	for i := range 3 * maxLanes {
		l.OnPart(&Waiter{Workflow: "x" + strconv.Itoa(i)}, 1)
	}
	if n := len(l.lanes.byName); n > maxLanes+1 {
		t.Errorf("%d lanes after all were served, want at most %d", n, maxLanes+1)
	}
}

// TestLanesHoldWhatWaits: whatever happens, who waits is in the wallet's queue and in a lane or in
// none, expired ones leave, and no lane stays busy in which nothing waits.
func TestLanesHoldWhatWaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, _ := NewWallet(WalletConfig{QueueLimit: rapid.IntRange(1, 20).Draw(t, "limit")})
		win := l.Open()
		l.OnGrant(0, win, wire.Grant{Window: 2, Revive: time.Hour})
		now := mono.Time(0)
		var all []*Waiter
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "ms")) * time.Millisecond)
			var w *Waiter
			if len(all) > 0 {
				w = all[rapid.IntRange(0, len(all)-1).Draw(t, "who")]
			}
			switch op := rapid.IntRange(0, 4).Draw(t, "op"); {
			case op <= 1 || w == nil:
				w = &Waiter{Workflow: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "workflow"), Deadline: now.Add(time.Second)}
				l.Submit(now, w)
				all = append(all, w)
			case op == 2:
				l.Return(w, time.Millisecond)
			case op == 3:
				l.Cancel(w)
			case op == 4:
				l.OnPart(w, float64(rapid.IntRange(0, 4).Draw(t, "part")))
			}
			for {
				w, step, reason := l.Next(now)
				if w == nil {
					break
				}
				if w.lane != nil || w.queued || (step == Send) != (reason == work.None) {
					t.Fatalf("%+v left with %v, %v", w, step, reason)
				}
			}
			waiting, laned := 0, 0
			for w := l.head; w != nil; w = w.next {
				waiting++
				if w.lane != nil {
					laned++
				}
			}
			for _, lane := range l.lanes.busy {
				if lane.head == nil {
					t.Fatalf("lane %q is busy with nothing", lane.name)
				}
				for w := lane.head; w != nil; w = w.laneNext {
					laned--
				}
			}
			if waiting != l.len || laned != 0 {
				t.Fatalf("%d wait, the wallet says %d; %d are in no lane that know one", waiting, l.len, laned)
			}
		}
	})
}
