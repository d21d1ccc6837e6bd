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
// nobody could be served are not walked but counted.
type node struct {
	// As one of its parent's children.
	parent     *node
	quantum    time.Duration // in a round
	deficit    time.Duration // left to use in this turn; below zero it owes
	granted    int64         // rounds in which it got its quantum
	era        uint32        // ends when rounds that nobody missed forgive a debt
	prev, next *node         // in the ring; nil when nothing waits

	// As a parent. turn is the child whose turn it is, or was the last, or while
	// the ring is fresh, will be the last.
	turn     *node
	fresh    bool  // no child was served since the ring was empty
	children int   // in the ring
	waiting  int   // tasks, in all leaves below
	passed   int64 // rounds

	// As a leaf.
	order heap
	ages  list
}

// weigh gives n the share or weight w, from its next turn on.
func (n *node) weigh(quantum time.Duration, w float64) {
	n.quantum = max(time.Duration(float64(quantum)*w), 1)
	n.deficit = n.bounded(n.deficit)
}

// first returns the task of a leaf that is next, nil if none waits.
func (n *node) first(now mono.Time, aging time.Duration) *Task {
	if oldest := n.ages.head; oldest != nil && now.Sub(oldest.Arrived) >= aging {
		return oldest
	}
	return n.order.first()
}

// pick returns the child to be served, and after how many more grants. It changes
// nothing. A child must wait.
func (n *node) pick() (child *node, grants int64) {
	if n.turn.deficit > 0 {
		return n.turn, 0
	}
	c := n.turn
	for range n.children {
		c = c.next
		need := int64(1)
		if c.deficit <= 0 {
			need += int64(-c.deficit / c.quantum)
		}
		if child == nil || need < grants {
			child, grants = c, need
		}
		if grants == 1 {
			break // nobody needs less, and who comes first goes first
		}
	}
	return child, grants
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
	c, g := n.turn, grants
	for range n.children {
		c = c.next
		c.deficit += time.Duration(g) * c.quantum
		c.granted += g
		if c == child {
			g--
		}
	}
	n.turn, n.fresh = child, false
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
	n.children++
	switch last := n.turn; {
	case last == nil:
		c.prev, c.next = c, c
		n.turn, n.fresh = c, true
		return
	case n.fresh:
		c.prev, c.next = last, last.next
		n.turn = c
	default: // before the one that has just been served
		c.prev, c.next = last.prev, last
	}
	c.prev.next, c.next.prev = c, c
}

// leave takes a child out of the ring because nothing waits there any more.
func (n *node) leave(c *node) {
	n.children--
	if n.turn == c {
		n.turn = c.prev
	}
	if n.children == 0 {
		n.turn = nil
	}
	c.prev.next, c.next.prev = c.next, c.prev
	c.prev, c.next = nil, nil
}

// debit charges n for a use of its parent.
func (n *node) debit(use time.Duration) {
	n.deficit = n.bounded(n.deficit - min(use, maxUse))
}

// refund takes back what a debit of that era has charged too much. If the debt has
// been forgiven meanwhile, for n was idle or alone, no credit grows from it.
func (n *node) refund(d time.Duration, era uint32) {
	after := n.bounded(n.deficit + min(d, maxUse))
	if era != n.era {
		after = min(after, max(n.deficit, 0))
	}
	n.deficit = after
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
// they forgive what siblings who are away owe.
func (n *node) pass(use time.Duration) {
	rounds := min(int64(use/n.quantum), maxRounds)
	n.parent.passed += rounds
	n.granted += rounds
}
