// Package served decides how Spillgate is put to the test on the real clock: real
// gRPC and HTTP on loopback, servers and generators in processes of their own.
//
//	admission/peers            every policy, two stations, 1x to 4x and a spike   arena
//	admission/peers-fast       the same with objectives of 10 and 2 ms            arena
//	admission/coldstart-live   100 slots, load from the first instant             arena
//	admission/slowdown-live    4x slower and fast again, beside hand-set limits   arena
//	breakwater/clients-live    10,000 connections: memory and processor time      crowd
//	bench/cost                 what a decision and each edge cost                 contest
//
// The machine takes part in every figure. So each bar is a ratio inside one run,
// or a time far above what a disturbance of the machine takes; and a run whose
// generator was late, or whose server had to share its processor, is made again,
// a bounded number of times. If that does not help, the experiment is void: it
// fails with that reason, and judges nothing.
//
// Invariants: the processes of a pair have a processor each and nothing runs
// beside them; the bars are those of the project and are not adapted to results.
//
// What this package does not do: it simulates nothing, and has no third-party
// peers (see lab/peers).
package served

import (
	"github.com/spillgate/spillgate/lab/experiment"
)

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{clients(), cost()}
}

// Child does a child process's work and ends the process if this process is one
// of the processes that an experiment starts, and returns otherwise. A program
// that runs experiments calls it first in main.
func Child() {
	serverChild()
}
