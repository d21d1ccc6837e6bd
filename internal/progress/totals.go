package progress

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/signal"
)

// TotalsConfig describes a Totals. Zero fields take the default named in their
// comment.
type TotalsConfig struct {
	// Weight is what a new completion weighs in the mean, above 0 and at most 1.
	// Default 0.1. Larger follows a change sooner, smaller is steadier.
	Weight float64
	// Workflows is the most workflows that are remembered, up to 65,536. Default
	// 1,024. One more takes the place of the one that was silent longest, if
	// that has been silent for Keep, and otherwise gets no estimate.
	Workflows int
	// Keep is how long a workflow without completions keeps its place against
	// new ones. Default 1 minute. Larger protects the estimates of rare
	// workflows against a flood of names, smaller lets new workflows in sooner.
	Keep time.Duration
}

func (c TotalsConfig) withDefaults() (TotalsConfig, error) {
	var errs []error
	if !(c.Weight >= 0 && c.Weight <= 1) {
		errs = append(errs, fmt.Errorf("progress: Weight is %v, expected above 0 and at most 1, or 0 for the default", c.Weight))
	}
	if c.Workflows < 0 || c.Workflows > 1<<16 {
		errs = append(errs, fmt.Errorf("progress: Workflows is %d, expected 1 to %d, or 0 for the default", c.Workflows, 1<<16))
	}
	if c.Keep < 0 {
		errs = append(errs, fmt.Errorf("progress: Keep is %v, expected more than 0, or 0 for the default", c.Keep))
	}
	if c.Weight == 0 {
		c.Weight = 0.1 // Wisp's tables are made with it
	}
	if c.Workflows == 0 {
		c.Workflows = 1024
	}
	if c.Keep == 0 {
		c.Keep = time.Minute
	}
	return c, errors.Join(errs...)
}

// Totals remembers, at an entry point, what requests of each workflow took end
// to end, and expects the same of the next one. It is not safe for concurrent
// use. OnDone allocates when a workflow is new, and only then.
type Totals struct {
	cfg    TotalsConfig
	byName map[string]*total
	asked  [8]*total // about which was asked last, by the last byte of the name: mostly the next question is about one of them
	oldest *total    // silent longest
	newest *total
}

// total is one workflow, in a list ordered by its last completion.
type total struct {
	name          string
	service, work signal.Average
	least         float64 // ns, of the service: see Least
	heard         mono.Time
	older, newer  *total
}

// NewTotals returns a Totals that knows nothing, or every mistake in cfg.
func NewTotals(cfg TotalsConfig) (*Totals, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Totals{cfg: cfg, byName: make(map[string]*total)}, nil
}

// OnDone takes what a request took that completed with success, and nothing
// else: one that failed, was refused or canceled says nothing about what its
// workflow needs. Of times below 0, and of work below service, the nearest that
// can be is taken.
func (t *Totals) OnDone(now mono.Time, workflow string, service, work time.Duration) {
	e := t.find(workflow)
	if e == nil {
		if e = t.admit(now, workflow); e == nil {
			return
		}
	} else {
		t.unlink(e)
	}
	service = max(service, 0)
	e.service.Add(float64(service))
	e.leastOf(float64(service))
	e.work.Add(float64(max(work, service)))
	e.heard = now
	e.older, e.newer = t.newest, nil
	if t.newest == nil {
		t.oldest = e
	} else {
		t.newest.newer = e
	}
	t.newest = e
}

// Expect returns the service and the work of a whole request of the workflow,
// end to end, and false if nothing is known.
func (t *Totals) Expect(workflow string) (service, work time.Duration, ok bool) {
	e := t.find(workflow)
	if e == nil {
		return 0, 0, false
	}
	s, _ := e.service.Value()
	w, _ := e.work.Value()
	return duration(s), max(duration(w), duration(s)), true
}

// The service that most requests take at least is followed in steps of its own
// size: up by a little for each that took no less, down by so much for one that took
// less that both balance when that is one in five. Who has less time left than that
// is four times in five too late, and the work is lost: with one in twenty, 1.4 % of
// the requests of a store under deadlines were let through and missed them, with one
// in five 0.6 %, and no fewer were in time (simulation).
const (
	below     = 0.2
	leastStep = 0.1
)

func (e *total) leastOf(service float64) {
	switch {
	case e.least == 0 || service < e.least*(1-leastStep):
		e.least = max(service, e.least*(1-leastStep*(1-below)))
	case service < e.least:
		e.least = service
	default:
		e.least = min(e.least*(1+leastStep*below), service)
	}
}

// Least returns the service that a whole request of the workflow takes at least,
// but for about one in five; 0 if nothing is known. Times that are always the
// same are known exactly.
func (t *Totals) Least(workflow string) time.Duration {
	e := t.find(workflow)
	if e == nil {
		return 0
	}
	return duration(e.least)
}

// find returns a workflow, nil if nothing is known of it.
func (t *Totals) find(workflow string) *total {
	last := t.recent(workflow)
	if e := *last; e != nil && e.name == workflow {
		return e
	}
	e := t.byName[workflow]
	if e != nil {
		*last = e
	}
	return e
}

// recent is where a workflow is noted that was asked about.
func (t *Totals) recent(workflow string) **total {
	if workflow == "" {
		return &t.asked[0]
	}
	return &t.asked[int(workflow[len(workflow)-1])%len(t.asked)]
}

// Len returns the number of workflows remembered.
func (t *Totals) Len() int { return len(t.byName) }

// admit makes a place for a workflow, nil if there is none.
func (t *Totals) admit(now mono.Time, workflow string) *total {
	if len(t.byName) == t.cfg.Workflows {
		if now.Sub(t.oldest.heard) < t.cfg.Keep {
			return nil
		}
		delete(t.byName, t.oldest.name)
		*t.recent(t.oldest.name) = nil
		t.unlink(t.oldest)
	}
	e := &total{name: workflow, service: signal.NewAverage(t.cfg.Weight), work: signal.NewAverage(t.cfg.Weight)}
	t.byName[workflow] = e
	return e
}

func (t *Totals) unlink(e *total) {
	if e.older == nil {
		t.oldest = e.newer
	} else {
		e.older.newer = e.newer
	}
	if e.newer == nil {
		t.newest = e.older
	} else {
		e.newer.older = e.older
	}
}

// duration rounds a mean of durations, which may round up to one more than the
// longest.
func duration(ns float64) time.Duration {
	return time.Duration(min(ns+0.5, float64(1<<62)))
}

// Remaining returns the service that a request still needs: what its workflow
// takes, less what it has received, but not less than 0. 0 if total is, which
// means that nothing is known.
func Remaining(total, elapsed time.Duration) time.Duration {
	return max(max(total, 0)-max(elapsed, 0), 0)
}
