// Package interactive repeats the evaluation of D3G (Zhang et al., IEEE Network 2018) in
// simulation: requests that queue at four servers one after the other beside requests
// that queue at one.
//
//	chains  ──▶ a ──▶ b ──▶ c ──▶ d        a quarter of them begins at each server
//	singles ──▶ a     b     c     d
//	            └ one queue for each class, and an order between the two
//
// The paper prints neither its formulas nor its service times. Ratios between orders
// and times to settle are comparable. Where an experiment starts from the paper's
// milliseconds, its service times are chosen so that FIFO gives the same ones.
//
// Invariants: compared orders meet the same requests with the same work, on the same
// seeds; under the order "share" each server learns the classes and is told none; a
// bar over several loads is about the worst of them.
//
// What this package does not do: it tunes nothing per experiment; share is
// package share with its defaults. Package chains does the same on the real clock.
package interactive

import "github.com/spillgate/spillgate/lab/experiment"

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return experiment.Simulated(overall(), dynamic(), scale(), law())
}
