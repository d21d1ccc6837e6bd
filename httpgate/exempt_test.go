package httpgate

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// Beside a gate without a free slot, exempt requests that come at once go on one after another, and none is refused: else a
// flood of health checks would be work for the server that no limit counts.
func TestManyExemptRequestsGoOnInTurn(t *testing.T) {
	const many = 100
	gate := newGate(t, oneSlot(), nil)
	held, err := gate.Enter(t.Context(), live.Request{})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var entered []time.Time
	release := make(chan struct{})
	s := serve(t, Handler(gate, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		entered = append(entered, time.Now())
		mu.Unlock()
		<-release
	})))
	rt := base(t, 1)
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			resp, err := (&http.Client{Transport: rt}).Get(s.url + "/healthz")
			if err != nil {
				t.Error(err)
				return
			}
			if resp.Body.Close(); resp.StatusCode != http.StatusOK {
				t.Errorf("%s", resp.Status)
			}
		})
	}
	eventually(t, "all to reach the handler", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(entered) == many
	})
	if took := entered[many-1].Sub(entered[0]); took < many/2*time.Millisecond {
		t.Errorf("%d entered within %v, expected at least a millisecond for each", many, took)
	}
	close(release)
	await.All(t, &all, "the clients to end")
	held.Leave(work.Ignored)
	eventually(t, "none to be in line or on its way", func() bool {
		line := &s.Server.Handler.(*handler).only.exempted
		line.mu.Lock()
		defer line.mu.Unlock()
		return line.out == 0 && len(line.order)+len(line.lines) == 0
	})
}

// One whose client leaves while it waits leaves the line.
func TestAnExemptRequestWhoseClientLeaves(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	seen := make(chan struct{}, 2)
	s := serve(t, Handler(gate, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen <- struct{}{} })))
	line := &s.Server.Handler.(*handler).only.exempted
	line.mu.Lock()
	line.out = 1 // nobody may go
	line.mu.Unlock()
	waits := func() int {
		line.mu.Lock()
		defer line.mu.Unlock()
		return len(line.order)
	}
	c, _ := raw(t, s)
	if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it to stand in line", func() bool { return waits() == 1 })
	c.Close()
	eventually(t, "it to leave the line", func() bool { return waits() == 0 })
	line.begun(gate)
	if resp, err := (&http.Client{Transport: base(t, 1)}).Get(s.url + "/healthz"); err != nil || resp.StatusCode != http.StatusOK {
		t.Error(resp, err)
	} else {
		resp.Body.Close()
	}
	if len(seen) != 1 {
		t.Errorf("the handler saw %d requests, expected the one whose client waited", len(seen))
	}
}
