package httpgate

import (
	"context"
	"net/http"
	"net/http/httptest"
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
		line := &s.Server.Handler.(*handler).only.probes
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
	line := &s.Server.Handler.(*handler).only.probes
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

// A health check waits behind no long polls: thousands of them come back at once when a service starts.
func TestHealthChecksWaitForNoLongPolls(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ExemptPaths("/polls/")))
	line := &s.Server.Handler.(*handler).only.exempted
	line.mu.Lock()
	line.out = 1 // nobody may go
	line.mu.Unlock()
	c, _ := raw(t, s)
	if _, err := c.Write([]byte("GET /polls/1 HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the poll to stand in line", func() bool {
		line.mu.Lock()
		defer line.mu.Unlock()
		return len(line.order) == 1
	})
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	rt := base(t, 1)
	for _, path := range ProbePaths() {
		r, _ := http.NewRequestWithContext(ctx, "GET", s.url+path, nil)
		resp, err := rt.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		resp.Body.Close()
	}
	line.begun(gate)
}

// Also where requests take seconds each, one that is exempt keeps others in line for a moment at most.
func TestTurnsOfExemptRequestsAreShort(t *testing.T) {
	for _, tt := range []struct{ service, objective, want time.Duration }{
		{0, time.Second, time.Millisecond}, {20 * time.Millisecond, time.Second, 20 * time.Millisecond},
		{20 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond}, {5 * time.Second, time.Minute, beginsWithin},
	} {
		if got := turnOf(live.Stats{Service: tt.service, Objective: tt.objective}); got != tt.want {
			t.Errorf("service %v, objective %v: %v, expected %v", tt.service, tt.objective, got, tt.want)
		}
	}
}

// Behind one that waits, turns are a tenth as long, until one is over within a whole turn.
func TestTurnsBehindLongPolls(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	var a aside
	pass := func() func() {
		done, ok := a.pass(t.Context(), gate, 1)
		if !ok {
			t.Fatal("no turn came")
		}
		return done
	}
	poll := pass()
	eventually(t, "the poll to wait", a.waits.Load)
	poll()
	if !a.waits.Load() {
		t.Error("a poll that has ended says that others do not wait")
	}
	for {
		began := live.Now()
		done := pass()
		if done(); live.Now().Sub(began) < turnOf(gate.Stats()) {
			break // else the machine is slow
		}
	}
	if a.waits.Load() {
		t.Error("one that was over at once waits")
	}
}

// noted is a response writer that notes deadlines.
type noted struct {
	http.ResponseWriter
	set int
}

func (n *noted) SetWriteDeadline(time.Time) error {
	n.set++
	return nil
}

// A stream of HTTP/2 that has ended gets no deadline: net/http would keep what is left of it until then, and reset it once more.
func TestStreamsThatEndedGetNoDeadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	r.ProtoMajor = 2
	w := &noted{}
	var o options
	if o.leaves(w, r); w.set != 1 {
		t.Errorf("%d deadlines of a stream that is open, expected one", w.set)
	}
	cancel()
	if o.leaves(w, r); w.set != 1 {
		t.Error("a stream that has ended gets a deadline")
	}
}
