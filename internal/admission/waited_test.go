package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// What a request waited at its client is part of its objective: with one slot taken
// and nothing else known, it may wait here for as much less.
func TestWaitAtTheClientCounts(t *testing.T) {
	start := mono.Time(time.Hour)
	ends := func(waited time.Duration) time.Duration {
		g := fixed(t, 1)
		first := &Ticket{}
		first.Deadline = mono.Never
		g.Arrive(start, first)
		second := &Ticket{Waited: waited}
		second.Deadline = mono.Never
		if v := g.Arrive(start, second); v != Wait {
			t.Fatalf("the second request: %v, want wait", v)
		}
		return g.staleAt(second).Sub(start)
	}
	if fresh, old := ends(0), ends(30*time.Millisecond); fresh-old != 30*time.Millisecond {
		t.Errorf("a fresh request may wait %v, one that waited 30ms already %v, want 30ms less", fresh, old)
	}
}
