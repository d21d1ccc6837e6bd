package live

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

// flow is a workflow that a schedule.Queue tells apart.
type flow struct {
	name   string
	number int
	inside int  // requests that wait or hold
	pinned bool // has a share of its own
	heard  mono.Time
}

// flows gives numbers to the names of workflows. Number 0 is the default
// workflow, and of every name for which no number is left.
type flows struct {
	byName map[string]*flow
	all    []*flow // by number
	max    int
	hand   int
}

func newFlows(max int) flows {
	rest := &flow{pinned: true}
	return flows{byName: map[string]*flow{"": rest}, all: []*flow{rest}, max: max, hand: 1}
}

// of returns the flow of a name. fresh says that its number is new or was another
// workflow's.
func (f *flows) of(now mono.Time, name string) (w *flow, fresh bool) {
	if w := f.byName[name]; w != nil {
		w.heard = now
		return w, false
	}
	if len(f.all) < f.max {
		w = &flow{number: len(f.all)}
		f.all = append(f.all, w)
	} else if w = f.silent(now); w == nil {
		return f.all[0], false
	} else {
		delete(f.byName, w.name)
	}
	w.name, w.heard = name, now
	f.byName[name] = w
	return w, true
}

// silent returns a flow whose number can be given to another, nil if none is
// found at once.
func (f *flows) silent(now mono.Time) *flow {
	for range min(flowProbes, f.max-1) {
		w := f.all[f.hand]
		if f.hand++; f.hand == f.max {
			f.hand = 1
		}
		if w.inside == 0 && !w.pinned && now.Sub(w.heard) >= flowKeep {
			return w
		}
	}
	return nil
}
