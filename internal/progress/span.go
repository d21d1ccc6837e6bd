package progress

import (
	"math"
	"math/bits"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// maxCalls is the most calls of one request that are open at once and
	// measured. One more is not measured and counted in Result.Unmeasured.
	maxCalls = 1024
	// MaxParallel is the most processes that are believed to work for one call
	// at the same time: a call's work is at most its wall time times this.
	MaxParallel = 4096
	// MaxWall is the longest time that a Span measures. Its clock stands still
	// after it.
	MaxWall = 24 * time.Hour
)

// Result is what a request took at one process and below. Durations are 0 or
// more.
type Result struct {
	// Service is the time the request takes when it never waits, along its
	// critical path: own service and that of its calls, divided by their
	// parallelism.
	Service time.Duration
	// Work is what this process and all below spent on it together.
	Work time.Duration
	// Own is the part of both that was spent at this process.
	Own time.Duration
	// Waited is the time in waits while no call was open.
	Waited time.Duration
	// Staged is the time with at least one call open, Called the wall time of
	// all calls added up.
	Staged, Called time.Duration
	// Wall is the time from Begin to End.
	Wall time.Duration
	// Stages is the number of times that calls began when none was open.
	Stages int
	// Unmeasured is the number of calls beyond the 1,024 that are measured at once.
	Unmeasured int
}

// DOP returns the degree of parallelism over all stages, 1 or more.
func (r Result) DOP() float64 {
	if r.Called <= r.Staged {
		return 1
	}
	return float64(r.Called) / float64(r.Staged)
}

// CallID names one open call of one Span. The zero CallID is a call that is not
// measured; ending it does nothing.
type CallID uint64

// Span measures one request at one process. The zero Span has not begun, and
// ignores everything but Begin. An instant before the last one counts as that
// one. Every method takes constant time, but Begin after calls that never ended.
// None allocates while no more than four calls are open at once, or once the Span
// has seen as many. A Span is not safe
// for concurrent use.
type Span struct {
	life
	few  [4]slot
	more []slot
}

// life is what a Span forgets when it begins anew.
type life struct {
	began   mono.Time
	last    time.Duration // since began, as all durations here
	running bool
	waits   int

	own, waited time.Duration
	closed      stage // sum over the stages that ended
	work        time.Duration
	stages      int
	unmeasured  int

	// The stage that is open.
	opened time.Duration
	ended  stage         // its calls that ended
	open   int           // its calls that have not
	starts time.Duration // sum of their starts

	used int   // slots ever used in this life
	free int32 // first free slot below used, plus 1; 0: none
}

// stage is what calls added up to.
type stage struct{ service, called, staged time.Duration }

// slot is the place of one open call.
type slot struct {
	start time.Duration
	life  uint32 // odd while a call is open here
	next  int32  // free list, plus 1
}

// Begin starts the measurement, from nothing, whatever the Span did before. A
// CallID of its past ends nothing any more.
func (s *Span) Begin(now mono.Time) {
	if s.open > 0 {
		for i := range s.used {
			p := s.slot(i)
			p.life += p.life & 1
		}
	}
	s.life = life{began: now, running: true}
}

// BeginWait says that the request is kept from being worked on: it is in a
// queue, or waits for a slot, a token or a lock. Waits may be nested and overlap;
// the request waits until the last of them ends. While a call is open, a wait
// costs nothing that the call does not cost already.
func (s *Span) BeginWait(now mono.Time) {
	if s.running {
		s.advance(now)
		s.waits++
	}
}

// EndWait ends one wait. Without a wait it does nothing.
func (s *Span) EndWait(now mono.Time) {
	if s.running && s.waits > 0 {
		s.advance(now)
		s.waits--
	}
}

// CallBegin says that the request calls a service and the call is open from now
// on. Every call that is measured ends with CallEnd.
func (s *Span) CallBegin(now mono.Time) CallID {
	if !s.running {
		return 0
	}
	if s.open == maxCalls {
		s.unmeasured++
		return 0
	}
	s.advance(now)
	if s.open == 0 {
		s.opened = s.last
		s.stages++
	}
	i := s.take()
	p := s.slot(i)
	p.start = s.last
	p.life++
	s.open++
	s.starts += s.last
	return CallID(p.life)<<32 | CallID(i)
}

