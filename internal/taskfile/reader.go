package taskfile

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// rereads is how often a slot that changes is read again before it is left
	// to the next look. Its task has then just begun or ended.
	rereads = 3
	// ownersFor is for how long a process is believed to live on. What a dead
	// one held is shown no longer than this.
	ownersFor = 500 * time.Millisecond
	// mostChecks bounds how many processes a look asks /proc about, at some 20 µs
	// each. Beyond it what was known holds, and tasks of the unknown are left
	// to the next look.
	mostChecks = 256
	// mostCount bounds a counter that is read, so that sums stay in range.
	mostCount = 1 << 62
)

// reader turns a file into looks. It bounds every number that it reads.
type reader struct {
	file      *File
	look      Look
	now       uint64
	resources []culprit.Resource
	number    [maxResources]int32 // of an entry of the table, -1 if it has none yet
	twice     bool                // two entries have one number
	finished  []uint64            // of each slot, as last seen
	counts    [][latencies]uint32
	owners    map[uint64]verdict
	checks    int    // of owners, in this look
	frozen    uint64 // what the clock showed when the last engine died, 0 if none did
	attached  uint64 // what it is taken for
}

type verdict struct {
	alive bool
	until uint64
}

func newReader(f *File) reader {
	r := reader{file: f, finished: make([]uint64, f.geo.Slots), counts: make([][latencies]uint32, f.geo.Slots), owners: map[uint64]verdict{}}
	for i := range r.number {
		r.number[i] = -1
	}
	return r
}

// remember takes the latencies that are there for old ones.
func (r *reader) remember() {
	for i := range r.finished {
		r.finishedIn(i, nil)
	}
}

// read fills the look with what is there at now, an instant of the file's clock.
func (r *reader) read(now uint64, objective time.Duration) {
	r.now, r.checks = now, 0
	r.names()
	l := &r.look
	l.Latencies = Latencies{}
	l.Origins = l.Origins[:0]
	s := &l.Sample
	*s = culprit.Sample{At: mono.Time(r.now), Tasks: s.Tasks[:0], Holds: s.Holds[:0], Resources: r.resources}
	for i := range r.finished {
		r.finishedIn(i, &l.Latencies)
		r.slot(i)
	}
	n := l.Latencies.Count()
	s.Finished = culprit.Finished{Count: n, Timed: n, Late: l.Latencies.Late(objective)}
	l.Untraced = r.file.Untraced()
}

// names gives numbers to resources that have become complete.
func (r *reader) names() {
	table := r.file.resourceNames()
	for i := range table {
		if r.number[i] >= 0 {
			continue
		}
		name, kind, ok := table[i].read()
		if !ok || ResourceKind(kind) < Lock || ResourceKind(kind) > System {
			continue
		}
		found := culprit.Resource{Name: name, Kind: culprit.Kind(kind - uint64(Lock))}
		if found.Kind == culprit.Queue {
			found.Units = units(name)
		}
		for n, known := range r.resources {
			if known == found {
				r.number[i], r.twice = int32(n), true
			}
		}
		if r.number[i] < 0 {
			r.number[i] = int32(len(r.resources))
			r.resources = append(r.resources, found)
		}
	}
}

// units returns how many units a queue has by its name, such as "workers (8)", 0 if that does not say.
func units(name string) uint64 {
	_, rest, _ := strings.Cut(name, " (")
	digits, ok := strings.CutSuffix(rest, ")")
	n, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil {
		return 0
	}
	return n
}

// finishedIn adds the latencies that are new in slot i to l, unless l is nil.
func (r *reader) finishedIn(i int, l *Latencies) {
	finished := atomic.LoadUint64(&r.file.words(i).finished)
	if finished == r.finished[i] {
		return
	}
	r.finished[i] = finished
	counts := r.file.latencies(i)
	for k := range counts {
		now := atomic.LoadUint32(&counts[k])
		if l != nil {
			l[k] += uint64(now - r.counts[i][k])
		}
		r.counts[i][k] = now
	}
}

// slot adds the task in slot i to the sample, if one runs there.
func (r *reader) slot(i int) {
	w, s := r.file.words(i), &r.look.Sample
	for range rereads {
		owner, sequence := atomic.LoadUint64(&w.owner), atomic.LoadUint64(&w.sequence)
		if owner == 0 || sequence%2 == 0 || !r.lives(owner) {
			return
		}
		holds := len(s.Holds)
		task, origin := r.task(w, i, sequence)
		r.cells(w, i, task.Started)
		if atomic.LoadUint64(&w.owner) == owner && atomic.LoadUint64(&w.sequence) == sequence {
			origin.PID = Token(owner).PID()
			s.Tasks = append(s.Tasks, task)
			r.look.Origins = append(r.look.Origins, origin)
			return
		}
		s.Holds = s.Holds[:holds]
	}
}

