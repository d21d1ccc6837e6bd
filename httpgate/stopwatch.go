package httpgate

import (
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// stopwatch adds up how long a handler waits for its client, and calls fire from another
// goroutine when that has been long enough, once. begin and end are called by one goroutine
// at a time.
type stopwatch struct {
	limit time.Duration
	fire  func()

	timer  *time.Timer
	since  atomic.Int64 // mono.Time; the wait under way began, 0: there is none
	waited atomic.Int64 // time.Duration, in the waits before
}

// start makes the stopwatch ready. A limit that is not above 0 is never reached.
func (s *stopwatch) start(limit time.Duration, fire func()) {
	s.limit, s.fire = limit, fire
	if limit > 0 {
		s.timer = time.AfterFunc(time.Hour, s.look) // look needs the timer: it must not run before that is known
		s.timer.Reset(limit)
	}
}

// look fires if it is time, else it looks again.
func (s *stopwatch) look() {
	waited := time.Duration(s.waited.Load())
	if since := s.since.Load(); since != 0 {
		waited += live.Now().Sub(mono.Time(since))
	}
	if rest := s.limit - waited; rest > 0 {
		s.timer.Reset(max(rest, time.Millisecond))
		return
	}
	s.fire()
}

func (s *stopwatch) begin(now mono.Time) { s.since.Store(int64(now)) }

func (s *stopwatch) end(now mono.Time) {
	s.waited.Add(int64(now.Sub(mono.Time(s.since.Swap(0)))))
}

func (s *stopwatch) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}
