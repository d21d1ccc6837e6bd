// Package experiment decides what an experiment is: a question with its own
// bars, answered by running worlds and comparing what they report.
//
//	Experiment ──Run(ctx, Options)──▶ Result: tables, charts, bars
//	     └── Cells ── on all processors ──▶ reports of simulated worlds
//
// A bar is a number that must be reached. It is stated with the experiment, is
// the same in the quick form, where only its tolerance is wider, and is never
// adapted to what was measured.
//
// Invariants: a Result depends on the seed and on nothing else, if the
// experiment is simulated; an experiment that was interrupted has no Result.
//
// What this package does not do: it does not print, and knows no experiment.
package experiment
