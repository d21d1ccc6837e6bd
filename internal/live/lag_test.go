package live

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// TestLagIsMeasured: a byte goes round while requests come, and what it took
// reaches the policy.
func TestLagIsMeasured(t *testing.T) {
	g := newGate(t, 1, GateConfig{})
	if d := g.Stats().Lag; d != 0 {
		t.Errorf("lag %v before WatchNetwork, want 0", d)
	}
	g.WatchNetwork()
	g.WatchNetwork()
	until(t, "a measurement", func() bool {
		enter(t, g, Request{}).Leave(work.Done)
		return g.Stats().Lag > 0
	})
	g.Close()
	g.WatchNetwork() // nothing starts any more
	var ticket Ticket
	if g.arrive(Now(), &Request{}, &ticket, nil); ticket.wait(t.Context()) == nil {
		t.Error("a closed gate admitted a request")
	}
}

func TestLagUnderWay(t *testing.T) {
	var none *lag
	if d := none.underWay(1e9); d != 0 {
		t.Errorf("without a lag: %v", d)
	}
	l := &lag{}
	l.last.Store(50)
	if d := l.underWay(1e9); d != 0 {
		t.Errorf("nothing is under way: %v, want 0", d)
	}
	l.sent.Store(100)
	for now, want := range map[mono.Time]time.Duration{120: 0, 150: 0, 151: 51, 1100: 1000} {
		if d := l.underWay(now); d != want {
			t.Errorf("at %d: %v, want %v: only what is longer than the last one is news", now, d, want)
		}
	}
}

// A measurement that is not in yet counts for what it has taken so far, at every
// call that could move the pool.
func TestGateKnowsOfALagUnderWay(t *testing.T) {
	g := newGate(t, 0, GateConfig{Config: admission.Config{Objective: 100 * time.Millisecond}})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := &lag{r: r, w: w, done: make(chan struct{})}
	l.gap.Store(int64(time.Hour))
	close(l.done) // nobody reads, so the byte stays under way
	g.lag.Store(l)
	ticket, err := g.Enter(context.Background(), Request{})
	if err != nil {
		t.Fatal(err)
	}
	var other Ticket
	calls := map[string]func(){
		"Arrive":  func() { g.arrive(Now(), &Request{}, &other, nil); other.Leave(work.Ignored) },
		"Leave":   func() { ticket.Leave(work.Done) },
		"a timer": g.onTimer,
	}
	for name, call := range calls {
		g.mu.Lock()
		g.node.OnLag(Now(), 0)
		g.mu.Unlock()
		l.sent.Store(int64(Now().Add(-10 * time.Second)))
		call()
		if d := g.Stats().Delay; d < 10*time.Second {
			t.Errorf("after %s the delay is %v, want the 10s for which a byte is under way", name, d)
		}
		l.sent.Store(0)
	}
}
