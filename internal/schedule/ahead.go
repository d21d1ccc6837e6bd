package schedule

import "github.com/spillgate/spillgate/internal/work"

// Ahead returns how many of the waiting tasks are served before one of that class
// and workflow that is pushed now, if all cost the same and nothing else comes. All
// of its own workflow count, whatever the order: who is refused for what waits ahead
// of him must not be better off by a key that anybody can claim. It takes time
// linear in the number of workflows that have tasks waiting.
func (q *Queue) Ahead(class work.Class, workflow int) int {
	if class >= work.NumClasses {
		class = work.Default
	}
	var leaf *node
	if leaf = &q.classes[class]; q.cfg.Fair {
		if workflow < 0 || workflow >= q.cfg.Workflows {
			workflow = 0
		}
		if f := q.flows[class][workflow]; f != nil {
			leaf = f
		} else { // nothing of it waits, or ever did
			return beside(&q.classes[class], nil, max(float64(q.cfg.Quantum)*q.shares[workflow], 1), 0)
		}
	}
	return beside(leaf.parent, leaf, float64(leaf.quantum), leaf.waiting)
}

// beside returns how many tasks below n and its parents are served while a child of
// n with that quantum is served its own and one more.
func beside(n, child *node, quantum float64, own int) int {
	for n != nil {
		turns := own + 1
		if c := n.turn; c != nil {
			for range n.children {
				if c != child {
					own += min(c.waiting, int(float64(turns)*float64(c.quantum)/quantum))
				}
				c = c.next
			}
		}
		child, quantum, n = n, float64(n.quantum), n.parent
	}
	return own
}
