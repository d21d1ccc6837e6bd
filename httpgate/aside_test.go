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
	come := func(turn chan struct{}) bool {
		select {
		case <-turn:
			return true
		default:
			return false
		}
	}
	var turns []chan struct{}
	for range 8 {
		turns = append(turns, a.enter(g))
	}
	count := func() (n int) {
		for _, turn := range turns {
			if come(turn) {
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
	if a.begun(g); count() != 5 || !come(turns[5]) {
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
	if a.begun(g); count() != 7 || len(a.line) != 0 || a.out != 1 {
		t.Errorf("%d went, %d wait, %d are on their way", count(), len(a.line), a.out)
	}
}

// A request that waits for its turn after its client has stopped asks for a slot with its whole body, if the end of that
// comes; and goes on after a while if nothing comes.
func TestThoseThatStopped(t *testing.T) {
	for _, goesOn := range []bool{true, false} {
		hold := time.Hour
		if !goesOn {
			hold = 200 * time.Millisecond
		}
		s, gate, seen := inUse(t, HoldStreams(hold), Patient(Patience{Blocked: 5 * time.Millisecond}))
		target := s.Server.Handler.(*handler).only
		target.aside.mu.Lock()
		target.aside.out = busyShare // nobody may go
		target.aside.mu.Unlock()
		c, br := raw(t, s)
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
		eventually(t, "it to stand in line", func() bool {
			target.aside.mu.Lock()
			defer target.aside.mu.Unlock()
			return len(target.aside.line) == 1 || !goesOn && seen.Load() == 1
		})
		if goesOn && (seen.Load() != 0 || gate.running() != 1) {
			t.Errorf("it has a slot before its turn: %d run", gate.running())
		}
		if !goesOn {
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
		target.aside.mu.Lock()
		if n, out := len(target.aside.line), target.aside.out; n != 0 || out != busyShare {
			t.Errorf("goes on %v: %d are left in line, %d on their way", goesOn, n, out)
		}
		target.aside.mu.Unlock()
	}
}
