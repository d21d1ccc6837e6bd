package rates

import (
	"math"
	"slices"
	"time"
)

const (
	// bindShare is the share of a period in which credits must bind for it to
	// count as overloaded.
	bindShare = 0.5
	// shortLoad is the share of its capacity from which on a resource can be what
	// credits bind for. Below, requests wait for something else, mostly for what they
	// call: its own rates tell that, and a cut here would only follow the load down.
	shortLoad = 0.5
	// overPeriods is how many periods in a row must be overloaded: one is a burst.
	overPeriods = 2
	// takenUp is how far a load may be over what was handed out, for a further cut.
	takenUp = 1.02
	// overdraft is the share of its rate that an entry lets through on top of it,
	// while credits keep the queues further down short. With none, a leaf whose queue
	// may hold fifteen served 93 % of its capacity at twice of it, with 6 % it serves
	// 96 %, and 92 % of the refusals are made at the entry (simulation, three tiers).
	// Larger wastes more of the work before the leaf.
	overdraft = 0.06
	// regain is how much of its idle share, per load, is handed out on top at a
	// resource for which credits bind although it is not full.
	regain = 2
	// drainTime is the time in which a queue over its target should drain: the headroom
	// grows by the share of it that the excess would take to drain, up to
	// mostHeadroom. At 5 % alone, what two periods of twice the capacity left
	// behind took 2 s (simulation).
	drainTime    = time.Second
	mostHeadroom = 0.5
	// marginGain is by how much the margin of a resource grows a period while it is
	// twice its target that is waited for it, on average over delayPeriods or so. A
	// period counts with no more than mostDelay targets.
	marginGain   = 0.004
	delayPeriods = 10
	mostDelay    = 10
	// probeShare is the default of Config.Probe, as a share of the rate that the
	// capacity could do of a workflow alone.
	probeShare = 0.1
	// freeAt is how many times its demand a workflow's limit must be to be lifted:
	// it does not bind, and the process was not short while it was raised.
	freeAt = 2
)

// resource is what this process can be short of.
type resource struct {
	capacity float64
	load     float64 // smoothed, of all workflows
	raw      float64 // of the last period
	over     int     // overloaded periods in a row
	base     float64 // the load that can be handed out, headroom included
	since    int     // periods since base was set
	headroom float64 // share of base that is not; negative: that is on top
	usual    float64 // headroom without a queue to drain
	delay    float64 // mean of the last periods, in targets
	margin   float64 // share of the capacity that is kept idle
}

func (r *resource) overloaded() bool { return r.over >= overPeriods }

// idle is the share of its load that is handed out on top of it while credits keep
// the queue. A resource that is not full and refuses all the same refuses bursts: it
// is brought up to its capacity.
func (r *resource) idle() float64 {
	return regain * max(0, 1-max(r.load, r.raw)/r.capacity)
}

// amount is what can be handed out with a headroom.
func (r *resource) amount(headroom float64) float64 {
	if headroom >= 0 {
		return (1 - headroom) * r.base
	}
	return min((1-headroom)*r.base, max(r.capacity, r.base))
}

// spare is the share of the capacity that is left for limits to be raised.
func (r *resource) spare() float64 { return max(0, 1-r.margin-r.load/r.capacity) }

// steer moves the margin so that the mean delay comes to be the target, while somebody
// is limited. Without it, limits are raised until two periods in a row are over the
// target, and by then a resource with few units is nearly full: beside a tenant held back
// at a semaphore, another took 1.8 to 2.5 times as long as before, and with it 1.4
// (wisp/hotspot). In an overload the queue is drained instead, which would be counted
// twice.
func (r *resource) steer(p Pressure, limited bool) {
	delay := min(float64(p.Delay)/float64(p.Target), mostDelay)
	r.delay += (delay - r.delay) / delayPeriods
	if !r.overloaded() || r.delay < 1 {
		r.margin = max(0, min(r.margin+marginGain*(r.delay-1), mostHeadroom))
	}
	if !limited {
		r.margin = 0
	}
}

// divide finds the rate of every workflow that this process's own resources
// leave room for.
func (a *Adapter) divide(s Signals) {
	a.judge(s)
	switch a.cfg.Policy {
	case MaxMinFair:
		for _, f := range a.flows {
			if f != nil {
				f.local = NoLimit
			}
		}
		for r := range a.resources {
			amount := (1 - a.cfg.Headroom) * a.resources[r].capacity
			a.share(r, amount, amount, func(f *flow, rate float64) {
				f.local = min(f.local, rate)
			})
		}
	case DominantFair:
		a.dominant()
	default:
		a.bottleneck()
	}
}

