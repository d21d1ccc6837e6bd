package culprit

import (
	"time"
)

// view is one sample in the terms that the decision needs. Matrices have a row
// for each task and a column for each resource.
type view struct {
	s    *Sample
	n, r int           // tasks, resources
	dt   time.Duration // since the previous sample

	inFlight, late, stuck int // foreground tasks
	hogging               int // late ones that others lose time to, see explainMean

	newlyLate  float64 // tasks that became late since the previous look, estimated by seenLate
	foundLate  int     // those of them that are in flight
	lateBefore uint64  // tasks that were late and are gone

	was     []int32   // by task: its index in the previous sample, -1 if it is new
	gone    []bool    // by task of the previous sample: it is not in this one
	age     []float64 // by task: seconds since its start
	span    []float64 // by task: seconds since the previous look or its start
	left    []float64 // by task: how many times what it did is still to come
	lost    []float64 // by task and resource: share of span lost to it
	wait    []float64 // by task: the sum over resources, at most 1
	waited  []float64 // by task and resource: seconds since the task began
	behind  []bool    // by task: waits at present
	overdue []bool    // by task: foreground and older than the objective
	due     []float64 // by task and resource: share of an overdue task's time that explains why it is late, see delay
	delayed []float64 // by task: the sum over resources, at most 1
	slotFor []float64 // by task: seconds since it took the slot that it took last, 0 if it has none
	starved []float64 // by task: share of span for which others had the processor that it needed
	uses    []usage   // by hold
	holdOf  []int32   // by task and resource: index of the hold plus 1

	lostTo []float64 // by resource: sum over the foreground of lost
	wanted []bool    // by resource: a task waits for it at present
	levels []level   // by resource
}

// look turns s into a view, against what the previous sample showed. With present,
// what is still to come counts as much as what was. It reports false if two tasks
// have one ID.
func (v *view) look(s *Sample, before, now *looked, objective time.Duration, present bool) bool {
	v.reset(s, before, objective)
	now.reset(s.At, v.n, v.r)
	for i := range s.Tasks {
		if !now.add(i, s.Tasks[i].ID, s.Tasks[i].Kind, s.Tasks[i].Owner) {
			return false
		}
		if v.was[i] = int32(before.find(s.Tasks[i].ID)); v.was[i] >= 0 {
			v.gone[v.was[i]] = false
		}
		age := s.At.Sub(s.Tasks[i].Started)
		v.age[i], v.span[i] = seconds(age), seconds(min(age, v.dt))
		now.starved[i] = s.Tasks[i].Starved
		if was := v.was[i]; v.span[i] > 0 {
			starved := now.starved[i]
			if was >= 0 {
				starved -= before.starved[was]
			}
			v.starved[i] = min(max(seconds(starved)/v.span[i], 0), 1)
		}
		v.left[i] = 1
		if !present {
			v.left[i] = ahead(s.Tasks[i].Done, s.Tasks[i].Total)
		}
	}
	for i := range s.Holds {
		v.hold(i, before, now)
	}
	for i, gone := range v.gone {
		if gone && before.late[i] {
			v.lateBefore++
		}
	}
	v.own(now)
	for i := range s.Tasks {
		v.task(i, before, now, objective)
	}
	v.hogging = 0
	for i := range s.Tasks {
		if v.overdue[i] && v.wait[i] < 0.5 && v.hogs(i) {
			v.hogging++
		}
	}
	return true
}

func (v *view) reset(s *Sample, before *looked, objective time.Duration) {
	v.s, v.n, v.r = s, len(s.Tasks), len(s.Resources)
	v.dt = objective
	if before.any {
		v.dt = s.At.Sub(before.at)
	}
	v.inFlight, v.late, v.stuck, v.newlyLate, v.foundLate, v.lateBefore = 0, 0, 0, 0, 0, 0
	v.was, v.age, v.gone = resized(v.was, v.n), resized(v.age, v.n), resized(v.gone, before.tasks())
	for i := range v.gone {
		v.gone[i] = true
	}
	v.span, v.left, v.wait = resized(v.span, v.n), resized(v.left, v.n), resized(v.wait, v.n)
	v.lost, v.waited = resized(v.lost, v.n*v.r), resized(v.waited, v.n*v.r)
	v.behind, v.overdue = resized(v.behind, v.n), resized(v.overdue, v.n)
	v.due, v.delayed = resized(v.due, v.n*v.r), resized(v.delayed, v.n)
	v.slotFor, v.starved = resized(v.slotFor, v.n), resized(v.starved, v.n)
	v.uses, v.holdOf = resized(v.uses, len(s.Holds)), resized(v.holdOf, v.n*v.r)
	v.lostTo, v.wanted, v.levels = resized(v.lostTo, v.r), resized(v.wanted, v.r), resized(v.levels, v.r)
}

