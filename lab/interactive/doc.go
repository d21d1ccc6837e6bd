// Package interactive decides how the evaluation of D3G (Zhang et al., IEEE Network
// 2018) is repeated in simulation: requests that queue at four servers one after
// the other beside requests that queue at one.
//
//	chains  ──▶ a ──▶ b ──▶ c ──▶ d        a quarter of them begins at each server
//	singles ──▶ a     b     c     d
//	            └ one queue for each class, and an order between the two
//
// The paper prints no formula and not its service times. What is comparable are
// ratios between orders and times to settle. Where its milliseconds are the
// starting point, service times are chosen so that FIFO gives them.
//
// Invariants: orders that are compared meet the same requests with the same work,
// on the same seeds; the order "share" is told no class, each server learns it; a
// bar over several loads is of the worst of them.
//
// What this package does not do: it tunes nothing per experiment; share is
// package share with its defaults. Package chains has the same on the real clock.
package interactive

import "github.com/spillgate/spillgate/lab/experiment"

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return experiment.Simulated(overall(), dynamic(), scale(), law())
}
