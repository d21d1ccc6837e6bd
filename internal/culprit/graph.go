package culprit

import (
	"slices"

	"github.com/spillgate/spillgate/internal/mono"
)

// graph blames lost time on tasks. Its matrices have a row for each task and a
// column for each resource; an entry is the share of the time lost to the
// resource that the task is to blame for, so a column sums to at most 1.
//
// direct blames those that hold what is waited for. A task that waits itself
// passes on, in proportion to the time that it waits, what it is blamed for; what
// arrives where nobody waits is final:
//
//	victims ──lost──▶ holder, waits ──passes on──▶ root of the waits
//
// A pending exclusive request dams a shared lock: tasks that the holders would
// let pass wait behind it. It passes its blame on like every waiter, and its
// direct blame makes it a candidate beside the root. A request for more units of a
// queue than are free dams the queue: tasks for which enough are free wait behind it.
type graph struct {
	direct, final []float64
	ends          []float64 // of dams: part of what the others lose that ends with the task
	through       []float64 // of dams: what they are blamed for directly, and what those that wait for them pass on to them, each part as often as it comes
	keeps         []float64 // part of the resource that the task keeps from the others
	onward        []float64 // share of the task's time that it loses to others there
	waits         []float64 // by task: the sum over resources, and gone
	gone          []float64 // by task: the share of its time that it loses to nobody in view, as it starves, see passOn
	nobody        []float64 // by resource: the part that nobody in view is to blame for

	queued     []poolOf // by resource: how its waits are distributed
	edgesFrom  []int32  // by task: its edges are edge[edgesFrom[i]:edgesFrom[i+1]]
	edge       []Edge
	soft       []bool    // by edge: the blocker only waits itself
	part       []float64 // by edge: the part of the waiter's wait that it explains
	sums       []partSum // by resource
	dams       []bool    // by task
	victimDams int       // how many of them are foreground tasks
	taken      []float64 // by resource: see takes
	flow       flow
}

// poolOf is what the waits for one resource are distributed by.
type poolOf struct {
	edges             bool      // the source knows which task waits for which
	edged             float64   // lost by victims that have edges
	exclusive, shared float64   // lost by victims of each mode
	gain              float64   // future use of all holders
	used              float64   // present use of all holders
	longest           float64   // seconds that the last of the holders goes on
	since, latest     mono.Time // when the first, and the last, of the holders began to hold, Unset and 0
	toHolders         float64   // part of the lost time that holders are to blame for
	kept              float64   // sum of keeps
	exclusiveHolders  int
	dam               int32 // task with the oldest pending exclusive request, -1
	damSince          mono.Time
	nextSince         mono.Time // when the next one began to wait, Unset
	behindDam         float64   // lost by victims that only the dam holds up
	damAlike          bool      // others of its kind wait as well
}

// build computes the final blame of every task. A use that ends within the horizon
// counts for less. clear is the share that the pick needs at least, and in says what is normal.
func (g *graph) build(v *view, horizon, clear float64, in intake) {
	cells := v.n * v.r
	g.direct, g.final, g.keeps = resized(g.direct, cells), resized(g.final, cells), resized(g.keeps, cells)
	g.dams = resized(g.dams, v.n)
	g.index(v)
	g.parts(v)
	g.pools(v)
	g.shares(v, horizon)
	g.takes(v, in)
	g.blame(v)
	g.passOn(v, horizon)
	g.flow.spread(v, g)
	g.relieve(v, clear)
}

