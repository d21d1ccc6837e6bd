package track

import (
	"math"
	"time"
)

// The times of a Cost.
const (
	// costWindow is over how long the present cost is averaged: some hundred statements
	// in most servers, and as long as counters of statements may lag.
	costWindow = time.Second
	// costLearning is the time constant of what is normal, that of the engine.
	costLearning = 10 * time.Second
	// costDeviations is how many mean deviations beyond normal are noise.
	costDeviations = 2
)

// Cost tells what short statements cost now beyond what they normally do, in processor
// time and in time that they run without a wait that a view shows. The zero value is ready.
//
// What makes them dear is known to do so only when it has lasted for a while. So what is seen is
// learned when it is probation old, and what was seen since that began is not learned at all.
type Cost struct {
	work, running quantity
	done          float64
	now           int // statements that run
	seen, learned time.Duration
	trial         []observation // oldest first
}

// quantity is something that statements use: in the window, and normally for each.
type quantity struct{ sum, normal, noise float64 }

// observation is what a statement cost at a look, when that was, and the time since the look before.
type observation struct {
	at, dt        time.Duration
	work, running float64
}

// probation is for how long what is seen may still turn out not to be normal.
const probation = 2 * time.Second

// Add enters what was seen since the look before, dt ago: the processor time that short
// statements used, how many of them run at the look without a wait, and how many ended.
// held is for how long something has lasted that can make them dear, 0 if nothing does.
func (c *Cost) Add(dt time.Duration, work time.Duration, running int, done uint64, held time.Duration) {
	if dt <= 0 {
		return
	}
	keep := math.Exp(-float64(dt) / float64(costWindow))
	c.done = keep*c.done + float64(done)
	c.work.sum = keep*c.work.sum + work.Seconds()
	c.running.sum = keep*c.running.sum + float64(running)*dt.Seconds()
	c.seen, c.now = c.seen+dt, running
	until := c.seen - probation
	if held > 0 {
		until = c.seen - held
	}
	n := 0
	for ; n < len(c.trial) && c.trial[n].at <= until; n++ {
		c.learn(c.trial[n])
	}
	if c.trial = c.trial[:copy(c.trial, c.trial[n:])]; held > 0 {
		c.trial = c.trial[:0]
		return
	}
	if c.done >= sure && c.seen > costWindow { // else the sums are no averages yet
		c.trial = append(c.trial, observation{c.seen, dt, c.work.sum / c.done, c.running.sum / c.done})
	}
}

// learn enters an observation that was normal.
func (c *Cost) learn(o observation) {
	weight := max(float64(o.dt)/float64(c.learned+o.dt), 1-math.Exp(-float64(o.dt)/float64(costLearning)))
	c.work.learn(weight, o.work)
	c.running.learn(weight, o.running)
	c.learned += o.dt
}

func (q *quantity) learn(weight, each float64) {
	if q.normal > 0 {
		q.noise += weight * (math.Abs(each-q.normal) - q.noise)
	}
	q.normal += weight * (each - q.normal)
}

// Unbounded is a time that statements may lose, however many.
const Unbounded = time.Duration(math.MaxInt64)

// Beyond returns which share of the processor time, and of the running time, of the present
// statements is beyond what is normal and its noise, and can have been lost to what makes them dear, each has lost most to that at most: 0 to 1, 0
// while not half a second of normal times has been seen.
func (c *Cost) Beyond(most time.Duration) (work, running float64) {
	if c.learned < costWindow/2 {
		return 0, 0
	}
	all := most.Seconds() * (c.done + float64(c.now))
	return c.work.beyond(c.done, all), c.running.beyond(c.done, all)
}

// beyond returns the share of the sum for so many statements, of which all is the largest part that may count.
func (q *quantity) beyond(done, all float64) float64 {
	usual := (q.normal + costDeviations*q.noise) * done
	if q.normal == 0 || q.sum <= usual {
		return 0
	}
	return min(q.sum-usual, all) / q.sum
}

// saturated is the load from which on processors count as full: it is known to a few ticks only.
const saturated = 0.95

// Due returns the share of the wait for processors that ends with a part of their load, both as
// shares of their time: where a queue is fed at a load ρ, its wait grows as ρ ÷ (1−ρ).
func Due(load, part float64) float64 {
	load = min(load, saturated)
	rest := load - part
	switch {
	case part <= 0 || load <= 0:
		return 0
	case rest <= 0:
		return 1
	}
	return 1 - rest/(1-rest)*(1-load)/load
}
