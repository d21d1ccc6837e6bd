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
type Cost struct {
	work, running quantity
	done          float64
	seen, learned time.Duration
}

// quantity is something that statements use: in the window, and normally for each.
type quantity struct{ sum, normal, noise float64 }

// Add enters what was seen since the look before, dt ago: the processor time that short
// statements used, how many of them run at the look without a wait, and how many ended.
// normal says that nothing can make them dear.
func (c *Cost) Add(dt time.Duration, work time.Duration, running int, done uint64, normal bool) {
	if dt <= 0 {
		return
	}
	keep := math.Exp(-float64(dt) / float64(costWindow))
	c.done = keep*c.done + float64(done)
	c.work.sum = keep*c.work.sum + work.Seconds()
	c.running.sum = keep*c.running.sum + float64(running)*dt.Seconds()
	if c.seen += dt; !normal || c.done < sure || c.seen <= costWindow { // the sums are no averages yet
		return
	}
	weight := max(float64(dt)/float64(c.learned+dt), 1-math.Exp(-float64(dt)/float64(costLearning)))
	c.work.learn(weight, c.done)
	c.running.learn(weight, c.done)
	c.learned += dt
}

func (q *quantity) learn(weight, done float64) {
	each := q.sum / done
	if q.normal > 0 {
		q.noise += weight * (math.Abs(each-q.normal) - q.noise)
	}
	q.normal += weight * (each - q.normal)
}

// Beyond returns which share of the processor time, and of the running time, of the present
// statements is beyond what is normal and its noise: 0 to 1, 0 while no second of normal
// times has been seen.
func (c *Cost) Beyond() (work, running float64) {
	if c.learned < costWindow {
		return 0, 0
	}
	return c.work.beyond(c.done), c.running.beyond(c.done)
}

func (q *quantity) beyond(done float64) float64 {
	usual := (q.normal + costDeviations*q.noise) * done
	if q.normal == 0 || q.sum <= usual {
		return 0
	}
	return 1 - usual/q.sum
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