// hold enters what one task has to do with one resource.
func (v *view) hold(i int, before, now *looked) {
	h := &v.s.Holds[i]
	at := int(h.Task)*v.r + int(h.Resource)
	waited := h.WaitTime + since(v.s.At, h.WaitingSince)
	now.waited[at], now.got[at] = waited, h.Gets
	v.holdOf[at] = int32(i) + 1
	v.waited[at] = seconds(waited)
	v.behind[h.Task] = v.behind[h.Task] || h.WaitingSince != Unset
	v.wanted[h.Resource] = v.wanted[h.Resource] || h.WaitingSince != Unset

	var waitedBefore time.Duration
	var got uint64
	if row := int(v.was[h.Task]); row >= 0 && int(h.Resource) < before.resources {
		then := row*before.resources + int(h.Resource)
		waitedBefore, got = before.waited[then], before.got[then]
	}
	span := v.span[h.Task]
	kind := v.s.Resources[h.Resource].Kind
	u := use(kind, h, v.s.At, v.age[h.Task], v.left[h.Task], got, span)
	if v.uses[i] = u; u.now > 0 {
		now.kept = append(now.kept, keptUse{h.Task, h.Resource, u.sofar, u.sofar, v.s.Tasks[h.Task].Idle})
	}
	if kind == Queue && h.HeldSince != Unset {
		if held := seconds(v.s.At.Sub(h.HeldSince)); v.slotFor[h.Task] == 0 || held < v.slotFor[h.Task] {
			v.slotFor[h.Task] = held
		}
	}
	v.levels[h.Resource].add(kind, h, v.s.At, v.age[h.Task], v.waited[at])
	switch {
	case span > 0:
		v.lost[at] = min(max(seconds(waited-waitedBefore)/span, 0), 1)
	case h.WaitingSince != Unset:
		v.lost[at] = 1
	}
}

// own fills in which part of what tasks have held they held for themselves. What one holds for as long as it exists, such as a connection, it
// holds while it waits as well. It may have waited before it held a lock, which it got so.
func (v *view) own(now *looked) {
	for i := range now.kept {
		k := &now.kept[i]
		if v.divided(int(k.resource)) {
			continue
		}
		waited := 0.0
		for r := range v.r {
			if v.divided(r) {
				continue
			}
			waited += v.waited[int(k.task)*v.r+r]
			if h := v.holdOf[int(k.task)*v.r+r]; h > 0 && v.s.Holds[h-1].WaitingSince != Unset {
				k.own = -1
			}
		}
		if age := v.age[k.task]; k.own >= 0 {
			k.own -= min(max(min(k.amount, age)+waited-age, 0), waited)
		}
	}
}

// task sums up one task, whose holds are entered.
func (v *view) task(i int, before, now *looked, objective time.Duration) {
	t := &v.s.Tasks[i]
	row := v.lost[i*v.r : (i+1)*v.r]
	for _, share := range row {
		v.wait[i] += share
	}
	if v.wait[i] > 1 { // waits that overlap share the time
		for r := range row {
			row[r] /= v.wait[i]
		}
		v.wait[i] = 1
	}
	if t.Background || t.Idle {
		return
	}
	v.inFlight++
	for r, share := range row {
		v.lostTo[r] += share
	}
	if v.s.At.Sub(t.Started) <= objective {
		return
	}
	v.late++
	if v.behind[i] {
		v.stuck++
	}
	if was := v.was[i]; was < 0 || !before.late[was] {
		v.foundLate++
		v.newlyLate += seenLate(v.s.At.Sub(t.Started)-objective, objective, v.dt)
	}
	now.late[i], v.overdue[i] = true, true
	v.delay(i)
}

