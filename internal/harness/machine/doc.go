// Package machine records disturbances of the machine while a measurement runs on it, and what a process takes of it.
//
//	/proc ──▶ AwaitQuiet, before a run
//	      ──▶ WatchStolen, WatchOthers, Used, during it ──▶ the record that may void its figures
//
// Invariants: where the kernel reports nothing, AwaitQuiet does not wait and nothing
// counts as disturbed; no measured result enters the record.
//
// What this package does not do: it does not decide how much disturbance is too much.
package machine
