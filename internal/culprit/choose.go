package culprit

import (
	"slices"
	"time"
)

// dominates reports whether a is at least as good as b in every objective and
// better in one. Lines 2–10 of Algorithm 1 of the paper.
func dominates(a, b []float64) bool {
	better := false
	for i := range a {
		if a[i] < b[i] {
			return false
		}
		better = better || a[i] > b[i]
	}
	return better
}

// scalar returns Σ_r C_r·gain_r, lines 12–20 of Algorithm 1.
func scalar(weights, gains []float64) float64 {
	sum := 0.0
	for r, g := range gains {
		sum += weights[r] * g
	}
	return sum
}

// contender is a task that is to blame for something.
type contender struct {
	task     int       // index in the sample
	gains    []float64 // share of each resource's lost time that cancelling it ends
	score    float64
	resource int // that contributes most to score
	dam      bool
	usage    usage // of resource, or of the task as a whole if it only inherits blame
	victims  float64
	cost     float64 // seconds, see price
	net      float64
	why      Why
	common   bool // of a kind that waits as well, see kindWaits
	step     Step
}

// shortlist is how many contenders are weighed against each other. Those beyond
// have less than a 32nd of the blame.
const shortlist = 32

// rank fills found with the tasks that have the largest scores.
func (e *Engine) rank(v *view) {
	e.weights = resized(e.weights, v.r)
	total := 0.0
	for r := range e.blame {
		total += e.blame[r].Lost
	}
	e.found = e.found[:0]
	if total <= 0 {
		return
	}
	most := 0
	for r := range e.blame {
		e.weights[r] = e.blame[r].Lost / total
		if e.weights[r] > e.weights[most] {
			most = r
		}
	}
	if e.cfg.Choice == Greedy {
		clear(e.weights)
		e.weights[most] = 1
	}
	for i := range v.n {
		gains := e.graph.final[i*v.r : (i+1)*v.r]
		if e.graph.dams[i] {
			gains = e.graph.ends[i*v.r : (i+1)*v.r]
		}
		if score := scalar(e.weights, gains); score > 0 {
			e.shortlist(contender{task: i, gains: gains, score: score, dam: e.graph.dams[i]})
		}
	}
	for k := range e.found {
		e.price(v, &e.found[k])
	}
}

// shortlist keeps c if it is among the best; of equals the first stays in front.
func (e *Engine) shortlist(c contender) {
	if len(e.found) == shortlist {
		if e.found[shortlist-1].score >= c.score {
			return
		}
		e.found = e.found[:shortlist-1]
	}
	e.found = append(e.found, c)
	for k := len(e.found) - 1; k > 0 && e.found[k-1].score < c.score; k-- {
		e.found[k-1], e.found[k] = e.found[k], e.found[k-1]
	}
}

// price weighs what cancelling c saves against what it costs, in victim-seconds:
//
//	net = victims × remaining − victims × undo − work that must be done again
//
// A second of a victim and a second of repeated work count the same. Throttling
// loses no work, and so does ending a task that has only waited.
func (e *Engine) price(v *view, c *contender) {
	t := &v.s.Tasks[c.task]
	for r, g := range c.gains {
		// As many as lose their time now, or did in the mean of the last samples since it began: few
		// requests at a time make single samples say little.
		lost := max(v.lostTo[r], e.recent.lostSince(r, t.Started))
		if c.dam && v.victim(c.task) {
			lost = max(lost-v.lost[c.task*v.r+r], 0)
		}
		c.victims += lost * max(g, e.serves(v, c, r))
		if e.weights[r]*g > e.weights[c.resource]*c.gains[c.resource] {
			c.resource = r
		}
	}
	if !c.dam {
		// A dam is no victim worth saving: it is the cheaper one to cancel.
		c.victims = max(c.victims-float64(e.graph.victimDams), 0)
	}
	c.usage = e.usageOf(v, c)
	c.step = t.Steps.after(e.stepTaken(t.ID))
	age := v.s.At.Sub(t.Started).Seconds()
	redo := age
	for r := range v.r {
		redo -= v.waited[c.task*v.r+r]
	}
	if c.step == Throttle {
		redo = 0
	}
	c.cost = c.victims*t.Undo.Seconds() + max(redo, 0)
	c.net = c.victims*c.usage.remain - c.cost
}

