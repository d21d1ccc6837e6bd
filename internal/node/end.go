package node

import (
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/work"
)

// End returns the outcome of a request that is about to Leave: a request that is Done after
// the deadline of its caller, or after its objective, is Late. reach is not nil if this request
// changes whether the objective can be met at all. A policy other than the gate knows no
// objective and keeps o.
func (n *Node) End(now mono.Time, t *admission.Ticket, o work.Outcome) (_ work.Outcome, reach *Reach) {
	if n.gate == nil {
		return o, nil
	}
	if o == work.Done && n.gate.Late(now, t) {
		o = work.Late
	}
	if !o.Executed() || t.Objective != 0 {
		return o, nil
	}
	objective := n.gate.Objective()
	if n.reach.add(now.Sub(t.Started()), objective, n.gate.Slots().Service()) {
		reach = &Reach{Objective: objective, Out: n.reach.out, Service: n.reach.known}
	}
	return o, reach
}

// Unreachable reports whether the service takes longer than the objective even without a
// queue: see Reach.
func (n *Node) Unreachable() bool { return n.reach.out }

// Took takes the work of a request that is about to Leave, executed to its end without an error of
// the application. At the entry it counts for the work of whole requests, elsewhere for the work from
// there on. A request that is work.Late shows an overload rather than its workflow, and counts only
// while nothing else is known, because a workflow that is always late would have no estimate.
func (n *Node) Took(now mono.Time, t *admission.Ticket, r progress.Result, o work.Outcome) {
	s := stayOf(t)
	if s == nil || n.totals == nil {
		return
	}
	of := n.parts
	if s.Entered {
		of = n.totals
	}
	if _, _, known := of.Expect(t.Workflow); known && o == work.Late {
		return
	}
	of.OnDone(now, t.Workflow, r.Service, r.Work)
}
