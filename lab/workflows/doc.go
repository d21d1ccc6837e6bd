// Package workflows repeats the evaluation of Wisp (Suresh et al., SoCC 2017) in
// simulation, and measures how rates, credits and orders work together where several
// services depend on one another.
//
//	FE 10 ──▶ AUTH 5                       compose: a ──▶ b ──▶ c, only c overloaded
//	   └────▶ PS 10 ──▶ EN 10              random:  hundreds of services from a seed
//
// The published numbers come from forty virtual machines and a trace that is not
// public. Ratios, shares and the affected workflows are comparable, milliseconds are
// not. Where the paper leaves a number open, the experiment says what it chose.
//
// Invariants: two controls compared on one seed meet the same requests with the
// same work; a bar over several seeds is about the worst of them; a request that was
// admitted and given up at its deadline counts as one that missed it.
//
// What this package does not do: it tunes little per experiment. The controls are
// those of package mesh with its defaults, except where an experiment says so.
package workflows

import "github.com/spillgate/spillgate/lab/experiment"

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return experiment.Simulated(
		example(), isolation(), deadlines(), lowLatency(), hotspot(), quantile(), slack(), trace(), random(),
		leaf(), hops(), step(), retries(),
	)
}
