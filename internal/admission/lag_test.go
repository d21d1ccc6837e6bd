package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// TestLagCountsOnce: what a request waits in a socket before it is seen is three quarters
// of the lag, once, in its age and in what it is told to wait, unless the driver knows when
// it arrived; and none once the lag is not known any more. For the credits the lag counts
// on the way in, where the age of the oldest has it already, and on the way out.
func TestLagCountsOnce(t *testing.T) {
	const lag = 8 * ms
	g := fixed(t, 1)
	now := at(time.Second)
	enter := func(arrived mono.Time) *Ticket {
		k := &Ticket{Arrived: arrived}
		k.Deadline = mono.Never
		g.Arrive(now, k)
		return k
	}
	delay := func(want time.Duration) {
		t.Helper()
		if got := g.Delay(now); got != want {
			t.Errorf("delay %v, want %v", got, want)
		}
	}
	delay(0)
	g.OnLag(now, lag)
	delay(2 * lag) // nobody waits
	for _, tt := range []struct {
		arrived mono.Time
		want    time.Duration
	}{{0, lag * 3 / 4}, {now.Add(-ms), ms}, {now, 0}} {
		queue := g.Expect(now)
		k := enter(tt.arrived)
		if got := now.Sub(k.Arrived); got != tt.want {
			t.Errorf("a request that arrived at %v: %v ago, want %v", tt.arrived, got, tt.want)
		}
		if got := k.promised - queue; k.state == waiting && got != tt.want {
			t.Errorf("a request that arrived at %v is told to wait %v beyond the queue, want %v", tt.arrived, got, tt.want)
		}
	}
	oldest := g.queue.Oldest().Arrived
	delay(2 * lag) // the oldest is younger than the lag is long
	now = oldest.Add(20 * ms)
	g.OnLag(now, lag)
	delay(20*ms + lag)
	now = now.Add(time.Second)
	if k := enter(0); k.Arrived != now {
		t.Errorf("a second after the last lag a request arrived %v ago, want now", now.Sub(k.Arrived))
	}
	delay(now.Sub(oldest))
}
