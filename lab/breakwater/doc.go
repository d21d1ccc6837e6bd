// Package breakwater repeats the evaluation of Breakwater (Cho et al., OSDI 2020) in
// simulation: load, demand spike, clients, ablation and refusals, beside the paper's
// baselines and others.
//
//	10 cores, mean service 10 µs ◀── RTT 10 µs ──▶ 1,000 clients, Poisson
//	SLO 200 µs; a refusal costs the server 1 µs, any other message 0.5 µs
//
// The published numbers come from a testbed with kernel bypass; the simulator
// has no packet losses, no interrupts and no clients short of processor time.
// Ratios and times to converge are comparable, microseconds are not.
//
// Invariants: goodput is of answers within the SLO of the intended send time,
// the wait for a credit included; capacity is cores ÷ mean service time; every policy is
// measured for the same time, after a warm-up in which it reaches its level.
//
// What this package does not do: it tunes nothing; package contenders has the
// parameters of the peers.
package breakwater

import (
	"time"

	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

const (
	mean      = 10 * time.Microsecond
	cores     = 10
	objective = 200 * time.Microsecond
	oneWay    = 5 * time.Microsecond
	clients   = 1000
	message   = 500 * time.Nanosecond
	// connected is when the load begins: clients connect at the start, and the
	// messages of 10,000 of them take the server half a millisecond.
	connected = 2 * time.Millisecond
)

func setting() contenders.Setting {
	return contenders.Setting{Objective: objective, Cores: cores, Service: mean}
}

func capacity() float64 { return cores / mean.Seconds() }

// slowStart is what SEDA, which begins at 2 to 8 requests/s a client, and Protego,
// which adds a credit per 200 µs, get on top of the others' warm-up: without it their
// figures are of their cold start, not of their level.
const slowStart = 800 * time.Millisecond

// coldStart returns how much longer than the others a policy takes to reach its level.
func coldStart(p mesh.Control) time.Duration {
	if p.Name == "seda" || p.Name == "protego" {
		return slowStart
	}
	return 0
}

// testbed is what was measured on, under a constant load, in multiples of its capacity. What is
// measured begins after warmup and the policy's own cold start, and is as long for every
// policy.
func testbed(seed uint64, p mesh.Control, shape worlds.Shape, n int, load float64, warmup, length time.Duration) experiment.Cell {
	more := coldStart(p)
	w := worlds.Single(p.Name, objective, cores, shape.Draw(mean), n, world.Load{Steps: []world.Rate{{}, {At: connected, Times: load}}})
	w.Services[0].Message, w.Clients[0].Patient = message, true
	w.Network.Delay = oneWay
	w.Warmup, w.Length = warmup+more, length+more
	// Dearer ones, of more requests, are simulated first.
	return experiment.Cell{World: w, Control: p, Seed: seed, Cost: load * w.Length.Seconds()}
}

// microseconds for tables and bars.
func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return experiment.Simulated(load(), spike(), manyClients(), ablation(), refusal())
}