// passOn fills onward, waits and gone: which share of its time a task loses to others while it keeps what it is
// blamed for. Time for which others had the processor that it needed excuses one that holds a lock only as far as it would have held that
// for less than the horizon without: who waits for it would be late on a machine of its own as well.
func (g *graph) passOn(v *view, horizon float64) {
	g.onward, g.waits, g.gone = resized(g.onward, v.n*v.r), resized(g.waits, v.n), resized(g.gone, v.n)
	for r := range g.queued { // what others use, they keep
		if p := &g.queued[r]; v.s.Resources[r].Kind == System {
			p.kept = ratio(v.s.Resources[r].Others, p.used)
		}
	}
	for at, part := range g.keeps {
		g.queued[at%v.r].kept += part
	}
	for at := range v.lost {
		lost := v.loses(at)
		// What it keeps itself it does not wait for: a task that takes nine tenths of
		// the processors is slowed down by itself. Where an edge says for whom it waits, it
		// does: the resource may be many locks, of which it keeps one and waits for another.
		// Nor does blame go on to nobody: what a task waits for that no other keeps, as far as
		// the source knows, is its own affair.
		if p := &g.queued[at%v.r]; lost > 0 && (p.edges || p.kept > g.keeps[at]) {
			own := g.keeps[at]
			if p.edges && g.edged(at/v.r, at%v.r) {
				own = 0
			}
			g.onward[at] = lost * max(1-own, 0)
			g.waits[at/v.r] += g.onward[at]
		}
	}
	for i := range g.waits {
		if g.gone[i] = v.unseen(i); g.gone[i] > 0 {
			if lock, held := v.locked(i); held > 0 {
				own := held * (1 - v.within(v.s.Tasks[i].Starved.Seconds(), i, lock, v.starved[i]))
				g.gone[i] *= max(1-own/horizon, 0)
			}
		}
		g.waits[i] += g.gone[i]
	}
	for i, sum := range g.waits {
		if sum > 1 { // what it waits for now counts since it took its slot, see loses
			g.waits[i] = 1
			g.gone[i] /= sum
			for r := range v.r {
				g.onward[i*v.r+r] /= sum
			}
		}
	}
}

// relieve fills ends: what a dam is to blame for directly, or because of those that wait for it and keep others waiting themselves, as a
// share of what the others lose, or in the end, if that is more. Its own wait ends with it as well. What comes back to a dam is counted out
// for those alone that may be the pick, to blame for clear or more.
func (g *graph) relieve(v *view, clear float64) {
	g.ends = resized(g.ends, v.n*v.r)
	for i, dam := range g.dams {
		if !dam || g.relieveBy(v, i, 1) < clear {
			continue
		}
		if visits := g.flow.visits(v, g, i); visits > 1 {
			g.relieveBy(v, i, visits)
		}
	}
}

// relieveBy fills ends of dam i, where blame comes so many times, and returns the largest of them.
func (g *graph) relieveBy(v *view, i int, visits float64) float64 {
	for r := range v.r {
		p, at := &g.queued[r], i*v.r+r
		all, own := p.exclusive+p.shared, v.lost[at]
		if p.edges {
			all = p.edged
		}
		if !v.victim(i) || p.edges && !g.edged(i, r) {
			own = 0 // not among them
		}
		g.ends[at] = max(min(g.through[at]/visits*max(ratio(all, all-own), 1), 1), g.final[at])
	}
	return slices.Max(g.ends[i*v.r : (i+1)*v.r])
}

// index sorts the edges by waiter and says which blockers only wait.
func (g *graph) index(v *view) {
	g.edgesFrom = resized(g.edgesFrom, v.n+1)
	g.edge = resized(g.edge, len(v.s.Edges))
	g.soft = resized(g.soft, len(v.s.Edges))
	for _, e := range v.s.Edges {
		g.edgesFrom[e.Waiter+1]++
	}
	for i := range v.n {
		g.edgesFrom[i+1] += g.edgesFrom[i]
	}
	for k := len(v.s.Edges) - 1; k >= 0; k-- { // filled from the back of each range
		e := v.s.Edges[k]
		g.edgesFrom[e.Waiter+1]--
		g.edge[g.edgesFrom[e.Waiter+1]] = e
	}
	// Each start has moved to the next waiter's place; shift them back.
	copy(g.edgesFrom, g.edgesFrom[1:])
	g.edgesFrom[v.n] = int32(len(v.s.Edges))
	for k, e := range g.edge {
		g.soft[k] = v.pends(int(e.Blocker)*v.r + int(e.Resource))
	}
}

