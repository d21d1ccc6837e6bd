// Package hold runs an application whose tasks hold resources and wait for them,
// in virtual time. It decides which task gets a lock, a slot, a processor or a page,
// and when.
//
//	Load, Guest ──Program──▶ task ── Acquire, Work, Touch … ──▶ lock, slots,
//	                          │ ▲                               share, pool
//	               every look │ │ cancel, after a delay
//	                          ▼ │
//	              culprit.Sample ──▶ Controller ──▶ []culprit.Action
//
// A Load is the foreground: an open stream of requests or a number of clients. A
// Guest is one task beside it, such as a backup, a report or the culprit of an
// experiment. The Controller sees what a traced application would show and may
// cancel; a cancelled task first undoes its work and then lets go.
//
// Invariants: the same Config gives the same Report; two runs of one seed that
// differ in guests or controller meet the same arrivals with the same work; a
// lock is never held in conflicting modes, and what a task held is free when it
// ended.
//
// What this package does not do: it knows no experiment and no policy.
package hold
