// Package check decides whether a simulated world keeps the promises that the
// policies make, after every event.
//
//	mesh.World ──hooks──▶ Checker: books, windows, queue order, starvation
//	seed ──▶ Random: a world with random clients, faults and network
//
// It checks that credits are conserved (credit.Pool.Check) and every window is
// within its bounds; that an honest client has no more requests outstanding than it
// was granted at some time within a lease; that no ticket is lost or ends twice; that
// tickets leave the queue in the order in which they came; that every request ends once.
//
// Invariants: a Checker only looks; a seed gives the same world every time, so
// a failure is repeated by its seed.
//
// What this package does not do: it does not judge speed (package lab does).
package check
