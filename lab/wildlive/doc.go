// Package wildlive tests the control core on real services that it was not tuned for:
// only the latency objective is set.
//
//	row: a world ──▶ bed: spillgate │ semaphores │ none, in turn ──▶ median of the runs ──▶ bars
//
// Invariants: all policies of a row play the same world with the same seed, one after
// the other; the best policy beside Spillgate is chosen by the figures of the same run;
// the record of the machine alone voids a bar.
//
// What this package does not do: it does not simulate; package wild does that with the
// same kinds of worlds.
package wildlive
