// Package admission decides how the gate's adaptive limit is put to the test in
// simulation: a cold start, and a server that changes its speed.
//
//	100 cores, mean service 10 ms ◀── RTT 1 ms ──▶ 100 clients, Poisson
//	SLO 200 ms; nobody tells Spillgate the number of cores
//
// Invariants: peers that must be told the capacity are told the right one, and
// the hand-set optimum is the best of a sweep in the same run, for each phase
// on its own.
//
// What this package does not do: it measures no live server; see the experiment
// of that name for peers on the real clock.
package admission

import (
	"time"

	"github.com/spillgate/spillgate/internal/sim/model"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
)

const (
	mean      = 10 * time.Millisecond
	cores     = 100
	objective = 200 * time.Millisecond
	clients   = 100
)

func setting() contenders.Setting {
	return contenders.Setting{Objective: objective, Cores: cores, Service: mean}
}

func world(seed uint64, p model.Policy, shape model.Shape, length time.Duration) model.Config {
	return model.Config{
		Seed: seed, Policy: p, Objective: objective,
		Server:  model.Server{Cores: cores, Service: model.Service{Mean: mean, Shape: shape}},
		Network: model.Network{Delay: 500 * time.Microsecond},
		Length:  length,
	}
}

func capacity() float64 { return float64(cores) / mean.Seconds() }

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return experiment.Simulated(coldstart(), slowdown())
}
