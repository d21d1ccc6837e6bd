// Package live drives the policies of this module on the real clock, for
// servers and clients written in Go.
//
// It decides nothing. A Gate wraps an admission.Gate, a Wallet a credit.Wallet
// and a Resource a schedule.Queue: a lock around the policy, a channel for each
// request that waits, one timer for the policy's next wake-up, and counters. A
// Span wraps a progress.Span in the same way. Where workflows matter, the context
// of a request leads from its ticket to the calls that are made for it, and from
// their replies back to the gate: see BeginCall.
//
//	handler goroutines ──Enter──▶ lock ─▶ admission.Gate ─▶ unlock ──▶ run, wait, or refusal
//	                   ──Leave──▶            │
//	timer ───────────────────────────────────┘ ──▶ grants to clients, outside the lock
//
// The clock is read, and a ticket filled, before the lock is taken. A Leave that finds the
// lock held hands its ticket to the holder, which ends it before it lets go: see lock.go.
//
// Invariants: a ticket's slot is returned exactly once, whatever Leave is called
// with and however often; no callback runs under a lock; after Close nothing
// waits, no timer runs and no goroutine is left.
//
// What this package does not do: it knows no protocol and no metrics library;
// edges do.
package live
