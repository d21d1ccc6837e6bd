package schedule

import "github.com/spillgate/spillgate/internal/work"

// Ahead returns how many of the waiting tasks are served before one of that class,
// workflow, priority and sender that is pushed now, if all cost the same and nothing else comes. Of its own workflow
// those of a better priority count, and those of the same one whose turns are no later, whatever the order: who is
// refused for what waits ahead of him must not be better off by a key that anybody can claim, and a priority is what
// the edge decided. In FIFO, where tasks of several groups of kinds wait, it is how many tasks of the mean length take as long
// as those that are served before one of that kind. It takes time linear in the number of workflows that have tasks waiting, in the turns that the sender
// has before and, where priorities differ, in the number of better ones.
func (q *Queue) Ahead(class work.Class, workflow int, priority work.Priority, sender uint64, kind Kind) int {
	leaf := q.known(class, workflow)
	if leaf == nil { // nothing of it waits, or ever did
		if workflow < 0 || workflow >= q.cfg.Workflows {
			workflow = 0
		}
		if class >= work.NumClasses {
			class = work.Default
		}
		return beside(&q.classes[class], nil, max(float64(q.cfg.Quantum)*q.shares[workflow], 1), 0)
	}
	own := leaf.waiting
	if leaf.rota != nil {
		own = leaf.rota.ahead(sender, own)
	}
	if leaf.waiting > 0 && q.cfg.Order == FIFO {
		own = leaf.aheadOf(kind, own)
	}
	return beside(leaf.parent, leaf, float64(leaf.quantum), q.preceding(leaf, priority, own))
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
