// Package culpritsim measures how well the culprit engine finds the task that hogs a
// resource, on simulated applications.
//
//	sixteen cases, in their simulated form ─┐            ┌─ no culprit
//	random applications, quiet or hogged  ──┴─ sim/hold ─┼─ nothing done about it
//	                                                     ├─ oldest first, victims dropped
//	                                                     ├─ greedy, present use
//	                                                     └─ ours
//
// The objective of an application is 1.25 times the 99th percentile that it has
// without a culprit, so nothing is set by hand. A seed varies the onset, the load
// and the size of the culprit between half and double.
//
// Invariants: on one seed all contenders meet the same requests with the same work;
// the engine is told the objective and nothing else.
//
// What this package does not do: it starts no server.
package culpritsim

import (
	"context"

	"github.com/spillgate/spillgate/lab/experiment"
)

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	var all []experiment.Experiment
	for _, s := range append(scenes(), choices()...) {
		all = append(all, experiment.Experiment{
			Name:  "atropos/sim-" + s.name,
			Title: s.title + " (simulated): name the culprit, cancel it, keep the victims",
			About: `The simulated form of a case of Atropos (SOSP 2025). Each row is one way to deal with the culprit, on the same requests;
throughput and p99 are those from one second after the onset on, relative to the run without the culprit on the same seed. The
worst seed counts. Greedy looks at the most contended resource alone; present use ignores progress; both are the engine otherwise.`,
			Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
				return runScene(ctx, o, s)
			},
		})
	}
	all = append(all, experiment.Experiment{
		Name:  "atropos/sim-victims",
		Title: "victims wait in the gate while a culprit is found, and an overload is treated as always (simulated)",
		About: `A gate in front of eight workers, which one request takes all at once. Until it is named and cancelled nothing ends, and the
delay AQM would refuse whoever comes. Without a culprit, in an overload, a slowdown or a pause, keeping them must change nothing.`,
		Run: runVictims,
	}, experiment.Experiment{
		Name:  "atropos/general",
		Title: "cases of a Go service behind a gate (simulated): only the culprit is cancelled",
		About: `Cases that the paper does not have, on many seeds: a pool exhausted by requests that keep its connections, writers starved by a
reader, a slow leak into a cache, two culprits at once, a culprit that comes back under another kind, one of the victims' own kind,
and a burst without a culprit. A seed is missed if of some kind of culprit none was cancelled.`,
		Run: runGeneral,
	})
	return append(all, experiment.Experiment{
		Name:  "atropos/random",
		Title: "random applications: without a culprit no task is cancelled, with one only the culprit",
		About: `Applications of random resources and streams of requests. Quiet ones have bursts of up to three times their load, idle
spells, and guests that run long and harm nobody: the engine must not cancel anything. Hogged ones have a culprit on one resource.
After each decision the engine's invariants are checked: scores and blame are shares, an action names a living task that may be
cancelled, is old enough and had no such step, and the caps hold.`,
		Run: runRandom,
	})
}
