// Package experiment defines what an experiment is: a question with its own bars,
// answered by running worlds and comparing their reports.
//
//	Experiment ──Run(ctx, Options)──▶ Result: tables, charts, bars
//	     └── Cells ── on all processors ──▶ reports of simulated worlds
//
// A bar is a number that must be reached. It is stated with the experiment and is
// never adapted to results. The quick form has the same bar with a wider tolerance.
//
// Invariants: the Result of a simulated experiment depends on the seed and on nothing
// else; an interrupted experiment has no Result.
//
// What this package does not do: it does not print, and knows no experiment.
package experiment
