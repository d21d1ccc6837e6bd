package demo

import (
	"time"

	"github.com/spillgate/spillgate/internal/harness/openloop"
)

// Plan is what is played. The length of a step is a whole number of quarters of
// a second.
type Plan struct {
	// SLO is the latency objective, Timeout when a caller gives up.
	SLO, Timeout time.Duration
	// Workers of Mean service time each are the store's capacity.
	Workers int
	Mean    time.Duration
	// Conns is the number of connections to the entry.
	Conns int
	// Try is the length of one try of the search for the capacity, Retake of the
	// last one, which decides.
	Try, Retake time.Duration
	Steps       []Step
	// Tenants share the services in the third act, Before, During and After the
	// burst of one of them. TenantConns is the number of connections of each.
	Tenants               []Tenant
	TenantConns           int
	Before, During, After time.Duration
	// Shop is the act of the checkouts.
	Shop ShopPlan
	// Lock is the act of the culprit.
	Lock LockPlan
	// Feed is the act of the broker.
	Feed FeedPlan
}

// Tenant is one of the tenants that share the services. Its load is a multiple of the
// measured capacity: Usual, but in the middle of the act Burst.
type Tenant struct {
	Name         string
	Usual, Burst float64
}

// Step is a stretch of the load.
type Step struct {
	Name string
	// Factor is the load as a multiple of the measured capacity.
	Factor float64
	For    time.Duration
}

// Full is the demo of about 90 seconds, Quick the one of some 40.
//
// The numbers: the store's workers finish 8/8ms = 1,000 requests a second, few
// enough for three services and a generator on two processors, and enough that
// half a second has a 99th percentile. The objective is ten times the mean
// service time with the three hops' overhead, as in Breakwater's evaluation; the
// callers' timeout is ten objectives, since timeouts are usually set for the
// worst case and not for the objective. Two tenants that use half of the capacity
// have 250 requests a second each, so four seconds have enough for a 99th
// percentile; beside a third they may have a third. That one wants more than the
// overload of the acts before. They have two
// connections each: credits are granted to connections, and of a few credits that are
// spread over many, the one that is free is on another.
//
// A server of the shop finishes 2/6ms = 333 requests a second, so that the flood has
// some 300 checkouts: enough for a 95th percentile. At 0.87 of its capacity a server
// has queues that order matters for, and yet settles within half a second of the
// six. The weights are changed four times a second, not once as by default: at a
// tenth a step they have to come to rest within a part of the flood.
//
// Reads take a fifth of the lock's time, so that it is no bottleneck but for the report.
// That holds it for three times the callers' timeout: of the reads that come in the first
// two thirds none outlives it.
//
// The topics of the broker take 54 % of the consumer's time, so their p99 is a few
// messages' work and far from the objective. The flood is 333 times what a topic sends,
// a message each 50 µs, as of a program that sends in a loop. A limit is twice what a
// topic sends: with a burst of 10 fewer than one in 100,000 of Poisson messages waits, and
// the burst that a flood gets at once is 10 ms of the consumer's time, a tenth of the
// objective. With a limit of 1.1 times it would have to be 62 (placement.SmallestBurst).
func Full() Plan {
	p := plan(400*time.Millisecond, 3*time.Second, 3*time.Second, 8*time.Second, 5*time.Second)
	p.Before, p.During, p.After = 4*time.Second, 6*time.Second, 2*time.Second
	p.Shop = shopPlan(time.Second, 6500*time.Millisecond, 250*time.Millisecond)
	p.Lock = lockPlan(1500*time.Millisecond, 3*time.Second, time.Second)
	p.Feed = feedPlan(1500*time.Millisecond, 2500*time.Millisecond, 500*time.Millisecond)
	return p
}

// Quick is a shorter demo, with noisier figures.
func Quick() Plan {
	p := plan(200*time.Millisecond, 800*time.Millisecond, time.Second, 2*time.Second, 1250*time.Millisecond)
	p.Before, p.During, p.After = time.Second, 1500*time.Millisecond, 500*time.Millisecond
	p.Shop = shopPlan(250*time.Millisecond, 1750*time.Millisecond, 100*time.Millisecond)
	p.Lock = lockPlan(time.Second, 1500*time.Millisecond, 500*time.Millisecond)
	p.Feed = feedPlan(500*time.Millisecond, time.Second, 250*time.Millisecond)
	return p
}