// CallEnd ends a call and takes what the callee says it took, if reported. A
// callee that refused and did nothing reports zeros. One that said nothing, and
// one that failed on the way, counts with the call's wall time as its service and
// as its work: too much by what it waited, and the best there is.
//
// A callee is not believed beyond what can be: service is at most the call's
// wall time, work at least service and at most MaxParallel times the wall time.
// The second end of a call does nothing.
func (s *Span) CallEnd(now mono.Time, id CallID, service, work time.Duration, reported bool) {
	i, life := int(uint32(id)), uint32(id>>32)
	if !s.running || life&1 == 0 || i >= s.used {
		return
	}
	p := s.slot(i)
	if p.life != life {
		return
	}
	s.advance(now)
	wall := s.last - p.start
	if !reported {
		service, work = wall, wall
	}
	service = min(max(service, 0), wall)
	s.ended.service += service
	s.ended.called += wall
	s.work = add(s.work, min(max(work, service), wall*MaxParallel))

	s.open--
	s.starts -= p.start
	p.life++
	p.next, s.free = s.free, int32(i)+1
	if s.open == 0 {
		s.closed = s.closed.plus(s.ended.close(s.last - s.opened))
		s.ended = stage{}
	}
}

// At returns what End would return now. A call that is open counts as one that
// ends without a report.
func (s *Span) At(now mono.Time) Result {
	end := s.last
	if s.running {
		end = max(end, s.since(now))
	}
	own, waited, closed, work := s.own, s.waited, s.closed, s.work
	switch step := end - s.last; {
	case s.open > 0:
		called := time.Duration(s.open)*end - s.starts
		all := s.ended.plus(stage{service: called, called: called})
		closed = closed.plus(all.close(end - s.opened))
		work = add(work, called)
	case s.waits > 0:
		waited += step
	default:
		own += step
	}
	return Result{
		Service: own + closed.service, Work: add(own, work), Own: own, Waited: waited,
		Staged: closed.staged, Called: closed.called, Wall: end,
		Stages: s.stages, Unmeasured: s.unmeasured,
	}
}

// End ends the measurement. Calls and waits that are open end with it, without a
// report. After it everything but Begin and At does nothing, and both At and End
// return the same again.
func (s *Span) End(now mono.Time) Result {
	r := s.At(now)
	if s.running {
		s.running = false
		s.own, s.waited, s.last = r.Own, r.Waited, r.Wall
	}
	return r
}

// since returns the time from Begin to now, within what a Span measures.
func (s *Span) since(now mono.Time) time.Duration {
	return min(max(now.Sub(s.began), 0), MaxWall)
}

// advance gives the time since the last event to whom it belongs.
func (s *Span) advance(now mono.Time) {
	end := s.since(now)
	if end <= s.last {
		return
	}
	switch step := end - s.last; {
	case s.open > 0: // the stage's, which knows when it was opened
	case s.waits > 0:
		s.waited += step
	default:
		s.own += step
	}
	s.last = end
}

// take returns the number of a free slot. There are fewer than maxCalls taken.
func (s *Span) take() int {
	if s.free != 0 {
		i := int(s.free) - 1
		s.free = s.slot(i).next
		return i
	}
	i := s.used
	s.used++
	if i >= len(s.few)+len(s.more) {
		s.more = append(s.more, slot{})
	}
	return i
}

func (s *Span) slot(i int) *slot {
	if i < len(s.few) {
		return &s.few[i]
	}
	return &s.more[i-len(s.few)]
}

func (a stage) plus(b stage) stage {
	return stage{a.service + b.service, a.called + b.called, a.staged + b.staged}
}

// close returns the stage that took length: its service is now that of the
// critical path, rounded down to a nanosecond.
func (a stage) close(length time.Duration) stage {
	a.staged = length
	if a.called == 0 {
		return a
	}
	// service × length ÷ called, exactly. The quotient fits, because service is
	// at most called.
	hi, lo := bits.Mul64(uint64(a.service), uint64(length))
	q, _ := bits.Div64(hi, lo, uint64(a.called))
	a.service = time.Duration(q)
	return a
}

// add adds what is not negative, and stops at the longest Duration.
func add(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= 0 {
		return sum
	}
	return math.MaxInt64
}