// pools sums up each resource.
func (g *graph) pools(v *view) {
	g.queued = resized(g.queued, v.r)
	for r := range g.queued {
		p := &g.queued[r]
		p.dam, p.damSince, p.nextSince, p.since = -1, Unset, Unset, Unset
	}
	for r := range g.queued {
		if v.s.Resources[r].Kind == System {
			g.queued[r].used = v.s.Resources[r].Others
		}
	}
	for _, e := range v.s.Edges {
		g.queued[e.Resource].edges = true
	}
	for i := range v.s.Holds {
		h := &v.s.Holds[i]
		p := &g.queued[h.Resource]
		p.used += v.uses[i].now
		if h.HeldSince != Unset {
			p.gain += v.uses[i].gain
			p.longest = max(p.longest, v.uses[i].remain)
			p.since, p.latest = min(p.since, h.HeldSince), max(p.latest, h.HeldSince)
			if !h.Shared {
				p.exclusiveHolders++
			}
		}
		if v.victim(int(h.Task)) {
			lost := v.lost[int(h.Task)*v.r+int(h.Resource)]
			if h.Shared {
				p.shared += lost
			} else {
				p.exclusive += lost
			}
		}
		if !h.Shared && h.WaitingSince != Unset && h.HeldSince == Unset {
			p.queue(h)
		}
	}
	for i := range v.s.Holds {
		h := &v.s.Holds[i]
		p := &g.queued[h.Resource]
		if h.Shared && h.WaitingSince < p.nextSince && v.victim(int(h.Task)) {
			p.behindDam += v.lost[int(h.Task)*v.r+int(h.Resource)]
		}
		if p.dam >= 0 && h.Task != p.dam && h.WaitingSince != Unset && v.s.Tasks[h.Task].Kind == v.s.Tasks[p.dam].Kind {
			p.damAlike = true
		}
	}
}

// queue enters a pending exclusive request.
func (p *poolOf) queue(h *Hold) {
	switch {
	case p.dam < 0 || h.WaitingSince < p.damSince:
		p.nextSince = p.damSince
		p.dam, p.damSince = h.Task, h.WaitingSince
	case h.WaitingSince < p.nextSince:
		p.nextSince = h.WaitingSince
	}
}

// shares says which part of a resource without edges each task keeps from the others. A lock's waiters go on when the last holder lets go, so holders share by
// how long they still hold. The others are divisible: a hold counts by what it
// uses now, and less if it ends within the horizon anyway.
func (g *graph) shares(v *view, horizon float64) {
	for i := range v.s.Holds {
		h, u := &v.s.Holds[i], &v.uses[i]
		p := &g.queued[h.Resource]
		switch at := int(h.Task)*v.r + int(h.Resource); {
		case p.edges:
		case p.choked(v, int(h.Resource), horizon):
			if h.Task == p.dam {
				g.keeps[at], g.dams[p.dam] = 1, true
			}
		case v.s.Resources[h.Resource].Kind != Lock:
			g.keeps[at] = ratio(u.now, p.whole(v, int(h.Resource))) * min(u.remain/horizon, 1)
		case h.HeldSince != Unset:
			g.keeps[at] = ratio(u.gain, p.gain)
		}
	}
}

// occupies returns the part of a queue that task i has now, however soon it lets go; 0 for other kinds.
func (g *graph) occupies(v *view, i, on int) float64 {
	h := v.holdOf[i*v.r+on]
	if h == 0 || v.s.Resources[on].Kind != Queue || g.queued[on].edges {
		return 0
	}
	return ratio(v.uses[h-1].now, g.queued[on].whole(v, on))
}

// whole returns what the use of a resource without edges is a part of: the use of all, or, of a queue that has more units, all of these. What
// nobody uses nobody keeps from the others.
func (p *poolOf) whole(v *view, r int) float64 {
	if v.s.Resources[r].Kind == Queue {
		return max(p.used, float64(v.s.Resources[r].Units))
	}
	return p.used
}

// dammed reports whether shared waiters of lock r wait for a pending exclusive
// request alone.
func (p *poolOf) dammed() bool { return p.dam >= 0 && p.exclusiveHolders == 0 && p.gain > 0 }

// choked reports whether the task that has waited longest for units of queue r keeps them from the others: units are free, tasks of other
// kinds wait as well, and none that is there has taken one for as long as the horizon. What is free is not enough for it, and those behind it wait for their turn.
func (p *poolOf) choked(v *view, r int, horizon float64) bool {
	return v.s.Resources[r].Kind == Queue && p.dam >= 0 && p.nextSince != Unset && !p.damAlike && p.used < float64(v.s.Resources[r].Units) &&
		seconds(v.s.At.Sub(max(p.latest, p.damSince))) >= horizon
}

