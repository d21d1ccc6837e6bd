package mesh

import (
	"time"

	"github.com/spillgate/spillgate/baseline"
)

// Control is what decides in a world: a policy at the ingress of each process,
// one at the egress to each process that it calls, and what becomes of calls
// that nobody waits for. The zero Control lets everything run, to waste if need
// be.
type Control struct {
	// Name labels results.
	Name string
	// GiveUp makes clients cancel a request at its deadline.
	GiveUp bool
	// Cancel makes a caller that gives up tell the process that it called, as an
	// RPC library with deadlines does: what waits there is dropped, what works
	// stops after the present piece of work, and so on downwards. Without it
	// everything runs on, to waste.
	Cancel bool
	// Door makes a process's policy, at the start and for each life after a kill.
	// Nil: everything runs.
	Door func(seed uint64, at Place) (baseline.Door, error)
	// Sender makes the policy of a caller for one process that it calls. Nil:
	// everything is sent. from.Service is empty for a client.
	Sender func(seed uint64, from, to Place) (baseline.Sender, error)
}

// Place is a process, for the constructors of its policies.
type Place struct {
	Service string
	// Process numbers the processes of the service, or the clients of a group.
	Process int
	// Life counts the process's restarts from 0.
	Life int
	// Workers is the capacity of its first resource.
	Workers int
	// Objective is Service.Objective, filled in.
	Objective time.Duration
}
