package node

import (
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/mono"
)

// mark is a request that was named and cancelled, and has not left:
//
//	Arrive ──────── Mark ─────────────── Leave
//	credits noted   the pool keeps its   and returns in one step to four fifths of
//	                size meanwhile       what it was before the request came
//
// The delay that a culprit causes says nothing of what the server can do, so it must
// not move the credits.
type mark struct {
	ticket *admission.Ticket
	before int // credits before it came
	until  mono.Time
}

// markObjectives is for how many objectives a mark keeps the pool as it is. A handler
// that has not let go by then ignores its cancel, and the credits must follow the loss of
// what it holds.
const markObjectives = 10

// Look notes how many credits there are, and keeps the victims of a marked request that has not
// let go. A driver calls it whenever it looks for culprits.
func (n *Node) Look(now mono.Time) {
	if n.gate == nil {
		return
	}
	n.looks.note(now, n.gate.Pool().Total())
	if n.excuse(now) {
		n.gate.OnCulprit(now, true)
	}
}

// Suspect says that the engine has a pick which is not confirmed yet, or acts on one that
// it cannot cancel: see admission.Gate.OnCulprit.
func (n *Node) Suspect(now mono.Time) {
	if n.gate != nil {
		n.gate.OnCulprit(now, false)
		n.excuse(now)
	}
}

// Doubt says that the engine would suspect a request if that were older: see admission.Gate.OnDoubt.
func (n *Node) Doubt(now mono.Time) {
	if n.gate != nil {
		n.gate.OnDoubt(now)
	}
}

// Mark says that t, which runs, is a culprit that was cancelled. Until it leaves the
// pool keeps its size, and then has at once at least four fifths of what it had before
// the request came, and at most that: see credit.Pool.Recover.
func (n *Node) Mark(now mono.Time, t *admission.Ticket) {
	if n.gate == nil {
		return
	}
	until := now.Add(markObjectives * n.gate.Config().Objective)
	n.marked = append(n.marked, mark{t, n.looks.before(t), until})
	n.gate.OnCulprit(now, true)
	n.excuse(now)
}

// unmark ends the mark of a ticket that left.
func (n *Node) unmark(now mono.Time, t *admission.Ticket) {
	marked := n.marked
	for i := range marked {
		if marked[i].ticket == t {
			before := marked[i].before
			n.marked = append(marked[:i], marked[i+1:]...)
			n.excuse(now)
			n.gate.Pool().Recover(now, before)
			return
		}
	}
}

// excuse has the pool keep its size while a marked request may still let go, which it
// reports, or the gate keeps its victims.
func (n *Node) excuse(now mono.Time) (marked bool) {
	for i := range n.marked {
		marked = marked || now < n.marked[i].until
	}
	n.gate.Pool().Excuse(marked || n.gate.Holding(now))
	return marked
}

// history is the number of credits in the past, one value a look. It reaches back 64 looks, some seconds: what was
// earlier is no part of the incident. A driver that rests while nobody is there notes nothing meanwhile.
type history struct {
	looks [64]struct {
		at    mono.Time
		total int
	}
	next int
}

func (h *history) note(at mono.Time, total int) {
	look := &h.looks[h.next%len(h.looks)]
	look.at, look.total = at, total
	h.next++
}

// before returns the credits when t came: at the last look before that or the first one after it, whichever had more, as the pool
// moves in between, and shrinks fast once t is there. If t came before the oldest look, it is what the pool had at that: a request that has run for
// an hour may have come when nobody else was there, or the server was another. 0: there was no look.
func (h *history) before(t *admission.Ticket) int {
	total := 0
	for i := max(h.next-len(h.looks), 0); i < h.next; i++ {
		look := &h.looks[i%len(h.looks)]
		if look.at > t.Arrived {
			return max(total, look.total)
		}
		total = look.total
	}
	return total
}