// serves returns the share of those who wait for the slots of a queue that the slots of
// c alone would serve: as many as were in use in normal times serve all. A pool that
// many tasks fill together is of use again when the first of them ends, long before
// the last.
func (e *Engine) serves(v *view, c *contender, r int) float64 {
	h := v.holdOf[c.task*v.r+r]
	if c.gains[r] <= 0 || h == 0 || v.s.Resources[r].Kind != Queue || r >= len(e.normal.held) || e.normal.held[r] <= 0 {
		return 0
	}
	return min(v.uses[h-1].now/e.normal.held[r], 1)
}

// usageOf returns the use that c's score rests on. A dam lasts as long as the
// longest hold that it waits for, and then holds itself. A task that inherits blame holds something else,
// so the longest of its holds counts.
func (e *Engine) usageOf(v *view, c *contender) usage {
	t := &v.s.Tasks[c.task]
	age := v.s.At.Sub(t.Started)
	if c.dam {
		remain := e.graph.queued[c.resource].longest + age.Seconds()*v.left[c.task]
		return usage{sofar: age.Seconds(), gain: remain, remain: remain}
	}
	if h := v.holdOf[c.task*v.r+c.resource]; h > 0 && v.uses[h-1].now > 0 {
		return v.uses[h-1]
	}
	u := usage{}
	for r := range v.r {
		if h := v.holdOf[c.task*v.r+r]; h > 0 && v.uses[h-1].now > 0 && v.uses[h-1].remain > u.remain {
			u = v.uses[h-1]
			c.resource = r
		}
	}
	if u.remain == 0 {
		u.remain = age.Seconds() * v.left[c.task]
		u.gain, u.sofar = u.remain, age.Seconds()
	}
	return u
}

// blocked returns the share of its time that a task waits for a lock or a slot that
// others hold. What it loses where use is divided only slows it down.
func (e *Engine) blocked(v *view, i int) float64 {
	sum := 0.0
	for r, lost := range e.graph.onward[i*v.r : (i+1)*v.r] {
		if kind := v.s.Resources[r].Kind; kind == Lock || kind == Queue {
			sum += lost
		}
	}
	return sum
}

// heldUp returns the share of its time that a task loses to what all use at the same time and it does not keep itself, whoever does.
func (e *Engine) heldUp(v *view, i int) float64 {
	sum := 0.0
	for r := range v.r {
		if at := i*v.r + r; v.divided(r) {
			sum += v.lost[at] * max(1-e.graph.keeps[at], 0)
		}
	}
	return sum
}

// itself returns for how long c has held what it holds without the time for which it was held up so: the next of its kind would
// be held up as well, but would not hold it for longer than others do otherwise.
func (e *Engine) itself(v *view, c *contender) float64 {
	up := 0.0
	for r := range v.r {
		if at := c.task*v.r + r; v.divided(r) {
			up += v.waited[at] * max(1-e.graph.keeps[at], 0)
		}
	}
	return c.usage.sofar * (1 - v.within(up, c.task, c.resource, e.heldUp(v, c.task)))
}

// rare is how many times the usual use of a resource makes a task unusual: an
// exponential with the median 1 exceeds it once in a million, ln 10⁶ ÷ ln 2.
const rare = 20

