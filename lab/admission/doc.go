// Package admission tests the gate's adaptive limit in simulation: a cold start, and
// a server that changes its speed.
//
//	100 cores, mean service 10 ms ◀── RTT 1 ms ──▶ 100 clients, Poisson
//	SLO 200 ms; Spillgate is not told the number of cores
//
// Invariants: peers that must be told the capacity are told the right one, and
// the hand-set optimum is the best of a sweep in the same run, for each phase
// on its own.
//
// What this package does not do: it measures no live server; package admissionlive
// does.
package admission

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

const (
	mean      = 10 * time.Millisecond
	cores     = 100
	objective = 200 * time.Millisecond
	clients   = 100
	// message is what a message of no request costs a core: a refusal of two costs 1 µs
	// (measured for pipelined RPC in Go without a gRPC stack: 0.5 µs a call).
	message = 500 * time.Nanosecond
)

func setting() contenders.Setting {
	return contenders.Setting{Objective: objective, Cores: cores, Service: mean}
}

func server(seed uint64, p mesh.Control, shape worlds.Shape, load float64, length time.Duration) experiment.Cell {
	w := worlds.Single(p.Name, objective, cores, shape.Draw(mean), clients, worlds.Times(load))
	w.Services[0].Message, w.Clients[0].Patient = message, true
	w.Network.Delay, w.Length = 500*time.Microsecond, length
	return experiment.Cell{Name: fmt.Sprintf("%s, %v", p.Name, shape), World: w, Control: p, Seed: seed}
}

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return experiment.Simulated(coldstart(), slowdown())
}
