package schedule

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// maxRounds is how many rounds a child sits out at most, and how many it can be
// ahead after its costs were estimated too high: what is beyond is forgiven.
const maxRounds = 1 << 16

// maxUse is the most that counts of one charge or refund.
const maxUse = time.Duration(1) << 61

// depth is the most levels of children: classes, and workflows in them.
const depth = 2

// node is the root, a class or a workflow in a class. The children of a node that
// have tasks waiting stand in a ring and take turns: deficit round robin
// (Shreedhar and Varghese), in the form that lets the last task of a turn overdraw,
// because what a task costs is certain only when it is done. Rounds in which
// no child could be served are not walked but counted: a child is told of its turns
// when something else about it changes, and the agenda says which can be served first where
// the next in the ring cannot.
type node struct {
	// As one of its parent's children. deficit and granted include the turns up to
	// told; see left.
	parent     *node
	quantum    time.Duration // in a round
	deficit    time.Duration // left to use in this turn; below zero it owes
	granted    int64         // rounds in which it got its quantum
	era        uint32        // ends when rounds that harmed no sibling forgive a debt
	prev, next *node         // in the ring; nil when nothing waits
	label      uint64        // ascends along the ring, but for one place where a round ends
	told       int64         // the first round whose turn it was not told of
	served     int64         // the round in which its turn can serve a task, if none is before
	listed     int64         // the same, as the agenda has it
	place      int           // in the agenda

	// As a parent. turn is the child whose turn it is, or was the last, or while
	// the ring is fresh, will be the last.
	turn      *node
	turnLabel uint64 // of turn, which is far away in memory
	round     int64  // of that turn
	fresh     bool   // no child was served since the ring was empty
	children  int    // in the ring
	waiting   int    // tasks, in all leaves below; not counted at the root
	passed    int64  // rounds
	agenda    agenda

	// As a leaf. The heap is empty where the line alone says who is next.
	order   heap
	later   heap   // tasks whose turns have not come; empty in FIFO
	kinds   *kinds // nil: never needed
	several bool   // tasks of several groups have waited since the leaf was empty: their lines are in kinds, and order is empty
	group   int    // of all tasks, unless several
	ages    list
	ranks   *ranks
	rota    *rota // nil: senders take no turns, or no two tasks have waited since the leaf was empty
}

// weigh gives n the share or weight w, from its next turn on.
func (n *node) weigh(quantum time.Duration, w float64) {
	n.tell()
	n.quantum = max(time.Duration(float64(quantum)*w), 1)
	n.deficit = n.bounded(n.deficit)
	n.plan()
}

// turns returns the round of n's next turn, for n in the ring.
func (n *node) turns() int64 {
	if n.label <= n.parent.turnLabel {
		return n.parent.round + 1
	}
	return n.parent.round
}

// passTo makes it the turn of c, which is in the ring, or of nobody if that is empty.
func (n *node) passTo(c *node) {
	if n.turn = c; c != nil {
		n.turnLabel = c.label
	}
}

// left returns the deficit of n, with the turns that it was not told of.
func (n *node) left() time.Duration {
	if n.next == nil {
		return n.deficit
	}
	return n.deficit + time.Duration(n.turns()-n.told)*n.quantum
}

// tell tells n of its turns up to now.
func (n *node) tell() {
	if n.next == nil {
		return
	}
	turns := n.turns()
	n.deficit += time.Duration(turns-n.told) * n.quantum
	n.granted += turns - n.told
	n.told = turns
}

// vain returns how many turns n has in vain before one in which it can be served.
func (n *node) vain() int64 {
	if -n.deficit < n.quantum {
		return 0 // as nearly always, and a division takes as long as the rest
	}
	return int64(-n.deficit / n.quantum)
}

// plan finds the turn in which n, which was told, can be served. While it is n's turn
// that waits: it may be served several times, and is charged each time.
func (n *node) plan() {
	if n.next != nil && n.parent.turn != n {
		n.schedule()
	}
}

func (n *node) schedule() {
	n.served = n.told + n.vain()
	if n.served < n.listed {
		n.parent.agenda.advance(n)
	}
}