// judge says what stands against cancelling c, whatever its share.
func (e *Engine) judge(v *view, c *contender) Why {
	t := &v.s.Tasks[c.task]
	kind := v.s.Resources[c.resource].Kind
	timed := kind == Lock || kind == Queue
	limited := e.limited(t.Kind) // no such task should have begun
	switch {
	case !c.dam && e.blocked(v, c.task) > 0.5:
		return Waiting
	case !limited && (v.s.At.Sub(t.Started) < e.cfg.MinAge || timed && c.usage.sofar < e.cfg.MinAge.Seconds()):
		return Young
	case !limited && e.normal.seen == 0 && v.victim(c.task) && (c.common || v.divided(c.resource)) && v.s.At.Sub(t.Started) < rare*e.cfg.MinAge:
		return Young // none has ended yet: in a start from cold, all do for the first time what takes long once
	case !limited && timed && e.fed(t, c.usage.sofar) < e.cfg.MinAge.Seconds():
		return Starving
	case timed && !c.dam && !v.contended(c.resource):
		return Ordinary
	case c.dam && (c.common || e.normal.regular(t.Kind, v.s.At) || e.without(v, c) < strange):
		return Ordinary
	case !c.dam && !limited && c.resource < len(e.normal.usual) && c.usage.sofar <= rare*e.normal.usual[c.resource]:
		return Ordinary
	case !c.dam && timed && c.common && (c.usage.sofar <= alikeHolds*e.alike(t.Kind) || e.endings.doubted(t.Kind, v.s.At)):
		return Ordinary
	case !c.dam && timed && c.common && e.heldUp(v, c.task) > 0.5 && e.itself(v, c) <= alikeHolds*e.alike(t.Kind): // what holds one of the victims' kind up holds the next up as well
		return Waiting
	case !c.dam && !limited && t.Kind != 0 && v.divided(c.resource) && (!e.steady(v, c.task) || c.common && e.demand(v, c)):
		return Ordinary // one of many that come and go; where nothing ends any more, its victims are like it
	case t.Barred != NotBarred:
		return BarredTask
	case c.step == NoStep && e.cfg.Mode == Monitor && e.stepTaken(t.ID) != NoStep:
		return Monitoring
	case c.step == NoStep:
		return Fixed
	case !limited && c.net <= 0:
		return Dear
	}
	return WhyNot
}

// fed returns for how long a task would have existed, or held what it has held for some time if that is less, without the time for
// which others than the tasks had the processor that it needed.
func (e *Engine) fed(t *Task, sofar float64) float64 {
	age := e.view.s.At.Sub(t.Started).Seconds()
	own := max(age-t.Starved.Seconds()-t.MayStarve.Seconds(), 0)
	return min(own, sofar*ratio(own, age))
}

// strange is without how many tasks like it a request that dams a lock is no usual one. Of a kind
// that is one task in ten, none among 30 is seen once in 23 times (0.9^30), so hardly more than a
// tenth of the tasks are taken for culprits where that is wrong.
const strange = 30

// without returns how many tasks have come and gone without one like the dam c: those seen to end,
// none of which had its kind, and those that ended while the holders that it waits for had the
// lock already, none of which asked for it as c does.
func (e *Engine) without(v *view, c *contender) float64 {
	h := v.holdOf[c.task*v.r+c.resource]
	if h == 0 {
		return e.normal.metBy(v.s.At)
	}
	held := seconds(max(v.s.Holds[h-1].WaitingSince.Sub(e.graph.queued[c.resource].since), 0))
	return e.normal.metBy(v.s.At) + e.normal.throughput*held
}

// demand reports whether c does what tasks do in normal times as well. Where many of these hog a resource
// together, and none alone, all have become slow or too many have come: what slows them down need not be
// in view. An idle task does nothing, whatever it did last.
func (e *Engine) demand(v *view, c *contender) bool {
	t := &v.s.Tasks[c.task]
	return !t.Idle && e.normal.regular(t.Kind, v.s.At) && !e.limited(t.Kind)
}

