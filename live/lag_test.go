package live

import (
	"testing"

	"github.com/spillgate/spillgate/work"
)

// TestLagIsMeasured: a byte goes round while requests come, and what it took
// reaches the policy.
func TestLagIsMeasured(t *testing.T) {
	g := newGate(t, 1, GateConfig{})
	if d := g.Lag(Now()); d != 0 {
		t.Errorf("lag %v before WatchNetwork, want 0", d)
	}
	g.WatchNetwork()
	g.WatchNetwork()
	until(t, "a measurement", func() bool {
		enter(t, g, Request{}).Leave(work.Done)
		return g.Lag(Now()) > 0
	})
	g.Close()
	g.WatchNetwork() // nothing starts any more
	if g.Arrive(Request{}).Wait(t.Context()) == nil {
		t.Error("a closed gate admitted a request")
	}
}