// first returns the task of a leaf that is next, nil if none waits.
func (n *node) first(now mono.Time, aging time.Duration) *Task {
	if n.ages.head != nil && now.Sub(n.ages.since) >= aging {
		return n.ages.head
	}
	if t := n.best(); t != nil {
		return t
	}
	return n.ages.head
}

// pick returns the child to be served, and after how many more grants. It changes
// nothing that comes. A child must wait.
func (n *node) pick() (child *node, grants int64) {
	n.turn.tell()
	if n.turn.deficit > 0 {
		return n.turn, 0
	}
	n.turn.schedule()
	if child = n.turn.next; child.served == child.turns() {
		return child, 1 // no other one has a turn before
	}
	child = n.agenda.first()
	return child, child.served - child.turns() + 1
}

// begin makes it the turn of the child that pick named. Those who stand before it
// have had as many turns as it has, in vain, those behind it one less.
func (n *node) begin(child *node, grants int64) {
	if grants == 0 {
		return
	}
	if n.children == 1 {
		child.era++
	}
	n.passTo(child)
	n.round, n.fresh = child.served, false
	child.tell()
	n.passed = max(n.passed, child.granted)
}

// enter puts a child at the end of the ring because something waits there now. It
// brings no credit, and owes less by the rounds that passed.
func (n *node) enter(c *node) {
	c.deficit = min(c.deficit, 0)
	if away := n.passed - c.granted; away > int64(-c.deficit/c.quantum) {
		c.deficit = 0 // the product could overflow
	} else if away > 0 {
		c.deficit += time.Duration(away) * c.quantum
	}
	c.granted = n.passed
	c.era++
	n.join(c)
	c.told = c.turns()
	c.served = c.told + c.vain()
	n.agenda.push(c)
}

// join puts c into the ring, before the child that has just been served.
func (n *node) join(c *node) {
	n.children++
	last := n.turn
	if last == nil {
		c.prev, c.next, c.label = c, c, labelGap
		n.passTo(c)
		n.fresh = true
		return
	}
	if n.fresh {
		last = last.next
	}
	c.label = n.labelBefore(last)
	c.prev, c.next = last.prev, last
	c.prev.next, c.next.prev = c, c
	if n.fresh {
		n.turn.tell()
		n.turn.schedule()
		n.passTo(c)
	}
}

// leave takes a child out of the ring because nothing waits there any more.
func (n *node) leave(c *node) {
	c.tell()
	n.agenda.remove(c)
	n.children--
	if n.turn == c {
		n.passTo(c.prev)
		if c.prev.label > c.label {
			n.round-- // back over the end of a round
		}
	}
	if n.children == 0 {
		n.passTo(nil)
	}
	c.prev.next, c.next.prev = c.next, c.prev
	c.prev, c.next = nil, nil
}

// charge is debit for a child that has just been served: it was told of its turns, and it is its turn.
func (n *node) charge(use time.Duration) { n.deficit = n.bounded(n.deficit - min(use, maxUse)) }

// debit charges n for a use of its parent.
func (n *node) debit(use time.Duration) {
	n.tell()
	n.deficit = n.bounded(n.deficit - min(use, maxUse))
	n.plan()
}

// refund takes back what a debit of that era has charged too much. If the debt has
// been forgiven meanwhile, for n was idle or alone, no credit grows from it.
func (n *node) refund(d time.Duration, era uint32) {
	n.tell()
	after := n.bounded(n.deficit + min(d, maxUse))
	if era != n.era {
		after = min(after, max(n.deficit, 0))
	}
	n.deficit = after
	n.plan()
}

// bounded keeps a deficit within maxRounds. No sum of it and a use overflows: a
// quantum is at most 1000 s.
func (n *node) bounded(d time.Duration) time.Duration {
	return min(max(d, -maxRounds*n.quantum), maxRounds*n.quantum)
}

// alone reports whether no sibling waits.
func (n *node) alone() bool {
	return n.parent.children == 0 || n.parent.children == 1 && n.next != nil
}

// pass counts a use that harms nobody, because n is alone, as rounds that pass:
// they forgive the debt of siblings that are away.
func (n *node) pass(use time.Duration) {
	rounds := min(int64(use/n.quantum), maxRounds)
	n.parent.passed += rounds
	n.granted += rounds
}
