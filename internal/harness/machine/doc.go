// Package machine decides what is noted of the machine while something is measured on it.
//
//	/proc ──▶ AwaitQuiet, before a run
//	      ──▶ WatchStolen, WatchOthers, Used, during it ──▶ the record that may void its figures
//
// Invariants: where the kernel does not tell, nothing is waited for and nothing is known
// to be disturbed; no figure of what is measured enters.
//
// What this package does not do: it does not say how much of a disturbance is too much.
package machine
