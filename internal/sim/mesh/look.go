package mesh

import (
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
)

// Hooks are called by a running world. Any may be nil. They must not change anything.
// Processes are numbered from 0 in the order of Config.Services.
type Hooks struct {
	// Decision is called when a process's door has decided about a ticket: on its
	// arrival, or, with queued true, when it left the door's queue.
	Decision func(w *World, process int, t *admission.Ticket, v admission.Verdict, queued bool)
	// Canceled is called when a waiting ticket was taken out of the queue.
	Canceled func(w *World, process int, t *admission.Ticket)
	// Booted is called when a process begins a life.
	Booted func(w *World, process int)
}

// LinkView is what checks may see of a connection.
type LinkView struct {
	// Up says that the caller can send by it, and that it has a policy, Sender.
	Up     bool
	Sender baseline.Sender
	// Account is the callee's side, nil if it has none.
	Account *credit.Client
	// Outstanding is the calls sent and not ended, counted by the world.
	Outstanding int
}

// Links calls f for every connection of a caller with a policy, unless the caller has left
// it.
func (w *World) Links(f func(id int, v LinkView)) {
	for i, l := range w.policed {
		if l.gone {
			continue
		}
		f(i, LinkView{!l.down && l.sender != nil, l.sender, l.account, int(l.outstanding)})
	}
}

// Doors calls f for the policy of every process that is alive.
func (w *World) Doors(f func(process int, at Place, d baseline.Door)) {
	for i, p := range w.processes {
		if p.alive {
			f(i, p.place, p.policy)
		}
	}
}
