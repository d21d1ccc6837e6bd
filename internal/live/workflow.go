package live

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// What a gate knows of a request's workflow, and of who sent it:
//
//	wire.Tags ─▶ Enter ─▶ its number in the queue's order, what remains of it,
//	                      its caller among the upstream processes, its claim
//	wire.Reply ◀─ Answer ◀─ what it took, the rate for its caller's process

// stint is the part of a ticket that is about its workflow.
type stint struct {
	flow     *flow  // nil if the queue does not tell workflows apart
	from     uint64 // the process that sent it, 0 if it did not say
	asked    bool   // who sent it wants to know what it took
	measured bool
	entered  bool          // the request comes from outside of the system
	total    wire.Progress // of its workflow
	span     *Span         // nil unless measured
	failed   atomic.Bool
	announced
}

// announced is the rate for the process that sent a request, once it has left.
type announced struct {
	process uint64 // who announces, 0 for nobody
	service string
	rate    float64
	limited bool
}

func (a *announced) fill(r *wire.Reply) {
	if a.process != 0 {
		r.Process, r.Service, r.Rate, r.HasRate = a.process, a.service, a.rate, a.limited
	}
}

// caller is a process that sends requests here, as the rates have it. service is
// known of one that is called from here as well.
type caller struct{ service, process string }

// describe takes what a gate itself needs of its configuration, and completes the
// core's.
func (g *Gate) describe(cfg *GateConfig) error {
	var errs []error
	if g.service = cfg.Service; g.service != "" && !wire.ValidWorkflow(g.service) {
		errs = append(errs, fmt.Errorf("live: Service is %.80q, expected at most %d visible ASCII characters without , ; = %% \" \\", g.service, wire.MaxWorkflow))
	}
	if len(cfg.Shares) > 0 && !cfg.Schedule.Fair {
		errs = append(errs, fmt.Errorf("live: there are Shares of %d workflows, expected none without Schedule.Fair, which tells workflows apart", len(cfg.Shares)))
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Shares)) {
		if s := cfg.Shares[name]; !(s >= schedule.MinWeight && s <= schedule.MaxWeight) {
			errs = append(errs, fmt.Errorf("live: Shares[%q] is %v, expected %v to %v", name, s, schedule.MinWeight, schedule.MaxWeight))
		}
	}
	g.fair, g.rated = cfg.Schedule.Fair, cfg.Rates != nil
	if order := cfg.Schedule.Order; g.rated || order != schedule.FIFO && order != schedule.EDF {
		// Somebody wants to know what remains.
		g.totals, _ = NewTotals(progress.TotalsConfig{}) // no mistakes in nothing
	}
	if g.rated {
		own := *cfg.Rates
		own.Service, own.Process = g.service, processName(g.id)
		cfg.Rates = &own
		g.callers, g.told = map[uint64]*caller{}, map[subject]*told{}
	}
	return errors.Join(errs...)
}

// share gives numbers to the workflows that have a share of their own. The core
// must be there.
func (g *Gate) share(shares map[string]float64) error {
	if !g.fair {
		return nil
	}
	queue, _ := schedule.New(g.core.Config().Schedule) // the core's own was made from it
	names := queue.Config().Workflows
	g.flows = newFlows(names)
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		if !g.setShare(name, shares[name]) {
			return fmt.Errorf("live: there are Shares of %d workflows, expected fewer than Schedule.Workflows, which is %d", len(shares), names)
		}
	}
	return nil
}

// SetShare changes what a workflow gets of what its class gets of the slots, 1 at
// first, and makes it one that is told apart from now on. It reports false, and
// does nothing, without Schedule.Fair, for a share out of range
// (schedule.MinWeight to MaxWeight), and when no more workflows can be told apart.
func (g *Gate) SetShare(workflow string, share float64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fair && g.setShare(workflow, share)
}

func (g *Gate) setShare(workflow string, share float64) bool {
	w := g.flowOf(Now(), workflow)
	if w.name != workflow || !g.core.SetShare(w.number, share) {
		return false
	}
	w.pinned = true
	return true
}

// SetWeight changes what a class gets of the slots relative to the others: see
// schedule.Queue.SetWeight.
func (g *Gate) SetWeight(class work.Class, weight float64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.core.SetWeight(class, weight)
}

