package slots

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// The long requests of a burst end when it is over, later than their callers wait. A window of nothing else is no work in
// vain: the limit fell to 1, and the next burst was refused.
func TestLongRequestsBehindABurst(t *testing.T) {
	const ms = time.Millisecond
	l, err := New(Config{Slack: 20 * ms})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(time.Hour)
	short := func(n int) {
		for range n {
			place := l.Acquire(now)
			began := now
			now = now.Add(5 * ms)
			l.Release(now, began, place, true)
		}
	}
	short(100)
	var long [10]Place
	burst := now
	for i := range long {
		long[i] = l.Acquire(now)
	}
	for short(1); l.window.done > 0; short(1) { // a window ends; the long ones began before the next
	}
	before := l.Limit()
	for i := range long {
		now = max(now, burst.Add(200*ms+time.Duration(i)*ms))
		l.Release(now, burst, long[i], false)
	}
	if l.Limit() < before/2 {
		t.Errorf("the limit is %d, before these were given up it was %d", l.Limit(), before)
	}
}
