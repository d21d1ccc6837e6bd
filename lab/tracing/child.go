package tracing

import "github.com/spillgate/spillgate/internal/harness/proc"

// role tells a child what to do.
const role = proc.Role[order]("SPILLGATE_TRACING")

// order is for one child.
type order struct {
	// Load is the task file of a load of Threads threads, whose requests take Steps of work.
	Load    string `json:",omitempty"`
	Threads int    `json:",omitempty"`
	Steps   int    `json:",omitempty"`
}

// Child plays a child's part and ends the process, if it is a child of an experiment of
// this package, and returns otherwise. It is called first in main.
func Child() { role.Play("tracing", order.obey) }

func (o order) obey() error { return goLoad(o.Load, o.Threads, o.Steps) }
