package httpgate

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/live"
)

// TestStopwatchIsOverAtOnce: a limit so short that it is over before start returns fires all
// the same, once a wait has been as long.
func TestStopwatchIsOverAtOnce(t *testing.T) {
	for range 1000 {
		fired := make(chan struct{})
		var s stopwatch
		s.begin(live.Now().Add(-time.Second))
		s.start(1, func() { close(fired) })
		<-fired
		s.stop()
	}
	var s stopwatch
	early := make(chan struct{}, 1)
	s.start(1, func() { early <- struct{}{} })
	time.Sleep(5 * time.Millisecond) // it looks, and nobody has waited
	s.stop()
	if len(early) > 0 {
		t.Error("it fired although the handler has not waited")
	}
}
