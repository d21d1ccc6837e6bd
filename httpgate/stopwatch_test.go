package httpgate

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
)

// watched is what a test times.
type watched struct{ fires, longs func() bool }

func (w watched) fire() bool     { return w.fires() }
func (w watched) long(bool) bool { return w.longs != nil && w.longs() }

// TestStopwatchIsOverAtOnce: a limit so short that it is over before anybody looks fires all
// the same, once a wait has been as long, and again until what it is for was done.
func TestStopwatchIsOverAtOnce(t *testing.T) {
	for range 1000 {
		fired := make(chan struct{})
		var s stopwatch
		n := 0
		s.start(1, watched{fires: func() bool {
			if n++; n == 3 {
				close(fired)
			}
			return n == 3
		}})
		s.begin(live.Now().Add(-time.Second))
		await.Value(t, fired, "the stopwatch to fire")
		s.stop()
	}
	var s stopwatch
	early := make(chan struct{}, 1)
	s.start(1, watched{fires: func() bool { early <- struct{}{}; return true }})
	now := live.Now()
	s.begin(now)
	s.end(now)
	time.Sleep(5 * time.Millisecond) // it looks, and the handler has waited for nothing
	s.stop()
	if len(early) > 0 {
		t.Error("it fired although the handler has not waited")
	}
}

// TestStopwatchLooksAtOneWait: a wait that goes on may be over before the limit.
func TestStopwatchLooksAtOneWait(t *testing.T) {
	var s stopwatch
	fired, looked := make(chan struct{}), 0
	s.start(time.Second, watched{func() bool { close(fired); return true }, func() bool { looked++; return looked == 3 }})
	defer s.stop()
	s.begin(live.Now())
	await.Value(t, fired, "the stopwatch to fire")
	if looked == 0 {
		t.Error("it fired without a look")
	}
}
