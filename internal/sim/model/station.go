package model

import "github.com/spillgate/spillgate/internal/mono"

// station is what hides behind the door: cores with a first-in, first-out queue
// of their own. Messages go before requests and, like them, are not interrupted.
type station struct {
	cores    []core
	idle     []int32 // stack
	messages ring
	queue    ring
	speed    float64
	executed int // requests in the queue or on a core
}

type core struct {
	job   job
	began mono.Time
	since mono.Time // left holds as of then
	run   int32     // tells the event of this run from older ones
	busy  bool
}

// job is something a core does: left nanoseconds of work at nominal speed.
type job struct {
	kind jobKind
	who  int32 // request or message
	left float64
}

type jobKind uint8

const (
	execute jobKind = iota // a request, then its answer
	refuse                 // receiving a request and refusing it
	sendGrant
	takeDemand
)

// newStation returns idle cores at nominal speed. Runs count from first, so that
// events of an earlier station are recognized.
func newStation(cores int, first int32) station {
	s := station{cores: make([]core, cores), speed: 1}
	for i := range cores {
		s.cores[i].run = first
		s.idle = append(s.idle, int32(cores-1-i))
	}
	return s
}

// add takes a job. It returns the core that started with it, or -1 if it waits.
func (s *station) add(now mono.Time, j job) int32 {
	if j.kind == execute {
		s.executed++
	}
	if len(s.idle) == 0 {
		if j.kind == execute {
			s.queue.push(j)
		} else {
			s.messages.push(j)
		}
		return -1
	}
	c := s.idle[len(s.idle)-1]
	s.idle = s.idle[:len(s.idle)-1]
	s.start(now, c, j)
	return c
}

func (s *station) start(now mono.Time, c int32, j job) {
	s.cores[c].job, s.cores[c].began, s.cores[c].since, s.cores[c].busy = j, now, now, true
	s.cores[c].run++
}

// finish ends the job of a core and starts the next; more is whether there was
// one.
func (s *station) finish(now mono.Time, c int32) (ended job, more bool) {
	ended = s.cores[c].job
	if ended.kind == execute {
		s.executed--
	}
	s.cores[c].busy = false
	switch {
	case s.messages.len() > 0:
		s.start(now, c, s.messages.pop())
	case s.queue.len() > 0:
		s.start(now, c, s.queue.pop())
	default:
		s.idle = append(s.idle, c)
		return ended, false
	}
	return ended, true
}

// ends returns when a busy core will be done at the present speed.
func (s *station) ends(c int32) mono.Time {
	k := &s.cores[c]
	return k.since.Add(durationOf(k.job.left / s.speed))
}

// setSpeed changes the speed of all cores; jobs under way keep what they have
// done. Every busy core's end moves.
func (s *station) setSpeed(now mono.Time, speed float64) {
	for i := range s.cores {
		if k := &s.cores[i]; k.busy {
			k.job.left = max(k.job.left-float64(now.Sub(k.since))*s.speed, 0)
			k.since = now
			k.run++
		}
	}
	s.speed = speed
}

// ring is a queue of jobs.
type ring struct {
	buf  []job
	head int
}

func (r *ring) len() int { return len(r.buf) - r.head }

func (r *ring) push(j job) { r.buf = append(r.buf, j) }

func (r *ring) pop() job {
	j := r.buf[r.head]
	r.head++
	if r.head > 64 && r.head*2 > len(r.buf) {
		n := copy(r.buf, r.buf[r.head:])
		r.buf, r.head = r.buf[:n], 0
	}
	return j
}
