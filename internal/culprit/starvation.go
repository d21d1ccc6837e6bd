package culprit

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Starvation tells sources for how long other programs had the processors that tasks needed. Of what a task says that it waited for one, others
// are to blame for their part of what was used. A server that lacks processors tells late what its tasks did, and some tell nothing: of time of which a
// task has told nothing, others are taken to be to blame for their part of the processors, or may be, if it never tells of processors. The zero value is ready; it is for one goroutine.
type Starvation struct {
	at    mono.Time // of the look before
	look  uint64
	tasks map[uint64]account

	told, lack []time.Duration // by task of a sample
	tells      []bool          // by task: of processors
}

// mostStarving is the largest part of its time for which a task is taken to starve that tells nothing: what is ready to run gets its turn. Requests of a node
// of OpenSearch lacked a processor for up to 0.87 of theirs, at a load of 45 on two processors.
const mostStarving = 0.9

// mostTold bounds what is believed of a task and one resource: whatever a file says, the sums of all resources stay numbers.
const mostTold = 1 << 20 * time.Second

// account is what is known of a task.
type account struct {
	told   time.Duration // what the task said that it did, or waited for, as of the last look
	lack   time.Duration // of it: waited for a processor
	silent time.Duration // time of which the task has told nothing
	sum    time.Duration // Task.Starved
	may    time.Duration // Task.MayStarve
	look   uint64
}

// Enter fills in Taken of a sample, and Starved and MayStarve of its tasks. Of the machine's processors others took the part taken since the look before, and
// the part share of what was used of them; processor is the resource's index, -1 if the server has none. most is the largest part of that time for which
// any task can have lacked a processor, 1 if that is not known.
func (s *Starvation) Enter(sample *Sample, processor int, taken, share, most float64) {
	if s.tasks == nil {
		s.tasks = map[uint64]account{}
	}
	s.look++
	sample.Taken = taken
	taken = min(taken, most)
	s.told, s.lack = resized(s.told, len(sample.Tasks)), resized(s.lack, len(sample.Tasks))
	s.tells = resized(s.tells, len(sample.Tasks))
	for i := range sample.Holds {
		h := &sample.Holds[i]
		waited := h.WaitTime
		if h.WaitingSince != Unset {
			waited += sample.At.Sub(h.WaitingSince)
		}
		waited = min(waited, mostTold)
		s.told[h.Task] += waited
		if int(h.Resource) == processor {
			s.told[h.Task] += time.Duration(min(h.Gets, uint64(mostTold)))
			s.lack[h.Task], s.tells[h.Task] = waited, true
		}
	}
	for i := range sample.Tasks {
		t := &sample.Tasks[i]
		a, known := s.tasks[t.ID]
		since := s.at
		if !known {
			since = t.Started
		}
		a.add(sample.At.Sub(max(since, t.Started)), s.told[i], s.lack[i], taken, share, s.tells[i])
		a.look = s.look
		age := sample.At.Sub(t.Started)
		a.sum = min(max(a.sum, 0), age)
		a.may = min(max(a.may, 0), age-a.sum)
		t.Starved, t.MayStarve = a.sum, a.may
		s.tasks[t.ID] = a
	}
	for id, a := range s.tasks { //lint:ordered each is forgotten or not by itself
		if a.look != s.look {
			delete(s.tasks, id)
		}
	}
	s.at = sample.At
}

// add enters the time since the last look.
func (a *account) add(span, told, lack time.Duration, taken, share float64, tells bool) {
	silent := span - (told - a.told)
	a.sum += time.Duration(share * float64(max(lack-a.lack, 0)))
	if silent < 0 { // it tells now what was not known before
		silent = -min(-silent, a.silent)
	}
	a.silent += silent
	to := &a.sum
	if !tells {
		to, taken = &a.may, min(taken, mostStarving)
	}
	*to += time.Duration(taken * float64(silent))
	a.told, a.lack = told, lack
}
