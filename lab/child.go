package lab

import (
	"slices"

	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/breakwaterlive"
	"github.com/spillgate/spillgate/lab/brokers"
	"github.com/spillgate/spillgate/lab/chains"
	"github.com/spillgate/spillgate/lab/cost"
	"github.com/spillgate/spillgate/lab/front"
	"github.com/spillgate/spillgate/lab/tracing"
	"github.com/spillgate/spillgate/lab/workflowslive"
)

// Child does a child process's work and ends the process, if this process is one
// that a live experiment started, and returns otherwise. A program with Command
// calls it first in main.
func Child() {
	tracing.Child()
	brokers.Child()
	breakwaterlive.Child()
	cost.Child()
	front.Child()
	bed.Child(slices.Concat(workflowslive.Peers(), chains.Peers())...)
}