// Brief is a demo of a few seconds, whose figures say nothing: for tests, with a store that is slow enough for any machine.
func Brief() Plan {
	p := plan(100*time.Millisecond, 200*time.Millisecond, 500*time.Millisecond, 750*time.Millisecond, 500*time.Millisecond)
	p.Workers, p.Mean, p.Conns = 4, 20*time.Millisecond, 8
	p.SLO, p.Timeout = 300*time.Millisecond, time.Second
	p.TenantConns, p.Before, p.During, p.After = 3, 500*time.Millisecond, 750*time.Millisecond, 250*time.Millisecond
	p.Shop = shopPlan(250*time.Millisecond, 1250*time.Millisecond, 50*time.Millisecond)
	p.Lock = lockPlan(500*time.Millisecond, time.Second, 500*time.Millisecond)
	p.Feed = feedPlan(250*time.Millisecond, 750*time.Millisecond, 250*time.Millisecond)
	return p
}

func shopPlan(calm, flood, period time.Duration) ShopPlan {
	return ShopPlan{
		Servers: []string{"cart", "stock", "payment", "shipping"}, Workers: 2, Mean: 6 * time.Millisecond, Conns: 4,
		Checkouts: 0.15, Calm: 0.15, Flood: 0.72, CalmFor: calm, FloodFor: flood, Period: period,
	}
}

func lockPlan(calm, held, after time.Duration) LockPlan {
	return LockPlan{Reads: 200, Read: time.Millisecond, Conns: 8, Calm: calm, Held: held, After: after}
}

func feedPlan(calm, flooded, after time.Duration) FeedPlan {
	return FeedPlan{Topics: 9, Rate: 60, Work: time.Millisecond, Flood: 20_000, Limit: 120, Burst: 10, Queue: 200, Calm: calm, Flooded: flooded, After: after}
}

func plan(try, retake, before, overload, after time.Duration) Plan {
	return Plan{
		SLO: 100 * time.Millisecond, Timeout: time.Second,
		Workers: 8, Mean: 8 * time.Millisecond,
		Conns: 48, Try: try, Retake: retake,
		Steps:       []Step{{"0.7x", 0.7, before}, {"2.5x", 2.5, overload}, {"0.7x again", 0.7, after}},
		Tenants:     []Tenant{{"a", 0.25, 0.25}, {"b", 0.25, 0.25}, {"c", 0, 3}},
		TenantConns: 2,
	}
}

// Nominal returns the requests a second that the store's workers can finish.
func (p Plan) Nominal() float64 { return float64(p.Workers) / p.Mean.Seconds() }

// Length returns how long the steps take together.
func (p Plan) Length() time.Duration {
	var d time.Duration
	for _, s := range p.Steps {
		d += s.For
	}
	return d
}

// TenantLength returns how long the act of the tenants takes.
func (p Plan) TenantLength() time.Duration { return p.Before + p.During + p.After }

// share returns a tenant's load at a capacity.
func (p Plan) share(t Tenant, capacity float64) openloop.Profile {
	return openloop.Profile{
		{Rate: t.Usual * capacity, For: p.Before},
		{Rate: t.Burst * capacity, For: p.During},
		{Rate: t.Usual * capacity, For: p.After},
	}
}

// profile returns the steps at a capacity.
func (p Plan) profile(capacity float64) openloop.Profile {
	var out openloop.Profile
	for _, s := range p.Steps {
		out = append(out, openloop.Step{Rate: s.Factor * capacity, For: s.For})
	}
	return out
}

const (
	// tries is how many tries the search takes, about: for estimating only.
	tries = 10
	// between is what starting three services and connecting takes, and the
	// drain at the end of an act, about.
	between = 1500 * time.Millisecond
)

// search returns how long the search for the capacity takes, about.
func (p Plan) search() time.Duration { return p.Try*tries + p.Retake + between/2 }

// estimate returns how long the demo takes, about.
func (p Plan) estimate() time.Duration {
	return p.search() + 2*(p.Length()+between) + p.TenantLength() + between + 2*(p.Shop.Length()+between) + 2*(p.Lock.Length()+between) + 2*(p.Feed.Length()+between)
}
