// Package wild tests the control core in simulation on services that it was not tuned
// for: only the latency objective is set.
//
//	8 workers, not told to it ◀── RTT 0.5 ms ──▶ clients with credits, and plain ones
//	   │ service near the objective, rare long requests, heavy tails, long polls,
//	   │ slowdowns, stalls, bursts, callers with long deadlines or none
//	   └─ beside it, per world: the best of a sweep of hand-set semaphores for each
//	      seed, and the semaphore that is best over all seeds
//
// wild/hosts plays services that share processors, call graphs, retries and masses of
// connections, beside the best of a few semaphores. wild/random, graphs, inside and parts draw all numbers of a world from a
// seed.
//
// A row is one world, as package world describes it. Each policy plays it on several
// seeds. The worst seed counts: the one with the least ratio of the policy's goodput to
// that of the best semaphore on the same seed.
//
// Invariants: the semaphores are told the number of workers; Spillgate is told
// the objective and nothing else; on one seed all meet the same arrivals and the
// same work.
//
// What this package does not do: it measures no live server.
package wild
