package culprit

// explain fills Blame: what each resource costs, and which share of the missed
// objective it explains. It returns the sum of these shares, at most 1.
//
// Late tasks in flight tell it directly, by what they lose their time to now, or lost it
// to at the last few samples. Where requests end too fast to be seen late in flight, Little's law does: the
// mean time in the system, tasks in flight ÷ throughput, has risen, and part of
// the rise was lost to the resource. A late task that hogs a resource is no part of that
// mean: its own time is what the others wait for, and would hide what they lose.
func explain(v *view, w *recent, n *normal, blame []Blame) float64 {
	total := 0.0
	waiting, busy := lateTasks(v)
	switch d := &w.delayed; {
	case waiting >= stuckVictims:
		explainLate(v, float64(waiting)+max(float64(busy)-n.busy, 0), blame)
	case d.waiting >= stuckVictims:
		for r := range blame {
			blame[r].Explains = d.lost[r] / (d.waiting + max(d.busy-n.busy*w.looks, 0))
		}
	default:
		explainMean(w, n, blame)
	}
	for r := range blame {
		blame[r].Lost = weight(v, w, r)
		blame[r].Level = v.levels[r].value()
		total += blame[r].Explains
	}
	return min(total, 1)
}

// weight returns C_r, the share of in-flight time lost to r. For memory that is
// the time of evictions weighted by the contention level, if the source counts
// them: a pool that seldom evicts delays by its misses alone.
func weight(v *view, w *recent, r int) float64 {
	lost := ratio(w.lost[r], w.inFlight)
	if l := &v.levels[r]; v.s.Resources[r].Kind == Memory && l.waits > 0 {
		lost *= min(l.value(), 1)
	}
	return min(lost, 1)
}

// lateTasks counts the late foreground tasks: those that mainly wait, or waited, and those
// that are busy and hold nothing that others lose time to. What a culprit does
// itself is neither.
func lateTasks(v *view) (waiting, busy int) {
	for i := range v.n {
		switch {
		case !v.overdue[i]:
		case v.delayed[i] >= 0.5:
			waiting++
		case !v.hogs(i):
			busy++
		}
	}
	return waiting, busy
}

// hogs reports whether task i uses a resource that others lose time to.
func (v *view) hogs(i int) bool {
	for r := range v.r {
		if v.lostTo[r] > 0 && v.holds(i, r) {
			return true
		}
	}
	return false
}

func explainLate(v *view, late float64, blame []Blame) {
	for r := range blame {
		blame[r].Explains = 0
	}
	for i := range v.n {
		if v.overdue[i] && v.delayed[i] >= 0.5 {
			for r, lost := range v.due[i*v.r : (i+1)*v.r] {
				blame[r].Explains += lost
			}
		}
	}
	for r := range blame {
		blame[r].Explains /= late
	}
}

func explainMean(w *recent, n *normal, blame []Blame) {
	flight := w.flight()
	now, before := ratio(flight, w.throughput()), ratio(n.inFlight, n.throughput)
	for r := range blame {
		lost := min(ratio(w.lost[r], w.others), 1)
		switch {
		case now == 0 || before == 0: // nothing ends, or nothing is known of normal times
			blame[r].Explains = lost
		case now <= before:
			blame[r].Explains = 0
		default:
			blame[r].Explains = min(max((lost*now-n.lostOf(r)*before)/(now-before), 0), 1)
		}
	}
}

// lostOf returns the share of in-flight time lost to r in normal times.
func (n *normal) lostOf(r int) float64 {
	if r >= len(n.lost) {
		return 0
	}
	return n.lost[r]
}
