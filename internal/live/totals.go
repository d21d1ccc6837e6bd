package live

import (
	"sync"

	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/wire"
)

// Totals remembers what whole requests of each workflow took, at the process where
// they enter: see progress.Totals. Its methods may be called at once from any
// goroutine.
//
//	tags.Total = totals.Expect(tags.Workflow) // on the way in
//	…
//	totals.OnDone(tags.Workflow, span.End()) // if it succeeded
type Totals struct {
	mu   sync.Mutex
	core *progress.Totals
}

// NewTotals returns a Totals that knows nothing, or every mistake in cfg.
func NewTotals(cfg progress.TotalsConfig) (*Totals, error) {
	core, err := progress.NewTotals(cfg)
	if err != nil {
		return nil, err
	}
	return &Totals{core: core}, nil
}

// Expect returns what a request of the workflow takes, for wire.Tags.Total; zero
// if nothing is known.
func (t *Totals) Expect(workflow string) wire.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	service, work, _ := t.core.Expect(workflow)
	return wire.Progress{Service: service, Work: work}
}

// onEnd takes what a request took that was executed to its end. One that was too late
// says what an overload makes of its workflow, and counts only while nothing else is
// known of it: else a workflow that is always late would have no estimate at all.
func (t *Totals) onEnd(workflow string, r progress.Result, late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, _, known := t.core.Expect(workflow); late && known {
		return
	}
	t.core.OnDone(Now(), workflow, r.Service, r.Work)
}

// OnDone takes what a request took that succeeded, and no other.
func (t *Totals) OnDone(workflow string, r progress.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := Now()
	t.core.OnDone(now, workflow, r.Service, r.Work)
}