// judge finds which resources are overloaded. With credits, which keep the queues short
// that would show it, it is the most loaded one, when they bound or when more of it is
// wanted than there is.
func (a *Adapter) judge(s Signals) {
	most := 0
	for i := range a.resources {
		r := &a.resources[i]
		if i < len(s.Resources) {
			if c := s.Resources[i].Capacity; c > 0 && !math.IsInf(c, 1) {
				r.capacity = c
			}
		}
		a.amounts[i] = r.capacity
		r.load, r.raw = 0, 0
		for _, f := range a.flows {
			if f != nil {
				r.load += f.use[i].load
				r.raw += f.use[i].raw
			}
		}
		// What a long use tells at its end may be more than fits into a period.
		r.raw = min(r.raw, r.capacity)
		if r.load/r.capacity > a.resources[most].load/a.resources[most].capacity {
			most = i
		}
	}
	for i := range a.resources {
		over, excess := false, 0.0
		if s.Credits {
			r := &a.resources[i]
			over = i == most && (s.Bound >= bindShare || a.wanted(i) > takenUp*r.capacity) && max(r.load, r.raw) >= shortLoad*r.capacity
			r.margin = 0 // the queue is theirs
		} else if i < len(s.Resources) {
			if p := s.Resources[i]; p.Target > 0 {
				over = p.Delay > p.Target
				excess = max(0, (p.Delay-p.Target).Seconds()/drainTime.Seconds())
				a.resources[i].steer(p, a.limits(i))
			}
		}
		r, headroom := &a.resources[i], a.cfg.Headroom
		if s.Credits {
			headroom = -r.idle()
		}
		r.note(over, excess+r.margin, headroom, a.cfg.Hold)
	}
}

// wanted is how much of a resource its workflows would use if none of their requests were
// refused, but for what is short further down. Clients that refuse at once what has no credit have no demand when the
// pool looks, so that credits seem to bind for a third of the time at twice the capacity
// (four tiers, simulation).
func (a *Adapter) wanted(r int) float64 {
	sum := 0.0
	for _, f := range a.flows {
		if f != nil {
			sum += f.claim() * f.cost(r)
		}
	}
	return sum
}

// claim is what a workflow would send through this process if it had room for all of it: a
// service further down that is short may let less of it through.
func (f *flow) claim() float64 { return min(f.demand, f.down*(1+overdraft)) }

// limits reports whether this process holds back a workflow that uses a resource.
func (a *Adapter) limits(r int) bool {
	return slices.ContainsFunc(a.flows, func(f *flow) bool { return f != nil && f.local < NoLimit && f.cost(r) > 0 })
}

// note counts a period and sets what can be handed out: the largest load of the
// overload, which is the capacity as it shows, and less when a cut was taken up
// and did not help. drain is the share of it by which those who want more than their
// share have to go back.
func (r *resource) note(over bool, drain, headroom float64, hold int) {
	if !over {
		r.over = 0
		return
	}
	r.over++
	r.since++
	r.usual = headroom
	r.headroom = min(headroom+drain, mostHeadroom)
	switch {
	case r.over <= overPeriods:
		// Uses that are told only at their end leave periods without any.
		r.base, r.since = max(r.raw, min(r.load, r.capacity)), 0
	case r.since > hold && max(r.raw, r.load) <= (1-r.headroom)*r.base*takenUp:
		r.base, r.since = max(r.raw, r.load), 0
	default:
		r.base = max(r.base, r.raw)
	}
}

// share divides so much of a resource among the workflows that use it and calls
// set with the rate of each. Those who want more than their share get the water
// level, and so do those who want less: their limit must not be what they happen
// to use today.
//
// While a queue is to be drained there is less to divide, drained. Those go without
// who want more than their share, and in any case the largest claimant: the queue is
// theirs. The others keep their share, not only what they want of it: held to the rate
// at which they come, they would wait for a token more often than not.
func (a *Adapter) share(r int, amount, drained float64, set func(f *flow, rate float64)) {
	a.fill.reset()
	for i, f := range a.flows {
		if f == nil {
			continue
		}
		cost := f.cost(r)
		if cost == 0 {
			continue
		}
		want := max(f.claim()*cost, f.use[r].load)
		first := min(want, f.terms.Guarantee*cost)
		amount -= first
		drained -= first
		a.fill.add(i, want-first, f.terms.Weight)
	}
	level, low := a.fill.level(max(amount, 0)), a.fill.level(max(drained, 0))
	for i, c := range a.fill.claims {
		f, l := a.flows[c.who], low
		wants := min(c.demand, f.steady*f.cost(r)) / c.weight
		if i < len(a.fill.claims)-1 && wants <= level {
			l = level
		}
		set(f, f.terms.Guarantee+l*f.terms.Weight/f.cost(r))
	}
}

