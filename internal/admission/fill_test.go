package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// TestFillBesideAShortLag: a calm gate with free slots gives the clients that wait as many credits as it has slots, also
// where messages wait for some microseconds, as they do in every process that measures it.
func TestFillBesideAShortLag(t *testing.T) {
	for _, tt := range []struct {
		lag  time.Duration
		full bool
	}{{0, true}, {20 * time.Microsecond, true}, {200 * time.Microsecond, true}, {10 * time.Millisecond, false}} {
		g, err := New(Config{Objective: 100 * ms})
		if err != nil {
			t.Fatal(err)
		}
		now := at(time.Second)
		c := g.Pool().Register(now)
		for range 12 { // intervals
			for range 4 {
				g.OnLag(now, tt.lag)
				k := &Ticket{Client: c, Arrived: now}
				k.Deadline, k.Demand = mono.Never, 60
				g.Arrive(now, k)
				now = now.Add(100 * time.Microsecond)
				g.Leave(now, k, work.Done)
				g.Reply(now, k)
			}
			now = now.Add(g.Pool().Interval())
			g.OnLag(now, tt.lag)
			g.OnWake(now)
		}
		if credits, slots := g.Pool().Total(), g.Slots().Limit(); (credits >= slots) != tt.full {
			t.Errorf("lag %v: %d credits and %d free slots; as many credits: want %v", tt.lag, credits, slots, tt.full)
		}
	}
}
