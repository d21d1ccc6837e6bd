package schedule

// Inherit says that waiter cannot go on before holder has, because holder has
// something that waiter needs: a lock, a permit, a connection. Where waiter stands
// better, holder takes its class, priority and key until Release, whether it waits
// in this queue, in another of the same order, or has yet to be pushed. It reports
// whether that helped. It stays in its own workflow, which is charged.
//
// What waiter inherited itself is passed on, so a chain is told from its far end.
// Interactive counts as the better class.
func (q *Queue) Inherit(holder, waiter *Task) bool {
	s := q.standing(waiter)
	if own := q.standing(holder); own.raised(s) == own {
		return false
	}
	if holder.lent {
		s = holder.loan.raised(s)
	}
	holder.loan, holder.lent = s, true
	holder.restand()
	return true
}

// Release takes back what holder inherited: it gave up what the others wait for.
// If it holds more than that, tell those waiters again. It reports whether there
// was anything to take back.
func (q *Queue) Release(holder *Task) bool {
	if !holder.lent {
		return false
	}
	holder.loan, holder.lent = standing{}, false
	holder.restand()
	return true
}

// restand puts t where it stands now, if it waits.
func (t *Task) restand() {
	q := t.in
	if q == nil {
		return
	}
	if q.plain.holds {
		q.spread()
	}
	if !q.mixed {
		q.mix() // with what t stood for, or stands for now
	}
	s := q.standing(t)
	if leaf := q.leaf(s.class, t.Workflow); leaf != t.leaf {
		q.unlink(t)
		q.leaveTurn(t, t.leaf, false)
		q.takeTurn(t)
		q.link(t)
		return
	}
	t.leaf.unrank(t)
	t.leaf.rank(t, s.priority)
	if at := t.places[byTurn]; at != nowhere {
		t.leaf.later.put(at, entry{int64(t.turn), t, s.priority})
		return
	}
	t.leaf.lineOf(t).put(t.places[byOrder], entry{s.key, t, s.priority})
}
