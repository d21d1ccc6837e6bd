package schedule

import "time"

// Charge tells what a task that was dispatched has used of the resource so far.
// What is beyond its estimate is charged at once. Call it every 10 ms or so while
// a task runs for long, so that the others do not wait for its end to be served
// first. What is used while no sibling waits harms nobody and is not charged.
// Being told less than before, or of a task that does not run, is harmless.
func (q *Queue) Charge(t *Task, used time.Duration) {
	if t.in != nil || t.leaf == nil || used <= t.charged {
		return
	}
	more := used - t.charged
	t.charged = used
	for i, n := 0, t.leaf; n.parent != nil; i, n = i+1, n.parent {
		if n.alone() {
			n.pass(more)
		} else {
			n.debit(more)
			t.owed[i] += more
		}
	}
}

// Settle tells what a task that was dispatched has used altogether, and that it
// is done. What it was charged too much is given back. It must be called once for
// every task that ran, also when it failed or was canceled; later calls do
// nothing.
func (q *Queue) Settle(t *Task, used time.Duration) {
	if t.in != nil || t.leaf == nil {
		return
	}
	q.Charge(t, used)
	if over := t.charged - max(used, 0); over > 0 {
		for i, n := 0, t.leaf; n.parent != nil; i, n = i+1, n.parent {
			n.refund(min(over, t.owed[i]), t.eras[i])
		}
	}
	if t.rota != nil && t.Cost > 0 {
		t.rota.settle(t, float64(max(used, 0))/float64(t.Cost))
	}
	t.leaf = nil
}

// dispatch charges the estimate of t to its leaf and all above it. It does so
// also when no sibling waits: one may come while t runs, and has waited then.
func (t *Task) dispatch(quantum time.Duration) {
	t.charged = t.Cost
	if t.Cost <= 0 {
		t.charged = quantum
	}
	for i, n := 0, t.leaf; n.parent != nil; i, n = i+1, n.parent {
		n.charge(t.charged)
		t.owed[i], t.eras[i] = t.charged, n.era
	}
}
