// Package wild decides how the control core is put to the test on services that
// nobody tuned it for: only the latency objective is set.
//
//	8 workers, nobody is told ◀── RTT 0.5 ms ──▶ clients with credits, and plain ones
//	   │ service near the objective, rare long requests, heavy tails, long polls,
//	   │ slowdowns, stalls, bursts, callers with long deadlines or none
//	   └─ beside it, per world: the best of a sweep of hand-set semaphores, seed by
//	      seed; and the one of them that is best over all seeds
//
// wild/hosts plays services that share processors, call graphs, retries and masses of
// connections, beside the best of a few semaphores.
//
// A row is one world, as package world describes it. Each policy plays it on several seeds, the worst of which
// counts: the least ratio of its goodput to that of the best semaphore on the
// same seed.
//
// Invariants: the semaphores are told the number of workers; Spillgate is told
// the objective and nothing else; on one seed all meet the same arrivals and the
// same work.
//
// What this package does not do: it measures no live server.
package wild
