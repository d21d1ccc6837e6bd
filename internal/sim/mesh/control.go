package mesh

import (
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/share"
)

// Control is what decides in a world: policies at the ingress of each process and
// at its egress to each process that it calls, the order in front of resources,
// and what becomes of calls that were given up. The zero Control lets
// everything run in order of arrival, to waste if need be.
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
	// Door makes a process's policy, at the start and for each life after a kill. A
	// *node.Node hears what package live tells one: what tags say, calls and their
	// answers, resources, polls. Nil: everything runs.
	Door func(seed uint64, at Place) (baseline.Door, error)
	// Sender makes the policy of a caller for one process that it calls. Nil:
	// everything is sent. from.Service is empty for a client.
	Sender func(seed uint64, from, to Place) (baseline.Sender, error)
	// Queue orders what waits for a resource, as that of a live.Resource does. Nil:
	// first in, first out. Workflows is filled in.
	Queue *schedule.Config
	// Share gives each process a node.Shares, which learns which calls are interactive
	// and moves the weight of that class, at the process's node and in front of its
	// resources. Servers is filled in. Nil: classes weigh what Queue says.
	Share *share.Config
	// Ranked gives each request of a described world a priority by chance, from the
	// best to the least, for policies that need ranks. Elsewhere all have one.
	Ranked bool
	// Lottery, if above 0, is instead of Queue: two lines in order of arrival, of
	// which the one of the interactive class is drawn with this probability
	// while both hold something. 1 is strict priority.
	Lottery float64
}

// ordered reports whether something else than the order of arrival decides who
// gets a resource.
func (c *Control) ordered() bool { return c.Queue != nil || c.Share != nil || c.Lottery > 0 }

// Place is a process, for the constructors of its policies.
type Place struct {
	// Service is the service's name, or empty at a client.
	Service string
	// Process numbers the processes of the service, or the clients of a group.
	Process int
	// Life counts the process's restarts from 0, and Number tells it, in this life, from
	// all others.
	Life   int
	Number uint64
	// Resources are the process's.
	Resources []Resource
	// Workers is the capacity of its first resource.
	Workers int
	// Threads is how many calls keep the workers busy, counting those that wait
	// for calls of their own: Workers at a leaf, more elsewhere. An estimate.
	Threads int
	// Objective is Service.Objective, filled in.
	Objective time.Duration
}