// bottleneck is BottleneckFair (Wisp §4.3, after Retro, NSDI 2015).
//
// Only what this process's own resources were short of is raised here, step by
// step; what a service further down was short of comes back with its rates. A
// process that calls others must not lift its own limit at once, as one could
// read the paper: the overload would come back with the load.
func (a *Adapter) bottleneck() {
	for _, f := range a.flows {
		if f != nil {
			f.cut = NoLimit
		}
	}
	for i := range a.resources {
		r := &a.resources[i]
		cut := func(f *flow, rate float64) { f.cut = min(f.cut, rate) }
		switch {
		case r.overloaded():
			a.share(i, r.amount(r.usual), r.amount(r.headroom), cut)
		case r.spare() == 0 && r.load < r.capacity:
			// Limits went up by equal steps, and the margin ends that before the overload
			// that would divide again.
			a.share(i, (1-a.cfg.Headroom)*r.capacity, (1-max(r.margin, a.cfg.Headroom))*r.capacity, cut)
		}
	}
	weights := 0.0
	for _, f := range a.flows {
		if f == nil {
			continue
		}
		if f.calm++; f.cut < NoLimit {
			f.calm = 0
			f.local = max(min(f.cut, a.roof(f)), f.terms.Guarantee)
		}
		if a.rising(f) {
			weights += f.terms.Weight
		}
	}
	for _, f := range a.flows {
		if f == nil || !a.rising(f) {
			continue
		}
		spare, roof := 1.0, a.roof(f)
		for r := range f.use {
			if f.cost(r) > 0 {
				spare = min(spare, a.resources[r].spare())
			}
		}
		step := a.cfg.Probe
		if step == 0 {
			step = probeShare * min(roof, NoLimit*leastPart)
		}
		f.local = max(min(probed(f.local, step*f.terms.Weight/weights, spare), roof), f.terms.Guarantee)
		if f.local >= freeAt*f.demand {
			f.local = NoLimit
		}
	}
}

// rising reports whether a workflow's limit may be raised: the overload is past,
// and nothing that it calls has fallen silent.
func (a *Adapter) rising(f *flow) bool {
	return f.local < NoLimit && f.calm > a.cfg.Hold && !f.held
}

// probed returns a limit raised by a step at a process with so much to spare.
func probed(rate, step, spare float64) float64 { return rate + step*spare }

// roof returns the rate of a workflow at which it would use a resource up alone.
func (a *Adapter) roof(f *flow) float64 {
	roof := float64(NoLimit)
	for r := range f.use {
		if cost := f.cost(r); cost > 0 {
			roof = min(roof, a.resources[r].capacity/cost)
		}
	}
	return roof
}

// dominant is DominantFair. As in share, the largest claimant counts as
// unbounded, and who wants less than its share gets the level at which the first
// of its resources was used up.
func (a *Adapter) dominant() {
	n := len(a.resources)
	a.users, a.costs = a.users[:0], a.costs[:0]
	for i, f := range a.flows {
		if f == nil {
			continue
		}
		f.local = NoLimit
		for r := range n {
			a.costs = append(a.costs, f.cost(r))
		}
		a.users = append(a.users, drfUser{who: i, demand: f.demand, weight: f.terms.Weight})
	}
	top, largest := -1, -1.0
	for k := range a.users {
		u := &a.users[k]
		u.cost = a.costs[k*n : (k+1)*n]
		for r, c := range u.cost {
			if want := u.demand * c / a.resources[r].capacity / u.weight; c > 0 && want > largest {
				top, largest = k, want
			}
		}
	}
	if top < 0 {
		return
	}
	a.users[top].demand = math.Inf(1)
	for r := range a.left {
		a.left[r] = (1 - a.cfg.Headroom) * a.amounts[r]
	}
	drf(a.amounts, a.left, a.full, a.users)
	for k := range a.users {
		u := &a.users[k]
		if u.dominant == 0 {
			continue
		}
		level := math.Inf(1)
		for r, c := range u.cost {
			if c > 0 {
				level = min(level, a.full[r])
			}
		}
		f := a.flows[u.who]
		f.local = min(max(u.tasks, min(level*u.weight/u.dominant, a.roof(f))), NoLimit)
	}
}
