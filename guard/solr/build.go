package solr

import (
	"time"

	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// The resources of a core. Their order is part of every recorded sample: append only.
const (
	slots = iota
	processor
	heap
)

var resources = []culprit.Resource{
	slots:     {Name: "query slots", Kind: culprit.Queue},
	processor: {Name: "processor", Kind: culprit.System},
	heap:      {Name: "heap", Kind: culprit.System},
}

// builder turns views into looks. It has all that is remembered between them.
type builder struct {
	tracker    *track.Tracker
	core       string
	known      map[int64]*known // by number
	targets    map[uint64]goal  // of the present look, by ID
	look       uint64
	before     mono.Time
	boot       int64
	ended      int64
	collecting int64
}

// known is what is remembered of a query.
type known struct {
	started     mono.Time
	statement   statement.Statement
	cpu, memory int64
	look        uint64
}

// goal identifies a query to the core.
type goal struct{ boot, number int64 }

func newBuilder(core string) *builder {
	return &builder{tracker: track.New(resources), core: core, known: map[int64]*known{}, targets: map[uint64]goal{}}
}

// build makes the look of v at an instant.
func (b *builder) build(at mono.Time, v *view) *track.Look {
	restarted := v.Boot != b.boot
	if restarted {
		clear(b.known)
	}
	b.look++
	b.tracker.Begin(at)
	clear(b.targets)
	span := at.Sub(b.before)
	collecting := 0.0
	if b.look > 1 && !restarted && span > 0 {
		collecting = min(float64(time.Duration(max(v.Collecting-b.collecting, 0))*time.Millisecond)/float64(span), 1)
	}
	for i := range *v.Queries {
		b.query(at, v.Boot, &(*v.Queries)[i], collecting)
	}
	for number, k := range b.known {
		if k.look != b.look {
			delete(b.known, number)
		}
	}
	ended := uint64(0)
	if !restarted && b.look > 1 {
		ended = uint64(max(*v.Ended-b.ended, 0))
	}
	b.before, b.boot, b.ended, b.collecting = at, v.Boot, *v.Ended, v.Collecting
	return b.tracker.End(ended)
}

// query enters one query.
func (b *builder) query(at mono.Time, boot int64, q *queryView, collecting float64) {
	k := b.known[q.Number]
	fresh := k == nil
	if fresh {
		k = &known{started: max(at.Add(-time.Duration(max(q.Running, 0))), 0), statement: q.statement()}
		b.known[q.Number] = k
	}
	if k.look == b.look {
		return // a number that comes twice
	}
	k.look = b.look
	e := b.tracker.Task(track.Key{Process: boot, Session: q.Number}, k.started)
	t, s := b.tracker.At(e)
	t.Kind, t.Steps, t.Ending = k.statement.Fingerprint, culprit.StepsOf(culprit.Statement), q.Cancelled
	b.targets[t.ID] = goal{boot, q.Number}
	s.Process, s.Application, s.Database, s.Statement, s.State = q.Number, q.Client, b.core, k.statement, "running"
	if q.Cancelled {
		s.State = "cancelled"
	}
	if q.Waiting {
		s.State = "waits for a slot"
		b.tracker.Waits(e, slots, k.started)
		return
	}
	admitted := max(at.Add(-time.Duration(max(q.Admitted, 0))), 0)
	b.tracker.Holds(e, slots, admitted, 1, false)
	b.use(at, e, k, q, max(admitted, k.started), fresh, collecting)
}

// use enters what a query used since the look before, and lost: to collections, which stop all, and, for the
// rest of the time for which it had no processor, to the others.
func (b *builder) use(at mono.Time, e *track.Entry, k *known, q *queryView, since mono.Time, fresh bool, collecting float64) {
	if !fresh {
		since = max(since, b.before)
	}
	ran := max(at.Sub(since), 0)
	cpu := time.Duration(max(q.CPU-k.cpu, 0))
	lost := time.Duration(collecting * float64(ran))
	b.tracker.Consumes(e, processor, uint64(cpu), max(ran-lost-cpu, 0))
	b.tracker.Consumes(e, heap, uint64(max(q.Memory-k.memory, 0)), lost)
	k.cpu, k.memory = max(q.CPU, k.cpu), max(q.Memory, k.memory)
}
