package node

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// flowKeep is how long a workflow without a share of its own keeps its number
	// after its last request. A debt that it leaves to the next one with that
	// number is forgiven within moments.
	flowKeep = time.Minute
	// flowProbes is how many numbers are looked at to find one that is free again.
	// The next request of an unknown workflow looks at the next ones.
	flowProbes = 8
)

// Flow is a workflow that a schedule.Queue tells apart.
type Flow struct {
	// Name is the workflow's, "" for all that are not told apart.
	Name string
	// Number is what the queue calls it, 0 for all that are not told apart.
	Number int
	// Inside is how many of its requests wait or hold, which the driver counts: while
	// there are any, the number is not given to another workflow.
	Inside int
	// Pinned keeps the number, because the workflow has a share of its own.
	Pinned bool
	heard  mono.Time
}

// Flows gives numbers to the names of workflows. Number 0 is the default
// workflow, and of every name for which no number is left.
type Flows struct {
	byName map[string]*Flow
	all    []*Flow // by number
	max    int
	hand   int
	asked  *Flow // about which was asked last: as a rule the next question is about the same
}

// NewFlows returns the flows of a queue that tells max workflows apart.
func NewFlows(max int) Flows {
	rest := &Flow{Pinned: true}
	return Flows{byName: map[string]*Flow{"": rest}, all: []*Flow{rest}, max: max, hand: 1}
}

// Of returns the flow of a name. fresh says that its number is new or was another
// workflow's.
func (f *Flows) Of(now mono.Time, name string) (w *Flow, fresh bool) {
	w = f.asked
	if w == nil || w.Name != name {
		w = f.byName[name]
	}
	if w != nil {
		w.heard, f.asked = now, w
		return w, false
	}
	if len(f.all) < f.max {
		w = &Flow{Number: len(f.all)}
		f.all = append(f.all, w)
	} else if w = f.silent(now); w == nil {
		return f.all[0], false
	} else {
		delete(f.byName, w.Name)
	}
	w.Name, w.heard = name, now
	f.byName[name] = w
	return w, true
}

// silent returns a flow whose number can be given to another, nil if none is
// found at once.
func (f *Flows) silent(now mono.Time) *Flow {
	for range min(flowProbes, f.max-1) {
		w := f.all[f.hand]
		if f.hand++; f.hand == f.max {
			f.hand = 1
		}
		if w.Inside == 0 && !w.Pinned && now.Sub(w.heard) >= flowKeep {
			return w
		}
	}
	return nil
}

// Inside returns how many requests are inside, of all workflows.
func (f *Flows) Inside() (n int) {
	for _, w := range f.all {
		n += w.Inside
	}
	return n
}
