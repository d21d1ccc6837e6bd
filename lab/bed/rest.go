package bed

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// At the end of a run the services come to rest before the clients leave: what they hold
// for clients that are there is counted.
//
//	clients ── restFile: nothing is sent any more ──▶ services: collections, Look.Heap
//	   ◀────── a file of each: counted ─────────────────┘

const restFile = "rest.json"

// restTime is the longest time that clients wait for a service to rest: one that is halted
// does not.
const restTime = 5 * time.Second

func (o *order) restedFile(service string, replica int) string {
	return fmt.Sprintf("rested-%x-%d.json", service, replica)
}

// letRest is the clients' side.
func (o *order) letRest(ctx context.Context, p *plan, pol policy) error {
	if pol.peer != nil && pol.peer.Program != nil {
		return nil // somebody else's do not know of it
	}
	if err := publish(o.Dir, restFile, true); err != nil {
		return err
	}
	patient, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	for i := range p.Services {
		s := &p.Services[i]
		if slices.ContainsFunc(p.Faults, func(f world.Fault) bool { return f.Kill && f.Service == s.Name }) {
			continue // it may be gone
		}
		for r := range s.Replicas {
			var rested bool
			_ = await(patient, o.Dir, o.restedFile(s.Name, r+1), &rested) // or the time is over
		}
	}
	return ctx.Err()
}

// rest is a service's side: if nothing is sent any more it collects its garbage, returns
// what heap and stacks hold, in bytes, and says so. Else it returns 0.
func (o *order) rest() (heap, stacks uint64) {
	var resting, rested bool
	if read(o.Dir, restFile, &resting) != nil || read(o.Dir, o.restedFile(o.Service, o.Replica), &rested) == nil {
		return 0, 0
	}
	for range 4 { // stacks shrink by half in each
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	_ = publish(o.Dir, o.restedFile(o.Service, o.Replica), true) // else the clients wait for as long as they do
	return m.HeapAlloc, m.StackInuse
}