// delay says what an overdue task is late for: what it has lost most of its life to, or what it loses most of
// its time to now. It may have waited at first and run since, and a look that comes soon after the one
// before would see it run alone.
func (v *view) delay(i int) {
	row := v.due[i*v.r : (i+1)*v.r]
	sum := 0.0
	for r := range row {
		at := i*v.r + r
		row[r] = max(v.lost[at], min(ratio(v.waited[at], v.age[i]), 1))
		sum += row[r]
	}
	if v.delayed[i] = min(sum, 1); sum > 1 {
		for r := range row {
			row[r] /= sum
		}
	}
}

// seenLate returns how many late tasks one stands for that a look finds late for the
// first time, over its objective by a time.
//
// Looks that are farther apart than an objective miss most of the tasks that are late
// and end soon. A task that ends an objective too late or later is found within that
// objective by one of so many looks as there are objectives between two of them, so it
// stands for as many; and for itself if it is found later.
func seenLate(over, objective, dt time.Duration) float64 {
	if over < objective {
		return grain(objective, dt)
	}
	return 1
}

// grain returns how many tasks the count of late ones in flight grows by at once.
func grain(objective, dt time.Duration) float64 {
	return max(float64(dt)/float64(objective), 1)
}

// loses returns the share of its time that a task loses to a resource, at being their place in the matrices,
// for as long as it has kept a slot. What it waited for before is no reason to keep the slot, its wait for the
// slot least of all.
func (v *view) loses(at int) float64 {
	i, h := at/v.r, v.holdOf[at]
	if h == 0 || v.slotFor[i] == 0 || v.slotFor[i] >= v.span[i] {
		return v.lost[at]
	}
	switch hold := &v.s.Holds[h-1]; {
	case hold.WaitingSince != Unset:
		return max(v.lost[at], min(seconds(v.s.At.Sub(hold.WaitingSince))/v.slotFor[i], 1))
	case v.s.Resources[hold.Resource].Kind == Queue && hold.HeldSince != Unset:
		return 0
	}
	return v.lost[at]
}

// unseen returns the share of its time for which others had the processor that task i needed, beyond what it loses
// to a resource that the source shows.
func (v *view) unseen(i int) float64 {
	starved := v.starved[i]
	for r := range v.r {
		if v.s.Resources[r].Kind == System {
			starved -= v.lost[i*v.r+r]
		}
	}
	return max(starved, 0)
}

// victim reports whether task i counts as foreground.
func (v *view) victim(i int) bool { return !v.s.Tasks[i].Background && !v.s.Tasks[i].Idle }

// contended reports whether tasks lost time to resource r since the look before, or wait for it now. Where none did, whoever
// waited for what a task holds has got it, while that one still held it.
func (v *view) contended(r int) bool { return v.wanted[r] || v.lostTo[r] > 0 }

// holds reports whether task i holds part of resource r now.
func (v *view) holds(i, r int) bool {
	h := v.holdOf[i*v.r+r]
	return h > 0 && v.uses[h-1].now > 0
}

// locked returns the lock that task i has held for longest of those for which others waited of late, and for how long, in seconds;
// 0 if it holds none.
func (v *view) locked(i int) (lock int, held float64) {
	for r := range v.r {
		if v.s.Resources[r].Kind == Lock && v.keepsOf(i, r) && v.contended(r) {
			if h := v.heldFor(i, r); h > held {
				lock, held = r, h
			}
		}
	}
	return lock, held
}

// heldFor returns for how long task i has held resource r, in seconds, 0 if the source shows no hold.
func (v *view) heldFor(i, r int) float64 {
	h := v.holdOf[i*v.r+r]
	if h == 0 {
		return 0
	}
	hold := &v.s.Holds[h-1]
	return seconds(hold.HoldTime + since(v.s.At, hold.HeldSince))
}

// within returns for which part of the time for which task i has held resource r it was kept from going on, if it was for lost seconds
// since it began, and for the part now of the time since the last look. It may have begun to hold late, and be kept since.
func (v *view) within(lost float64, i, r int, now float64) float64 {
	part := min(max(ratio(lost, v.age[i]), now), 1)
	if held := v.heldFor(i, r); held > 0 {
		part = min(part, lost/held)
	}
	return part
}

// pends reports whether a task only waits for a resource, at being their place in the
// matrices: it keeps nothing from others but by its place in the queue.
func (v *view) pends(at int) bool {
	h := v.holdOf[at]
	return h > 0 && v.s.Holds[h-1].HeldSince == Unset && v.s.Holds[h-1].WaitingSince != Unset
}
