package live

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// Traced is what a tracer records of a request.
type Traced interface{ End() }

// Tracing has what handlers hold and wait for recorded, request by request.
type Tracing struct {
	// Engine reads what is recorded. The gate is the only one that uses it.
	Engine *taskfile.Engine
	// Begin begins to record a request, in a task of the file that has the key and is
	// background work to the file; the gate knows how the request fares. It returns nil if there is no room. It may be called by several
	// goroutines at once.
	Begin func(key uint64) Traced
	// Units, if not nil, returns how many units a queue of some name has, 0 if that is not known. It may be called by several
	// goroutines at once.
	Units func(queue string) uint64
}

// Trace has the gate know the resources that handlers contend for. It is called once,
// before requests come; stop ends it, before the engine is closed. A gate that looks for
// no culprits has no use for it: that, and a second call, are errors.
func (g *Gate) Trace(tracing Tracing) (stop func(), err error) {
	f := g.finder
	if f == nil {
		return nil, errors.New("live: the gate's Culprit.Mode is off, so there is nothing to trace for: expected monitor or enforce")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file.engine != nil {
		return nil, errors.New("live: the gate has a tracer already; expected one for all handlers behind it")
	}
	f.file.engine, f.file.units = tracing.Engine, tracing.Units
	f.file.shift = int64(Now()) - int64(tracing.Engine.Now())
	f.file.place, f.file.pairs = map[uint64]int32{}, map[[2]int32]int{}
	g.tracing.Store(&tracing)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		g.tracing.Store(nil)
		f.file.engine = nil
	}, nil
}

// Traced returns what records the request of t, nil if nothing does. Recording begins with
// the first call, and ends with Leave.
func (t *Ticket) Traced() Traced {
	tracing := t.gate.tracing.Load()
	if tracing == nil {
		return nil
	}
	if p := t.traced.now.Load(); p != nil {
		return p.of
	}
	t.gate.mu.Lock()
	id := t.id
	t.gate.mu.Unlock()
	if id == 0 {
		return nil
	}
	begun := tracing.Begin(id | requestKey)
	if begun == nil {
		return nil
	}
	if !t.traced.now.CompareAndSwap(nil, &record{begun}) {
		begun.End() // somebody else was first, or the request has left
	}
	return t.traced.now.Load().of
}

// traced is the recording of one request.
type traced struct{ now atomic.Pointer[record] }

// record is nil inside once the request has left.
type record struct{ of Traced }

// over is what a request has that has left.
var over = &record{}

// end ends the recording. It is called without locks.
func (t *traced) end() {
	if p := t.now.Swap(over); p != nil && p.of != nil {
		p.of.End()
	}
}

// requestKey is part of the keys of tasks that are requests, as other tasks have keys too.
const requestKey = 1 << 62

// fileTask is added to the numbers of tasks that are in the file and are no requests.
const fileTask = 1 << 63

// file is what a finder knows of a task file.
type file struct {
	engine    *taskfile.Engine          // nil: none
	shift     int64                     // from the file's clock to that of the gate
	units     func(queue string) uint64 // nil: not known
	resources []culprit.Resource
	place     map[uint64]int32 // of the requests in a sample, by number
	pairs     map[[2]int32]int // of a task and a resource: the index of their hold
	number    []int32          // of the file's tasks, in the sample; -1: not in it
}

// see adds what the file has to a sample, which already holds the requests. It returns
// their kinds, with a zero one for each task that is none. A file that cannot be read makes
// the sample blind.
func (f *file) see(s *culprit.Sample, kinds []what, objective time.Duration) []what {
	if f.engine == nil {
		return kinds
	}
	look, err := f.engine.Look(objective)
	if err != nil {
		s.Blind = err.Error()
		return kinds
	}
	f.resources = append(f.resources[:0], look.Sample.Resources...)
	for i := range f.resources {
		if r := &f.resources[i]; r.Kind == culprit.Queue && f.units != nil {
			if n := f.units(r.Name); n > 0 { // else its name may say it: another program of the same file made it
				r.Units = n
			}
		}
	}
	s.Resources = append(s.Resources[:slotsResource+1], f.resources...)
	clear(f.place)
	clear(f.pairs)
	for i := range s.Tasks {
		f.place[s.Tasks[i].ID] = int32(i)
	}
	f.number = f.number[:0]
	for i, t := range look.Sample.Tasks {
		key := look.Origins[i].Key
		at, inside := f.place[key&^requestKey]
		switch {
		case key&requestKey == 0 && len(s.Tasks) >= culprit.MaxTasks:
			at = -1 // with more the engine would see nothing at all
		case key&requestKey == 0: // no request
			t.ID |= fileTask
			t.Started = f.at(t.Started, s.At)
			at = int32(len(s.Tasks))
			s.Tasks, kinds = append(s.Tasks, t), append(kinds, what{})
		case !inside:
			at = -1 // it has just left
		case t.Total > 0:
			s.Tasks[at].Done, s.Tasks[at].Total = t.Done, t.Total
		}
		f.number = append(f.number, at)
	}
	for _, h := range look.Sample.Holds {
		if h.Task = f.number[h.Task]; h.Task >= 0 {
			h.Resource += slotsResource + 1
			h.WaitingSince, h.HeldSince = f.at(h.WaitingSince, s.At), f.at(h.HeldSince, s.At)
			f.add(s, h)
		}
	}
	s.Finished.Count += look.Sample.Finished.Count
	s.Finished.Timed += look.Sample.Finished.Timed
	s.Finished.Late += look.Sample.Finished.Late
	return kinds
}

// add enters a hold. What several goroutines of one request do is one hold of it.
func (f *file) add(s *culprit.Sample, h culprit.Hold) {
	pair := [2]int32{h.Task, h.Resource}
	i, known := f.pairs[pair]
	if !known {
		f.pairs[pair] = len(s.Holds)
		s.Holds = append(s.Holds, h)
		return
	}
	sum := &s.Holds[i]
	sum.Gets, sum.Frees, sum.Waits, sum.Used = sum.Gets+h.Gets, sum.Frees+h.Frees, sum.Waits+h.Waits, sum.Used+h.Used
	sum.WaitTime, sum.HoldTime = sum.WaitTime+h.WaitTime, sum.HoldTime+h.HoldTime
	sum.WaitingSince, sum.HeldSince = min(sum.WaitingSince, h.WaitingSince), min(sum.HeldSince, h.HeldSince)
	sum.Shared = sum.Shared && h.Shared
}

// at turns an instant of the file into one of the gate, up to now.
func (f *file) at(then, now mono.Time) mono.Time {
	if then == culprit.Unset {
		return then
	}
	return max(min(then+mono.Time(f.shift), now), 0)
}

func (f *file) kindOf(kind uint64) string {
	if f.engine == nil {
		return ""
	}
	return f.engine.KindName(kind)
}

// cancel has a task of the file cancelled by its tracer.
func (f *file) cancel(id uint64) bool {
	return f.engine != nil && f.engine.Cancel(id&^fileTask, taskfile.Culprit) == nil
}
