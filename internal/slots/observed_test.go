package slots

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// TestObserved: a gate that only observes lets every request begin. A trial with fewer then tells nothing, and ends all the
// same: while its limit was waited for, half of the requests to a service with room for all were said to be refused for good.
func TestObserved(t *testing.T) {
	const objective, took, n = 100 * time.Millisecond, 50 * time.Millisecond, 40
	for _, initial := range []int{20, 30, 50} {
		l, err := New(Config{Slack: objective / 10, Initial: initial})
		if err != nil {
			t.Fatal(err)
		}
		now := mono.Time(1)
		var inside []event
		for range n {
			inside = append(inside, event{started: now, place: l.Acquire(now)})
			now = now.Add(took / n)
		}
		below := 0
		for i := range 8000 {
			l.Release(now, inside[0].started, inside[0].place, true)
			inside = append(inside[1:], event{started: now, place: l.Acquire(now)})
			now = now.Add(took / n)
			if i >= 4000 && l.Limit() < n {
				below++
			}
		}
		if below > 800 {
			t.Errorf("from %d on: the limit is below the %d that run for %d of 4000 ends, and %d at last", initial, n, below, l.Limit())
		}
	}
}
