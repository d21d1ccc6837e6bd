// Package wildlive decides how the control core is put to the test on real services
// that nobody tuned it for: only the latency objective is set.
//
//	row: a world ──▶ bed: spillgate │ semaphores │ none, in turn ──▶ median of the runs ──▶ bars
//
// Invariants: all policies of a row play the same world with the same seed, one after
// the other; who is best beside Spillgate is decided by the figures of the same run; the
// records of the machine alone void a bar.
//
// What this package does not do: it does not simulate; package wild does that with the
// same kinds of worlds.
package wildlive
