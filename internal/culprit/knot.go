package culprit

// knot holds what is computed to find tasks that wait for each other. None of them ever goes on by itself, so ending one of
// them takes nothing from it.
type knot struct {
	stuck []bool  // by task: it waits for those alone that are stuck as well
	waits []int32 // by task: the resource that it waits for, -1 for none
	all   []int32 // by resource: how many hold it
	held  []int32 // by resource: how many of these are stuck; later: how many that are stuck wait for it
}

// farthest bounds how far what is not stuck is followed. Longer chains are left alone.
const farthest = 16

// find marks the tasks that wait for each other, and reports whether there are any. Each has waited for a minimum age,
// which none does for one that goes on to wait for it. A waiter goes on when one of the others that hold a queue lets go, or,
// as a resource may be many locks, one of those that hold a lock.
func (k *knot) find(v *view, g *graph, minAge float64) bool {
	k.stuck, k.waits, k.all = resized(k.stuck, v.n), resized(k.waits, v.n), resized(k.all, v.r)
	for i := range k.waits {
		k.waits[i] = -1
	}
	for i := range v.s.Holds {
		h := &v.s.Holds[i]
		kind := v.s.Resources[h.Resource].Kind
		if kind != Lock && kind != Queue || g.queued[h.Resource].edges { // where the server knows who waits for whom, it unties knots itself
			continue
		}
		if h.HeldSince != Unset {
			k.all[h.Resource]++
		}
		if h.WaitingSince != Unset && seconds(v.s.At.Sub(h.WaitingSince)) >= minAge {
			k.stuck[h.Task], k.waits[h.Task] = true, h.Resource
		}
	}
	return k.settle(v, k.holding, func(v *view, i int, r int32) bool {
		others, stuck := k.all[r], k.held[r]
		if v.keepsOf(i, int(r)) {
			others, stuck = others-1, stuck-1
		}
		return others > 0 && stuck == others
	}) && k.settle(v, k.wanted, func(v *view, i int, _ int32) bool { // those that only wait behind a knot
		for r, n := range k.held {
			if n > 0 && v.keepsOf(i, r) && (n > 1 || int(k.waits[i]) != r) {
				return true
			}
		}
		return false
	})
}

// settle takes the mark from tasks that are not stuck until no more change, and reports whether any are left.
func (k *knot) settle(v *view, count func(v *view), is func(v *view, i int, waits int32) bool) bool {
	for range farthest {
		k.held = resized(k.held, v.r)
		count(v)
		changed, left := false, false
		for i, stuck := range k.stuck {
			if stuck && !is(v, i, k.waits[i]) {
				k.stuck[i], changed = false, true
			}
			left = left || k.stuck[i]
		}
		if !changed || !left {
			return left
		}
	}
	return false
}

// holding counts, by resource, those that are stuck and hold it.
func (k *knot) holding(v *view) {
	for i := range v.s.Holds {
		if h := &v.s.Holds[i]; h.HeldSince != Unset && k.stuck[h.Task] {
			k.held[h.Resource]++
		}
	}
}

// wanted counts, by resource, those that are stuck and wait for it.
func (k *knot) wanted(v *view) {
	for i, stuck := range k.stuck {
		if stuck {
			k.held[k.waits[i]]++
		}
	}
}

// keepsOf reports whether task i holds resource r at present.
func (v *view) keepsOf(i, r int) bool {
	h := v.holdOf[i*v.r+r]
	return h > 0 && v.s.Holds[h-1].HeldSince != Unset
}

// untie returns the index in found of the task whose end unties a knot best, -1 if there is none: one of a kind that innocents
// do not have, else the one that has worked least.
func (e *Engine) untie(v *view) int {
	if !e.knot.find(v, &e.graph, e.cfg.MinAge.Seconds()) {
		return -1
	}
	best, mine := contender{task: -1}, false
	for i, stuck := range e.knot.stuck {
		if !stuck {
			continue
		}
		if e.cfg.Mode == Monitor && e.stepTaken(v.s.Tasks[i].ID) != NoStep {
			return -1 // it was reported, and with its end the others would go on
		}
		c := contender{task: i, gains: e.graph.final[i*v.r : (i+1)*v.r], resource: int(e.knot.waits[i])}
		e.price(v, &c)
		c.common = e.kindWaits(v, &c, 0)
		guest := !e.innocents(v, &c)
		if v.s.Tasks[i].Barred != NotBarred || c.step == NoStep || best.task >= 0 && (mine && !guest || mine == guest && c.cost >= best.cost) {
			continue
		}
		best, mine = c, guest
	}
	if best.task < 0 {
		return -1
	}
	for k := range e.found {
		if e.found[k].task == best.task {
			e.found[k].why = WhyNot
			return k
		}
	}
	e.found = append(e.found, best)
	return len(e.found) - 1
}
