// Package chains tests chains of services on the real clock, in the setting of D3G:
// requests that queue at four servers one after the other beside requests that queue
// at one.
//
//	         a chain                                a single
//	clients ──▶ server 0 ──▶ 1 ──▶ 2 ──▶ 3         clients ──▶ server 2
//	clients ──▶ server 1 ──▶ 2 ──▶ 3 ──▶ 0
//
// The servers are Go services of lab/bed, which order their own queues (Peers), or
// unmodified Tomcat 10 servers with a small web application (webapp), each behind a
// proxy that orders its queue. Both sleep for exponential times on a known number of
// workers, so their capacity is known. The same clients drive both, with the same
// arrivals for the same seed.
//
// A chain begins at a random server and visits all, so every server has the same load.
// A server finishes its own work before it calls the next, and holds no worker while it
// waits for the answer.
//
// Invariants: a run whose clients were late says so; a mean is over answered requests,
// and requests that were given up are counted beside it.
//
// What this package does not do: it implements no order, and it does not install Tomcat:
// scripts/deps.sh does.
package chains

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{lawLive(), overallLive(), dynamicLive(), scaleLive()}
}

// servers is how many there are, and how many a chain visits, as in the paper.
const servers = 4

// The groups of clients of every world.
const (
	chains = iota
	singles
)

const (
	ms = time.Millisecond
	// steady is the mean of service times at which a period of share's controller is what
	// it is by default. With shorter ones everything is as many times as fast.
	steady = 10 * ms
	// longestWait is when callers without patience give up.
	longestWait = 30 * time.Second
)

// setting is what the servers are like.
type setting struct {
	workers int
	mean    time.Duration // of exponential service times
	answer  world.Size
	silent  bool // callers say nothing of classes
}

// capacity is what one server can do, in requests per second.
func (s setting) capacity() float64 { return float64(s.workers) / s.mean.Seconds() }

// model is a load in theory, of chains and singles per second to all servers together. It takes
// a server's workers for one that is as fast as all of them, which is exact for one worker.
func (s setting) model(chains, singles float64) share.Load {
	return share.Load{Interactive: chains, Default: singles / servers, Service: s.capacity(), Hops: servers}
}

// world is the servers under chains and singles at rates over time.
func (s setting) world(name string, warmup, length time.Duration, chains, singles []world.Rate) *world.World {
	w := &world.World{Name: name, Objective: longestWait, Warmup: warmup, Length: length}
	asks := [2]world.Group{
		{Name: "chains", Kind: world.Plain, Class: work.Interactive, Deadline: longestWait, Load: world.Load{Steps: chains}},
		{Name: "singles", Kind: world.Plain, Deadline: longestWait, Load: world.Load{Steps: singles}}}
	if s.silent {
		asks[0].Class = work.Default
	}
	server := func(i int) string { return fmt.Sprint("server", i%servers) }
	for i := range servers {
		takes := world.Step{Wait: &world.Draw{Shape: world.Exponential, Mean: s.mean}}
		at := world.Service{Name: server(i), Workers: s.workers, Async: true, Methods: []world.Method{{Name: "page", Answer: s.answer, Steps: []world.Step{takes}}}}
		for first := range servers {
			order := world.Method{Name: fmt.Sprint("order", first), Answer: s.answer, Steps: []world.Step{takes}}
			if (i+1-first+servers)%servers != 0 { // not the last one
				order.Steps = append(order.Steps, world.Step{Call: []world.Target{{Service: server(i + 1), Method: order.Name}}})
			}
			at.Methods = append(at.Methods, order)
		}
		w.Services = append(w.Services, at)
		asks[0].Ask = append(asks[0].Ask, world.Ask{Target: world.Target{Service: server(i), Method: fmt.Sprint("order", i)}})
		asks[1].Ask = append(asks[1].Ask, world.Ask{Target: world.Target{Service: server(i), Method: "page"}})
	}
	w.Clients = asks[:]
	return w
}

func steadily(rate float64) []world.Rate { return []world.Rate{{PerSecond: rate}} }

// The parts of every server that chains and singles each take, for which there are static
// shares.
const lawPart, dynamicPart = 0.3, 0.4

// static returns the static share of the chains with which both classes are as fast, and its
// name.
func static(part float64) (name string, weight float64) {
	s := setting{workers: 1, mean: steady}
	weight, _, _ = s.model(part*s.capacity(), part*s.capacity()*servers).Separate()
	return fmt.Sprintf("static %.2f", weight), weight
}

// Peers returns the orders: of workers in Go services, and of proxies before Tomcats.
func Peers() []bed.Peer {
	all := []bed.Peer{{Name: "fifo"}, {Name: "share", Order: bed.Order{Kind: bed.Shared, Weight: 0.5}}}
	of := func(name string, kind bed.OrderKind, weight float64) {
		all = append(all, bed.Peer{Name: name, Order: bed.Order{Kind: kind, Weight: weight}})
	}
	of("weight 0.65", bed.Weighted, 0.65)
	of("weight 0.9", bed.Weighted, 0.9)
	of("priority", bed.Weighted, 1)
	of("lottery 0.9", bed.Lottery, 0.9)
	for _, part := range []float64{lawPart, dynamicPart} {
		name, weight := static(part)
		of(name, bed.Static, weight)
	}
	for i := range all {
		all[i].Order.InTurn = true
	}
	return append(all, proxied()...)
}

// inGo is the policy of Go services with an order.
func inGo(order string) string { return order + "/http" }

// late says why a run does not count: later requests than by half a service time would be seen in
// the figures.
func late(s setting) func(bed.Take, *bed.Played) string {
	return func(_ bed.Take, p *bed.Played) string { return p.Record.SentLate(s.mean / 2) }
}

// retakes is how many runs of an experiment are made again, all in all, because the clients were
// late.
func retakes(o experiment.Options, quick, full int) *int {
	if o.Quick {
		return &quick
	}
	return &full
}
