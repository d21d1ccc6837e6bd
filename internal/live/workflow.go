package live

import (
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// stint is the part of a ticket that is about its workflow and its sender.
type stint struct {
	stay   node.Stay
	span   *Span // nil unless it is measured
	failed atomic.Bool
	visit  *visit // nil without class shares
	home   *visit // in one allocation with the stint, nil if there is none
	place  Span   // for span
	announced
}

// begin makes s as new for a request; Describe and Span.begin do the rest.
func (s *stint) begin() {
	s.span, s.visit, s.announced = nil, nil, announced{}
	if s.failed.Load() { // to store takes much longer
		s.failed.Store(false)
	}
}

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

// describe tells the node what the tags of the request say. It is called with the
// lock held, where they matter.
func (t *Ticket) describe(now mono.Time, r *Request, v *visit) {
	switch {
	case v != nil:
		t.room = v.stint
	case t.room == nil:
		t.room = new(stint)
	}
	t.stint = t.room
	t.stint.begin()
	tags := node.Tags{Process: r.Process, Claim: r.Claim, Total: r.Total, Elapsed: r.Elapsed}
	t.gate.node.Describe(now, t.core, &tags, &t.stay)
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
	return g.node.SetShare(g.now(), workflow, share)
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
	if now := g.now(); g.node.Rated() {
		to = g.node.Gate().Rates(now).AppendStates(to)
	}
	return to
}

// Asked reports whether the caller of a request is one to whom Answer tells something.
func (t *Ticket) Asked() bool { return t.stint != nil && t.stay.Asked }

// Answer fills in what the gate tells the caller of a request that ran, if it is
// one who wants to know: the rate for its process, and what the request took up
// to now. After Leave the rate is that of Leave.
func (t *Ticket) Answer(r *wire.Reply) {
	if !t.Asked() {
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
func (t *Ticket) Total() wire.Progress {
	if t.stint == nil {
		return wire.Progress{}
	}
	return t.stay.Total
}

// Span returns what measures the request, nil if nobody wants to know, and of a nil t.
func (t *Ticket) Span() *Span {
	if t == nil || t.stint == nil {
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
