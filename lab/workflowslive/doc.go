// Package workflowslive repeats the isolation and the hotspot of Wisp (Suresh et al., SoCC
// 2017, figures 7 and 9) with real gRPC on loopback. Every server is a process of its own.
//
//	clients ──▶ FE 2 ──▶ PS 2 ──▶ EN 2      a gate in front of each,
//	                     workers   slots    grpcgate between them,
//	                     semaphore          workflows by tags
//
// The paper has forty machines; here six servers share two processors. So work is sleep
// behind a bounded number of workers: workers are the scarce resource, and the processor
// never is. Ratios within one run are comparable.
//
// Invariants: compared stretches of a run have the same service times, request by
// request, so random work is not taken for an effect; the controls differ only in rates
// and in the order of queues; a run whose generator was late is repeated a bounded number
// of times, and after that its bars are void.
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