func (r *reader) task(w *slotWords, i int, sequence uint64) (culprit.Task, Origin) {
	flags := Flags(atomic.LoadUint64(&w.flags))
	task := culprit.Task{
		ID:         sequence*maxSlots + uint64(i),
		Kind:       atomic.LoadUint64(&w.kind),
		Started:    r.instant(atomic.LoadUint64(&w.started)),
		Done:       min(atomic.LoadUint64(&w.done), mostCount),
		Total:      min(atomic.LoadUint64(&w.total), mostCount),
		Background: flags&Background != 0,
		Idle:       flags&Idle != 0,
		Ending:     atomic.LoadUint64(&w.delivered) == sequence,
	}
	if flags&Barred == 0 {
		task.Steps = culprit.StepsOf(culprit.Statement)
	}
	return task, Origin{Thread: atomic.LoadUint64(&w.thread), Key: atomic.LoadUint64(&w.key)}
}

// cells adds the holds of the task that will be the next one of the sample.
func (r *reader) cells(w *slotWords, i int, started mono.Time) {
	s, cells := &r.look.Sample, r.file.cells(i)
	shared := atomic.LoadUint64(&w.shared)
	task, first := int32(len(s.Tasks)), len(s.Holds)
	for mask := atomic.LoadUint64(&w.touched) & r.file.cellMask(); mask != 0; mask &= mask - 1 {
		at := bits.TrailingZeros64(mask)
		number := r.number[at]
		if number < 0 {
			continue
		}
		n := len(s.Holds)
		s.Holds = slices.Grow(s.Holds, 1)[:n+1] // filled where it stays: it is a hundred bytes
		h := &s.Holds[n]
		r.hold(h, &cells[at], time.Duration(r.now)-time.Duration(started))
		h.Task, h.Resource, h.Shared = task, number, shared>>at&1 == 1
		for k := first; r.twice && k < n; k++ {
			if s.Holds[k].Resource == number {
				merge(&s.Holds[k], *h)
				s.Holds = s.Holds[:n]
				break
			}
		}
	}
}

// hold reads one cell of a task of the given age into h, all but whose and of what it is.
func (r *reader) hold(h *culprit.Hold, c *Cell, age time.Duration) {
	count := func(p *uint64) uint64 { return min(atomic.LoadUint64(p), mostCount) }
	span := func(p *uint64) time.Duration { return time.Duration(min(count(p), uint64(age))) }
	since := func(p *uint64) mono.Time {
		if at := atomic.LoadUint64(p); at != 0 {
			return r.instant(at)
		}
		return culprit.Unset
	}
	h.Gets, h.Frees, h.Waits, h.Used = count(&c.Gets), count(&c.Frees), count(&c.Waits), count(&c.Used)
	h.WaitTime, h.HoldTime = span(&c.WaitTime), span(&c.HoldTime)
	h.WaitingSince, h.HeldSince = since(&c.WaitingSince), since(&c.HeldSince)
	if h.Used == 0 || h.HeldSince == culprit.Unset {
		h.Used, h.HeldSince = 0, culprit.Unset
	}
}

// merge adds what a task did under a second number of the same resource.
func merge(h *culprit.Hold, more culprit.Hold) {
	h.Gets, h.Frees, h.Waits, h.Used = h.Gets+more.Gets, h.Frees+more.Frees, h.Waits+more.Waits, h.Used+more.Used
	h.WaitTime, h.HoldTime = h.WaitTime+more.WaitTime, h.HoldTime+more.HoldTime
	h.WaitingSince, h.HeldSince = min(h.WaitingSince, more.WaitingSince), min(h.HeldSince, more.HeldSince)
	h.Shared = h.Shared && more.Shared
}

// instant bounds an instant that was read. What a dead engine's clock showed
// last may be any instant since, so it is taken for the latest.
func (r *reader) instant(at uint64) mono.Time {
	if at == r.frozen && at != 0 {
		at = r.attached
	}
	return mono.Time(min(at, r.now))
}

// lives reports whether the owner of a slot lives, as known for a short time.
func (r *reader) lives(owner uint64) bool {
	if owner == uint64(r.file.self) {
		return true
	}
	v, ok := r.owners[owner]
	if (!ok || v.until < r.now) && r.checks < mostChecks {
		r.checks++
		const mostOwners = 4096 // a hostile file must not fill the memory
		if len(r.owners) >= mostOwners {
			clear(r.owners)
		}
		v = verdict{Token(owner).alive(), r.now + uint64(ownersFor)}
		r.owners[owner] = v
	}
	return v.alive
}
