package schedule

// agenda is a binary heap of the children in a ring, by the turn in which each can be
// served. Every child knows its place in it. Most of what is charged puts a turn off, and
// most turns come in the order of the ring, so a child that is put off keeps its place until
// it is first: listed is never after served.
type agenda []*node

func (n *node) before(m *node) bool {
	return n.listed < m.listed || n.listed == m.listed && n.label < m.label
}

// first returns the child that can be served first.
func (a *agenda) first() *node {
	for {
		c := (*a)[0]
		if c.listed == c.served {
			return c
		}
		c.listed = c.served
		a.down(c)
	}
}

func (a *agenda) push(n *node) {
	n.place, n.listed = len(*a), n.served
	*a = append(*a, n)
	a.up(n)
}

func (a *agenda) remove(n *node) {
	h := *a
	last := len(h) - 1
	moved := h[last]
	h[last] = nil
	*a = h[:last]
	if n != moved {
		moved.place = n.place
		h[moved.place] = moved
		a.fix(moved)
	}
}

// fix finds the place of n, where another one was.
func (a *agenda) fix(n *node) {
	if !a.up(n) {
		a.down(n)
	}
}

// advance finds the place of n, whose turn comes earlier than it was listed.
func (a *agenda) advance(n *node) {
	n.listed = n.served
	a.up(n)
}

func (a *agenda) up(n *node) (moved bool) {
	h, i := *a, n.place
	for i > 0 && n.before(h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		h[i].place = i
		i = (i - 1) / 2
		moved = true
	}
	h[i], n.place = n, i
	return moved
}

func (a *agenda) down(n *node) {
	h, i := *a, n.place
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if n.before(h[child]) {
			break
		}
		h[i] = h[child]
		h[i].place = i
		i = child
	}
	h[i], n.place = n, i
}

// labelGap lies between labels where there is room, and labelStep between those that
// come one after another before the same child: a million fit into a gap.
const (
	labelGap  = 1 << 40
	labelStep = 1 << 20
)

// labelBefore returns a label for a newcomer before c in the ring.
func (n *node) labelBefore(c *node) uint64 {
	low, high := c.prev.label, c.label
	if high <= low && low < 1<<63 {
		return low + labelGap // after the last of a round
	}
	if high > low+1 {
		return low + min(labelStep, (high-low)/2)
	}
	n.relabel()
	return n.labelBefore(c)
}

// relabel gives all children in the ring new labels, in the same order. It is needed
// once in a million newcomers, unless they come in an order that seeks it.
func (n *node) relabel() {
	first := n.turn
	for first.prev.label < first.label {
		first = first.prev
	}
	label := uint64(labelGap)
	for c := first; ; c = c.next {
		c.label = label
		label += labelGap
		if c.next == first {
			break
		}
	}
	n.turnLabel = n.turn.label
}