// blame fills direct.
func (g *graph) blame(v *view) {
	for r := range g.queued {
		p := &g.queued[r]
		lost := p.exclusive + p.shared
		isLock := v.s.Resources[r].Kind == Lock
		if p.edges || isLock && lost <= 0 { // a lock may be held for an instant; the others are used all the time
			continue
		}
		p.toHolders = 1
		// Cancelling the dam frees those in front of the next pending request only.
		if isLock && p.dammed() && p.behindDam > 0 {
			p.toHolders = 1 - p.behindDam/lost
			g.direct[int(p.dam)*v.r+r] += p.behindDam / lost
			g.dams[p.dam] = true
		}
	}
	for at, part := range g.keeps {
		if part > 0 {
			g.direct[at] += part * g.queued[at%v.r].toHolders
		}
	}
	// Waiters without an edge, on a resource with edges, are taken to wait for the
	// same blockers as the others: a source may look up those of the oldest waiters
	// only.
	for k, e := range g.edge {
		if v.victim(int(e.Waiter)) {
			g.queued[e.Resource].edged += v.lost[int(e.Waiter)*v.r+int(e.Resource)] * g.part[k]
		}
	}
	for k, e := range g.edge {
		lost := v.lost[int(e.Waiter)*v.r+int(e.Resource)] * g.part[k]
		if lost > 0 && v.victim(int(e.Waiter)) {
			g.direct[int(e.Blocker)*v.r+int(e.Resource)] += lost / g.queued[e.Resource].edged
			g.dams[e.Blocker] = g.dams[e.Blocker] || g.soft[k] && g.part[k] == 1
		}
	}
	g.victimDams = 0
	for i, dam := range g.dams {
		if dam && v.victim(i) {
			g.victimDams++
		}
	}
	for at, part := range g.direct { // where there are edges, they say who keeps what
		if part > 0 && g.queued[at%v.r].edges && !v.pends(at) {
			g.keeps[at] = part
		}
	}
}

// parts says which part of a waiter's wait each of its edges explains. Blockers
// that hold share it by how much they keep; those that only wait in front
// count if none holds.
func (g *graph) parts(v *view) {
	g.part = resized(g.part, len(g.edge))
	g.sums = resized(g.sums, v.r)
	for i := range v.n {
		edges := g.edge[g.edgesFrom[i]:g.edgesFrom[i+1]]
		first := int(g.edgesFrom[i])
		for _, e := range edges {
			g.sums[e.Resource] = partSum{}
		}
		for k, e := range edges {
			sum := &g.sums[e.Resource]
			if g.soft[first+k] {
				sum.soft++
			} else {
				sum.hard++
				sum.gain += g.blocking(v, e)
			}
		}
		for k, e := range edges {
			sum := &g.sums[e.Resource]
			switch {
			case sum.hard == 0:
				g.part[first+k] = 1 / float64(sum.soft)
			case g.soft[first+k]:
			case sum.gain > 0:
				g.part[first+k] = g.blocking(v, e) / sum.gain
			default:
				g.part[first+k] = 1 / float64(sum.hard)
			}
		}
	}
}

// partSum sums up one waiter's edges over one resource.
type partSum struct {
	gain       float64
	hard, soft int
}

// blocking returns how much the blocker of an edge keeps of what the waiter waits for: how long it is expected to go on
// holding a lock, which the waiter has when the last lets go; how many units of a queue, of which it has the first that
// comes free.
func (g *graph) blocking(v *view, e Edge) float64 {
	if h := v.holdOf[int(e.Blocker)*v.r+int(e.Resource)]; h > 0 {
		if v.s.Resources[e.Resource].Kind == Queue {
			return v.uses[h-1].now
		}
		return v.uses[h-1].gain
	}
	t := &v.s.Tasks[e.Blocker]
	return v.s.At.Sub(t.Started).Seconds() * v.left[e.Blocker]
}
