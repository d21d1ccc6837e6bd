package httpgate

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// Of those that stopped, half as many go on at once as there are slots free, and one where there is none.
func TestAside(t *testing.T) {
	g := newGate(t, few(8), nil)
	var a aside
	var turns []*place
	for range 8 {
		turns = append(turns, a.enter(g, 1))
	}
	count := func() (n int) {
		for _, turn := range turns {
			if came(turn) {
				n++
			}
		}
		return n
	}
	if n := count(); n != 4 {
		t.Errorf("%d of 8 went, expected 4", n)
	}
	if a.quit(turns[0]) || !a.quit(turns[4]) {
		t.Error("one that went left the line, or one in it did not")
	}
	if a.begun(g); count() != 5 || !came(turns[5]) {
		t.Errorf("after one has begun %d went, expected the next in line", count())
	}
	tickets := make([]live.Ticket, 8)
	for i := range tickets {
		if err := g.Admit(context.Background(), live.Request{}, &tickets[i]); err != nil {
			t.Fatal(err)
		}
		defer tickets[i].Leave(work.Ignored)
	}
	for range 3 {
		a.begun(g)
	}
	if n := count(); n != 5 {
		t.Errorf("without a free slot, and with one on its way, %d went, expected 5", n)
	}
	if a.begun(g); count() != 6 {
		t.Errorf("without a free slot, and with none on its way, %d went, expected 6", count())
	}
	if a.begun(g); count() != 7 || len(a.order)+len(a.lines) != 0 || a.out != 1 {
		t.Errorf("%d went, of %d senders some wait, %d are on their way", count(), len(a.order), a.out)
	}
}

func came(turn *place) bool {
	select {
	case <-turn.come:
		return true
	default:
		return false
	}
}

// A sender with many requests in line is no reason for that of another one to wait for more than one of them.
func TestSendersTakeTurnsAside(t *testing.T) {
	g := newGate(t, few(1), nil)
	var a aside
	var many []*place
	for range 100 {
		many = append(many, a.enter(g, 1))
	}
	one, left := a.enter(g, 2), a.enter(g, 3)
	if !a.quit(left) || a.quit(many[0]) {
		t.Error("one that waits left no line, or one that went did")
	}
	a.begun(g)
	a.begun(g)
	if !came(one) || came(many[2]) {
		t.Error("after two turns that of another sender has not come")
	}
	for range 98 {
		a.begun(g)
	}
	if !came(many[99]) || len(a.order)+len(a.lines) != 0 {
		t.Errorf("%d senders are left in line", len(a.order))
	}
}

// A request that waits for its turn after its client has stopped asks for a slot with its whole body, if the end of that
// comes; and goes on in its turn if nothing comes, however long that takes.
func TestThoseThatStopped(t *testing.T) {
	for _, goesOn := range []bool{true, false} {
		hold := time.Hour
		if !goesOn {
			hold = 50 * time.Millisecond
		}
		s, gate, seen := inUse(t, HoldStreams(hold), Patient(Patience{Blocked: 5 * time.Millisecond}))
		target := s.Server.Handler.(*handler).only
		aside := &target.stopped
		waits := func() int {
			aside.mu.Lock()
			defer aside.mu.Unlock()
			return len(aside.order)
		}
		aside.mu.Lock()
		aside.out = busyShare // nobody may go
		aside.mu.Unlock()
		c, br := raw(t, s)
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
		eventually(t, "it to stand in line", func() bool { return waits() == 1 })
		if !goesOn {
			time.Sleep(2 * hold)
		}
		if seen.Load() != 0 || gate.running() != 1 {
			t.Errorf("it has a slot before its turn: %d run", gate.running())
		}
		if !goesOn {
			for range busyShare {
				aside.begun(target.gate)
			}
			eventually(t, "the handler to see it", func() bool { return seen.Load() == 1 })
		}
		fmt.Fprint(c, "2\r\nyz\r\n0\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(b) != fmt.Sprint(int64(3), nil) {
			t.Errorf("goes on %v: %s %q", goesOn, resp.Status, b)
		}
		left := 0
		if goesOn {
			left = busyShare
		}
		eventually(t, "none to be in line or on its way", func() bool {
			aside.mu.Lock()
			defer aside.mu.Unlock()
			return len(aside.order) == 0 && aside.out == left
		})
	}
}
