package live

import (
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// announced is the rate for the process that sent a request.
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

// announce takes what node.Announce says. It is called with the lock held.
func (t *Ticket) announce(announces bool, rate float64, limited bool) {
	if announces {
		t.announced = announced{t.gate.id, t.gate.service, rate, limited}
	}
}

// SetShare changes what a workflow gets of what its class gets of the slots: see
// node.Node.SetShare.
func (g *Gate) SetShare(workflow string, share float64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.node.SetShare(Now(), workflow, share)
}

// SetWeight changes what a class gets of the slots relative to the others: see
// schedule.Queue.SetWeight.
func (g *Gate) SetWeight(class work.Class, weight float64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.node.SetWeight(class, weight)
}

// Rates appends what the gate knows of its workflows' rates; nothing without
// Config.Rates.
func (g *Gate) Rates(to []rates.State) []rates.State {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := Now(); g.node.Rated() {
		to = g.node.Gate().Rates(now).AppendStates(to)
	}
	return to
}

// Answer fills in what the gate tells the caller of a request that ran, if it is
// one who wants to know: the rate for its process, and what the request took up
// to now. After Leave the rate is that of Leave.
func (t *Ticket) Answer(r *wire.Reply) {
	if !t.stay.Asked {
		return
	}
	if t.gate.node.Rated() {
		t.gate.mu.Lock()
		if !t.left {
			t.announce(t.gate.node.Announce(t.core))
		}
		t.fill(r)
		t.gate.mu.Unlock()
	}
	if t.span != nil {
		r.Progress, r.HasProgress = t.span.Spent(), true
	}
}

// Total returns what a request of the workflow takes, for wire.Tags.Total of the
// request's context: as it came, or where requests enter, as remembered.
func (t *Ticket) Total() wire.Progress { return t.stay.Total }

// Span returns what measures the request, nil if nobody wants to know.
func (t *Ticket) Span() *Span { return t.span }

// Failed says that the request ends with an error of the application, so that it
// is no example of what its workflow takes. It is called before Leave.
func (t *Ticket) Failed() { t.failed.Store(true) }