// pick returns the index in found of the task to cancel, -1 if there is none, and
// whether it is one of several that hog a resource together. Those of several resources
// count together only where none has a clear share alone: a task that is to blame for
// less on another resource may go on for longer, and would be the better pick by its
// price.
func (e *Engine) pick(v *view, falling bool) (best int, several bool) {
	e.together = resized(e.together, v.r)
	e.waiters(v)
	group, clear := 0.0, false
	for k := range e.found {
		c := &e.found[k]
		c.common = e.kindWaits(v, c, 0)
		c.why = e.judge(v, c)
	}
	for k := range e.found {
		c := &e.found[k]
		if n := e.fellows(v, c); n > 0 {
			c.common = e.kindWaits(v, c, n)
		}
		if c.why == WhyNot && !alike(v, c) && !c.dam && !e.demand(v, c) && e.stays(v, c) {
			group += c.score
			e.together[c.resource] += c.score
		}
		clear = clear || c.why == WhyNot && c.score >= e.cfg.Clear
	}
	best = -1
	for k := range e.found {
		c := &e.found[k]
		if c.why != WhyNot {
			continue
		}
		several := e.together[c.resource] >= e.cfg.Clear || !clear && group >= e.cfg.Clear
		together := !alike(v, c) && !c.dam && (falling && several || e.limited(v.s.Tasks[c.task].Kind) || e.oneKind(v, c))
		if c.score < e.cfg.Clear && !together {
			c.why = Unclear
			continue
		}
		if !e.dominated(k) && (best < 0 || c.net > e.found[best].net) {
			best = k
		}
	}
	if best < 0 {
		return best, false
	}
	c := &e.found[best] // two that share the blame evenly are several, too
	return best, c.score < e.cfg.Clear || c.score == e.cfg.Clear && !alike(v, c) && !c.dam && group > c.score
}

// alike reports whether c does what its victims do. One that is idle does nothing, whatever it did last: however many there are, they are
// no demand.
func alike(v *view, c *contender) bool { return c.common && !v.s.Tasks[c.task].Idle }

// stays reports whether c is no demand as far as that is known. Before anything is known of normal times, those that come and go are
// taken for demand.
func (e *Engine) stays(v *view, c *contender) bool {
	return e.normal.seen >= settled || v.s.Tasks[c.task].Idle || e.steady(v, c.task)
}

// oneKind reports whether c and others of its kind have a clear share of what is divided together, as one task that does
// their work would. Throughput need not fall then: what is divided serves the others as well, only later.
func (e *Engine) oneKind(v *view, c *contender) bool {
	sum := 0.0
	for k := range e.found {
		if other := &e.found[k]; v.s.Tasks[other.task].Kind == v.s.Tasks[c.task].Kind && e.lasts(v, other) {
			sum += other.score
		}
	}
	return sum >= e.cfg.Clear && e.lasts(v, c)
}

// lasts reports whether c uses what is divided, may be cancelled, and is no demand: tasks of its kind do not come and go.
func (e *Engine) lasts(v *view, c *contender) bool {
	return (c.why == WhyNot || c.why == Unclear) && v.divided(c.resource) && !e.demand(v, c) && e.steady(v, c.task)
}

// divided reports whether all tasks use a resource at the same time, each a part of it.
func (v *view) divided(r int) bool {
	kind := v.s.Resources[r].Kind
	return kind == System || kind == Memory
}

// dominated reports whether another contender that may be cancelled is at least as
// good as found[k] on every resource, goes on for as long, costs no more, and is
// better in one of these.
func (e *Engine) dominated(k int) bool {
	a := &e.found[k]
	for j := range e.found {
		b := &e.found[j]
		if j == k || b.why != WhyNot || b.usage.remain < a.usage.remain || b.cost > a.cost {
			continue
		}
		strict := b.usage.remain > a.usage.remain || b.cost < a.cost
		if dominates(b.gains, a.gains) || strict && slices.Equal(a.gains, b.gains) {
			return true
		}
	}
	return false
}

