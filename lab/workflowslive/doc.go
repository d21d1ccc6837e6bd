// Package workflowslive decides how the isolation and the hotspot of Wisp (Suresh et
// al., SoCC 2017, figures 7 and 9) are repeated with real gRPC on loopback, every
// server a process of its own.
//
//	clients ──▶ FE 2 ──▶ PS 2 ──▶ EN 2      a gate in front of each,
//	                     workers   slots    grpcgate between them,
//	                     semaphore          workflows by tags
//
// The paper's servers are forty machines; here six share two processors. So work is
// sleep behind a bounded number of workers, which is short when the workers are,
// and the processor never is. What is comparable are ratios within one run.
//
// Invariants: the stretches of a run that are compared meet the same service times,
// request by request, so that chance in the work is not taken for an effect; the
// controls differ in rates and in the order of queues and in nothing else; a run
// whose generator was late is made again, a bounded number of times, and then
// judges nothing.
//
// What this package does not do: it has no authentication tier, no third-party
// peers (see lab/peers), and no tenants beyond one a workflow.
package workflowslive

import (
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{isolation(), hotspot()}
}

// The controls that are compared.
const (
	deadlines = "deadlines only"
	rated     = "rates"
	ratedFair = "rates+fair"
)

// Peers returns the controls.
func Peers() []bed.Peer {
	return []bed.Peer{control(deadlines, false, false), control(rated, true, false), control(ratedFair, true, true)}
}
