package httpgate

import (
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// A stopwatch looks at a wait for the first time after a fiftieth of its limit, then each time after as long as the
// wait has taken, and at last looksPerLimit times within its limit: that is how exact it is, and each look costs a
// timer's goroutine of a request that waits anyway.
const (
	firstLook     = 50
	looksPerLimit = 10
)

// timed is what waits for a client.
type timed interface {
	// fire is called when the client was waited for as long as the limit in all, again until it
	// reports that it did what it is for.
	fire() bool
	// long is called in each wait that has taken a fiftieth of the limit, and with each look
	// from then on until fire did what it is for; last says that it has taken a tenth, and that after fire no look
	// follows. It may have fire called before the limit.
	long(last bool) bool
}

// stopwatch adds up how long a handler waits for its client, and has another goroutine look at
// a wait that goes on. begin and end are called by one goroutine at a time.
type stopwatch struct {
	limit time.Duration
	of    timed

	timer  *time.Timer
	fired  bool         // of look
	armed  atomic.Bool  // a look will come, or none is needed any more
	since  atomic.Int64 // mono.Time; the wait under way began, 0: there is none
	waited atomic.Int64 // time.Duration, in the waits before
}

// start makes the stopwatch ready. A limit that is not above 0 is never reached.
func (s *stopwatch) start(limit time.Duration, of timed) {
	s.limit, s.of = limit, of
	if limit > 0 {
		s.timer = time.AfterFunc(time.Hour, s.look)
		s.timer.Stop()
	}
}

// look fires if it is time, else it looks again for as long as the wait goes on.
func (s *stopwatch) look() {
	since := s.since.Load()
	if since == 0 {
		s.disarm(since)
		return
	}
	now := live.Now().Sub(mono.Time(since))
	over := time.Duration(s.waited.Load())+now >= s.limit
	last := now >= s.limit/looksPerLimit
	if now >= s.limit/firstLook && s.of.long(last) {
		over = true
	}
	if over && !s.fired {
		s.fired = s.of.fire()
	}
	if s.fired && last {
		s.disarm(since)
		return
	}
	s.timer.Reset(s.next(now))
}

// next is the time until the next look at a wait that has taken so long.
func (s *stopwatch) next(waited time.Duration) time.Duration {
	return max(min(max(waited, s.limit/firstLook), s.limit/looksPerLimit), time.Millisecond)
}

func (s *stopwatch) arm() {
	if s.timer != nil && !s.armed.Swap(true) {
		s.timer.Reset(s.next(0))
	}
}

// disarm ends the looks at the wait that began at since; the next one is looked at, also if it
// has begun meanwhile and saw that a look would come.
func (s *stopwatch) disarm(since int64) {
	s.armed.Store(false)
	if next := s.since.Load(); next != since && next != 0 {
		s.arm()
	}
}

func (s *stopwatch) begin(now mono.Time) {
	s.since.Store(int64(now))
	if !s.armed.Load() {
		s.arm()
	}
}

func (s *stopwatch) end(now mono.Time) {
	s.waited.Add(int64(now.Sub(mono.Time(s.since.Swap(0)))))
}

// stop ends all looks, but for one that has begun.
func (s *stopwatch) stop() {
	if s.timer != nil {
		s.armed.Store(true)
		s.timer.Stop()
	}
}