// kindWaits reports whether c does what its victims do: its kind is at least half
// as common among the tasks that wait as in the blame. Then demand for this kind
// is the trouble, and admission limits it. An unknown kind may be that of the victims.
// Where no task mainly waits, those that lose some time count by how much; where none
// loses any at this look, none is of the kind.
// fellows others of the kind are not counted.
func (e *Engine) kindWaits(v *view, c *contender, fellows int) bool {
	kind := v.s.Tasks[c.task].Kind
	if kind == 0 {
		return true
	}
	waiting, alike := len(e.mainly), e.mainlyOf(kind)
	if unknown := e.mainlyOf(0); waiting-unknown >= stuckVictims {
		waiting -= unknown // those that are known tell of the others
	}
	if waits(v, c.task) {
		waiting, alike = waiting-1, alike-1 // c is not among its victims
	}
	if waiting, alike = waiting-fellows, alike-fellows; waiting <= 0 && fellows > 0 {
		return false
	}
	all, same := float64(waiting), float64(alike)
	if waiting == 0 {
		all, same = slowed(v, c.task, kind)
	}
	blamed := 0.0
	for k := range e.found {
		if v.s.Tasks[e.found[k].task].Kind == kind {
			blamed += e.found[k].score
		}
	}
	return all > 0 && same >= 0.5*blamed*all
}

// fellows returns how many others of the kind of c mainly wait and are no victims all the same: they have used what
// is divided far beyond what is usual, which is none where no look saw any use in normal times, as c has, and slow each other down as well.
func (e *Engine) fellows(v *view, c *contender) (n int) {
	hogs := func(c *contender) bool {
		return e.lasts(v, c) && c.resource < len(e.normal.usual) && (e.normal.usual[c.resource] > 0 || e.normal.seen >= settled)
	}
	if !c.common || !hogs(c) {
		return 0
	}
	for k := range e.found {
		if other := &e.found[k]; other.task != c.task && v.s.Tasks[other.task].Kind == v.s.Tasks[c.task].Kind && hogs(other) && waits(v, other.task) {
			n++
		}
	}
	return n
}

// waits reports whether task i is one of the foreground that mainly waits.
func waits(v *view, i int) bool { return v.wait[i] >= 0.5 && v.victim(i) }

// kindCount is how many tasks of a kind mainly wait.
type kindCount struct {
	kind  uint64
	tasks int
}

// waiters fills mainly.
func (e *Engine) waiters(v *view) {
	e.mainly, e.counted = e.mainly[:0], e.counted[:0]
	for i := range v.n {
		if waits(v, i) {
			e.mainly = append(e.mainly, v.s.Tasks[i].Kind)
		}
	}
}

// mainlyOf returns how many tasks of a kind mainly wait. It counts once for each of the few kinds
// that contenders have.
func (e *Engine) mainlyOf(kind uint64) int {
	for _, k := range e.counted {
		if k.kind == kind {
			return k.tasks
		}
	}
	n := 0
	for _, k := range e.mainly {
		if k == kind {
			n++
		}
	}
	e.counted = append(e.counted, kindCount{kind, n})
	return n
}

// slowed sums up the time that foreground tasks lose, and that those of one kind do, without one
// task.
func slowed(v *view, but int, kind uint64) (all, alike float64) {
	for i, wait := range v.wait {
		if i == but || wait == 0 || !v.victim(i) {
			continue
		}
		all += wait
		if v.s.Tasks[i].Kind == kind {
			alike += wait
		}
	}
	return all, alike
}

// list fills Candidates from found.
func (e *Engine) list(v *view, best int) {
	e.candidates = e.candidates[:0]
	for k := range e.found[:min(len(e.found), e.cfg.Candidates)] {
		e.candidates = append(e.candidates, e.candidate(v, k, best))
	}
	if best >= e.cfg.Candidates { // the pick is always on the list
		e.candidates[len(e.candidates)-1] = e.candidate(v, best, best)
	}
}

func (e *Engine) candidate(v *view, k, best int) Candidate {
	c := &e.found[k]
	t := &v.s.Tasks[c.task]
	out := Candidate{Task: t.ID, Kind: t.Kind, Score: c.score, Gain: c.usage.gain, Resource: int32(c.resource), Victims: c.victims,
		Remaining: time.Duration(min(c.usage.remain, 1e9) * float64(time.Second)), Net: c.net, Dam: c.dam, Why: c.why, Barred: t.Barred}
	if c.why == WhyNot && k != best {
		out.Dominated = e.dominated(k)
		out.Why = Lesser
	}
	return out
}
