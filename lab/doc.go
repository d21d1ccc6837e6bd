// Package lab decides which experiments there are and how they are run from the
// command line.
//
//	lab list                 the experiments and what each shows
//	lab run NAME             tables, bars, plots; fails if a bar is missed
//
//	breakwater/…  admission/…  ──▶ experiment.Result ──▶ table, plot, JSON
//
// Invariants: progress goes to the error stream and results to the output; a
// run prints its seed, and the same seed and commit give the same results for
// simulated experiments; the exit status tells whether every bar was reached.
//
// What this package does not do: it holds no experiment itself.
package lab