// Rates appends what the gate knows of its workflows' rates; nothing without
// Config.Rates.
func (g *Gate) Rates(to []rates.State) []rates.State {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := Now()
	if a := g.core.Rates(now); a != nil {
		to = a.AppendStates(to)
	}
	return to
}

// flowOf returns the workflow as the queue tells it apart, with the lock held.
func (g *Gate) flowOf(now mono.Time, workflow string) *flow {
	w, fresh := g.flows.of(now, workflow)
	if fresh {
		g.core.SetShare(w.number, 1) // whosever it was before
	}
	return w
}

// expect notes what the request has had and what remains of it.
func (t *Ticket) expect(r *Request) {
	if t.measured = t.asked || t.gate.totals != nil; !t.measured {
		return
	}
	t.total = r.Total
	if !t.asked && r.Total == (wire.Progress{}) && t.gate.totals != nil {
		t.entered = true
		t.total = t.gate.totals.Expect(r.Workflow)
	}
	t.core.Remaining = progress.Remaining(t.total.Service, r.Elapsed.Service)
	t.core.Total, t.core.Done = t.total.Work, r.Elapsed.Work
}

// belong notes which workflow and which caller a request is of. It is called with
// the lock held.
func (t *Ticket) belong(now mono.Time, r *Request) {
	g := t.gate
	if g.fair {
		t.flow = g.flowOf(now, r.Workflow)
		t.flow.inside++
		t.core.Flow = t.flow.number
	}
	if g.rated && r.Process != 0 {
		t.from = r.Process
		t.core.From, t.core.Claim = g.upstream(now, r.Process), r.Claim
	}
}

// callersKept is how many callers are remembered by number, per peer that the
// rates tell apart. Beyond it all are forgotten; those that still call come back.
const callersKept = 2

// upstream returns the number that the rates have for a process that sends
// requests here. It is called with the lock held.
func (g *Gate) upstream(now mono.Time, id uint64) rates.Peer {
	a := g.core.Rates(now)
	c := g.caller(id, a.Config().MaxPeers)
	return a.Peer(now, c.service, c.process)
}

func (g *Gate) caller(id uint64, peers int) *caller {
	c := g.callers[id]
	if c == nil {
		if len(g.callers) >= callersKept*peers {
			clear(g.callers)
		}
		c = &caller{process: processName(id)}
		g.callers[id] = c
	}
	return c
}

// processName is how a process is called where names are wanted.
func processName(id uint64) string { return strconv.FormatUint(id, 16) }

// part ends a ticket's stay in its workflow, and finds what to announce. It is
// called with the lock held.
func (t *Ticket) part() {
	if t.flow != nil {
		t.flow.inside--
		t.flow = nil
	}
	t.announce()
}

// announce is called with the lock held. A gate that only monitors limits nobody,
// and so not those further up.
func (t *Ticket) announce() {
	g := t.gate
	if t.from == 0 || !g.rated {
		return
	}
	t.process, t.service = g.id, g.service
	if t.mode == Enforce {
		t.rate, t.limited = g.core.Announce(t.core)
	}
}

// Answer fills in what the gate tells the caller of a request that ran, if it is
// one who wants to know: the rate for its process, and what the request took up
// to now. After Leave the rate is that of Leave.
func (t *Ticket) Answer(r *wire.Reply) {
	if t.stint == nil {
		return
	}
	if t.from != 0 && t.gate.rated {
		t.gate.mu.Lock()
		if !t.left {
			t.announce()
		}
		t.fill(r)
		t.gate.mu.Unlock()
	}
	if t.asked && t.span != nil {
		r.Progress, r.HasProgress = t.span.Spent(), true
	}
}

// Total returns what a request of the workflow takes, for wire.Tags.Total of the
// request's context: as it came, or where requests enter, as remembered.
func (t *Ticket) Total() wire.Progress {
	if t.stint == nil {
		return wire.Progress{}
	}
	return t.total
}

// Span returns what measures the request, nil if nobody wants to know.
func (t *Ticket) Span() *Span {
	if t.stint == nil {
		return nil
	}
	return t.span
}

// Failed says that the request ends with an error of the application, so that it
// is no example of what its workflow takes. It is called before Leave.
func (t *Ticket) Failed() {
	if t.stint != nil {
		t.failed.Store(true)
	}
}
