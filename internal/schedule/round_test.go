package schedule

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// walked is a ring that walks all its children at every turn: slow, and plain enough to
// be read as the definition of the turns.
type walked struct {
	quantum, deficit map[int]time.Duration
	granted          map[int]int64
	era              map[int]uint32
	ring             []int // from the child after turn, which is the last
	fresh            bool
	passed           int64
}

func (r *walked) pick() (child int, grants int64) {
	if turn := r.ring[len(r.ring)-1]; r.deficit[turn] > 0 {
		return turn, 0
	}
	child = -1
	for _, c := range r.ring {
		need := int64(1)
		if r.deficit[c] <= 0 {
			need += int64(-r.deficit[c] / r.quantum[c])
		}
		if child < 0 || need < grants {
			child, grants = c, need
		}
	}
	return child, grants
}

func (r *walked) begin(child int, grants int64) {
	if grants == 0 {
		return
	}
	if len(r.ring) == 1 {
		r.era[child]++
	}
	at, g := 0, grants
	for i, c := range r.ring {
		r.deficit[c] += time.Duration(g) * r.quantum[c]
		r.granted[c] += g
		if c == child {
			g--
			at = i
		}
	}
	r.ring = append(append([]int{}, r.ring[at+1:]...), r.ring[:at+1]...)
	r.fresh = false
	r.passed = max(r.passed, r.granted[child])
}

func (r *walked) enter(c int) {
	r.deficit[c] = min(r.deficit[c], 0)
	if away := r.passed - r.granted[c]; away > int64(-r.deficit[c]/r.quantum[c]) {
		r.deficit[c] = 0
	} else if away > 0 {
		r.deficit[c] += time.Duration(away) * r.quantum[c]
	}
	r.granted[c] = r.passed
	r.era[c]++
	last := len(r.ring) - 1
	switch {
	case last < 0:
		r.ring, r.fresh = []int{c}, true
	case r.fresh:
		r.ring = append(r.ring, c)
	default:
		r.ring = append(r.ring[:last:last], c, r.ring[last])
	}
}

func (r *walked) leave(c int) {
	for i, have := range r.ring {
		if have == c {
			r.ring = append(r.ring[:i:i], r.ring[i+1:]...)
			return
		}
	}
}

func (r *walked) bounded(c int, d time.Duration) time.Duration {
	return min(max(d, -maxRounds*r.quantum[c]), maxRounds*r.quantum[c])
}

// TestTurnsAgainstWalkedRing: the agenda decides as a ring that is walked, and knows of
// the same debts.
func TestTurnsAgainstWalkedRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		children := rapid.IntRange(1, 8).Draw(t, "children")
		parent := newNode(nil)
		slow := &walked{map[int]time.Duration{}, map[int]time.Duration{}, map[int]int64{}, map[int]uint32{}, nil, false, 0}
		nodes := make([]*node, children)
		for i := range nodes {
			n := newNode(&parent)
			nodes[i] = &n
			n.weigh(time.Millisecond, 1)
			slow.quantum[i] = nodes[i].quantum
		}
		use := rapid.OneOf(rapid.Int64Range(0, int64(5*time.Millisecond)), rapid.Int64Range(0, int64(time.Minute)))
		number := rapid.IntRange(0, children-1)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := number.Draw(t, "child")
			n := nodes[i]
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				if n.next == nil {
					parent.enter(n)
					slow.enter(i)
				}
			case 2:
				if n.next != nil {
					parent.leave(n)
					slow.leave(i)
				}
			case 3:
				w := rapid.Float64Range(0.01, 100).Draw(t, "weight")
				n.weigh(time.Millisecond, w)
				slow.quantum[i] = n.quantum
				slow.deficit[i] = slow.bounded(i, slow.deficit[i])
			case 4:
				d := time.Duration(use.Draw(t, "refund"))
				n.refund(d, n.era)
				slow.deficit[i] = slow.bounded(i, slow.deficit[i]+d)
			case 5:
				// No room between labels: the next newcomer makes all labels new.
				if parent.children > 0 {
					parent.relabel()
					for _, c := range parent.agenda {
						c.label /= labelGap
					}
					parent.passTo(parent.turn)
				}
			default:
				if parent.children == 0 {
					continue
				}
				child, grants := parent.pick()
				want, need := slow.pick()
				if child != nodes[want] || grants != need {
					t.Fatalf("child %d is served after %d grants, expected another or %d", want, grants, need)
				}
				parent.begin(child, grants)
				slow.begin(want, need)
				d := time.Duration(use.Draw(t, "use"))
				child.debit(d)
				slow.deficit[want] = slow.bounded(want, slow.deficit[want]-d)
			}
			for i, n := range nodes {
				granted := n.granted
				if n.next != nil {
					granted += n.turns() - n.told
				}
				if n.left() != slow.deficit[i] || granted != slow.granted[i] || n.era != slow.era[i] || parent.passed != slow.passed {
					t.Fatalf("child %d: deficit %v, granted %d, era %d, expected %v, %d, %d", i, n.left(), granted, n.era, slow.deficit[i], slow.granted[i], slow.era[i])
				}
			}
		}
	})
}
