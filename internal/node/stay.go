package node

import (
	"errors"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Tags is what a request says of itself beside what its ticket holds, as far as
// the edge believes it: see wire.Tags.
type Tags struct {
	// Process is the process that sent the request, 0 if it did not say.
	Process uint64
	// Claim is the rate at which Process would send such requests if nothing held
	// it back, in requests/s; 0 if it did not say.
	Claim float64
	// Total is what a whole request of the workflow takes, Elapsed what this one has
	// had. A request without either and without Process enters the system here.
	Total, Elapsed wire.Progress
}

// Asks reports whether the sender of t wants to know what the request takes.
func (t *Tags) Asks() bool { return t.Process != 0 || t.Elapsed != (wire.Progress{}) }

// Stay is what a node notes about a ticket's workflow and sender. The driver keeps
// it with the ticket, and may read the exported fields after Describe.
type Stay struct {
	// Total is what a whole request of the workflow takes: as its tags say or, where
	// requests enter, as remembered. Zero if unknown.
	Total wire.Progress
	// Least is what nearly all requests of the workflow take from their arrival here on,
	// 0 if unknown: with less time left than that, one is lost.
	Least time.Duration
	// Asked reports Tags.Asks, and Measured whether somebody wants to know what the
	// request takes: then the driver measures it. Entered says that it comes from
	// outside of the system: then Took counts.
	Asked, Measured, Entered bool

	observed bool  // the gate only monitors, and so limits nobody
	flow     *Flow // nil if the queue does not tell workflows apart
	from     uint64
}

func stayOf(t *admission.Ticket) *Stay {
	s, _ := t.Stay.(*Stay)
	return s
}

// Describe notes on t, and in s, what the tags of the request say. It comes before
// Arrive or Observe, with the Workflow of t set; Feedback must follow.
func (n *Node) Describe(now mono.Time, t *admission.Ticket, tags *Tags, s *Stay) {
	*s = Stay{Total: tags.Total, Asked: tags.Asks()}
	t.Stay = s
	if s.Measured = s.Asked || n.totals != nil; s.Measured {
		if !s.Asked && tags.Total == (wire.Progress{}) && n.totals != nil {
			s.Entered = true
			s.Total.Service, s.Total.Work, _ = n.totals.Expect(t.Workflow)
			s.Least = n.totals.Least(t.Workflow)
		} else if n.parts != nil {
			s.Least = n.parts.Least(t.Workflow)
		}
		t.Remaining = progress.Remaining(s.Total.Service, tags.Elapsed.Service)
		t.Total, t.Done, t.Least = s.Total.Work, tags.Elapsed.Work, max(s.Least, 1)
	}
	if n.fair {
		s.flow = n.flowOf(now, t.Workflow)
		s.flow.Inside++
		t.Flow = s.flow.Number
	}
	if n.rated && tags.Process != 0 {
		s.from = tags.Process
		t.From, t.Claim = n.peer(now, tags.Process, ""), tags.Claim
	}
}

// Announce returns the rate for the process that sent the request of t, in
// requests/s, and whether there is a limit. announces is false, and nothing is to be
// said, if the sender did not name itself or workflows have no rates. A gate that
// only observed the request announces that there is no limit.
func (n *Node) Announce(t *admission.Ticket) (announces bool, rate float64, limited bool) {
	s := stayOf(t)
	if s == nil || s.from == 0 {
		return false, 0, false
	}
	if !s.observed {
		rate, limited = n.gate.Announce(t)
	}
	return true, rate, limited
}

// SetShare changes what a workflow gets of its class's part of the slots, 1 at
// first, and tells the workflow apart from now on. It reports false, and does
// nothing, without Schedule.Fair, for a share out of range (schedule.MinWeight to
// MaxWeight), and when no more workflows can be told apart.
func (n *Node) SetShare(now mono.Time, workflow string, share float64) bool {
	return n.fair && n.setShare(now, workflow, share)
}

func (n *Node) setShare(now mono.Time, workflow string, share float64) bool {
	w := n.flowOf(now, workflow)
	if w.Name != workflow || !n.gate.SetShare(w.Number, share) {
		return false
	}
	w.Pinned = true
	return true
}

// flowOf returns the workflow as the queue tells it apart.
func (n *Node) flowOf(now mono.Time, workflow string) *Flow {
	w, fresh := n.flows.Of(now, workflow)
	if fresh {
		n.gate.SetShare(w.Number, 1) // whosever it was before
	}
	return w
}

// SetTerms replaces the terms of all workflows at the rates: see
// admission.Gate.SetTerms.
func (n *Node) SetTerms(now mono.Time, terms map[string]rates.Terms) error {
	if n.gate == nil {
		return errors.New("node: another policy than the gate decides, so there are no terms to set")
	}
	return n.gate.SetTerms(now, terms)
}

// SetWeight changes what a class gets of the slots relative to the others: see
// schedule.Queue.SetWeight. With another policy than the gate it reports false.
func (n *Node) SetWeight(class work.Class, weight float64) bool {
	return n.gate != nil && n.gate.SetWeight(class, weight)
}
