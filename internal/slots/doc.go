// Package slots decides how many requests may run at once, without being told
// the capacity of what runs them.
//
// Behind the gate stands something that can work on an unknown number of
// requests at a time: cores, a pool of workers, a database's connections. With
// too few slots it idles; with too many the surplus queues inside it, where
// nobody can order it, refuse it or see it. The limit is steered to the point
// where the hidden queue is short but never empty:
//
//	limit = throughput × (service + slack)
//
// throughput is measured while slots are the bottleneck; service, the residence
// time without a hidden queue, cannot be measured by looking on, because a
// longer residence is a queue or slower work, and both look the same from here.
// It is learned by experiment instead:
//
//	residence above service + slack ──▶ cut ──▶ residence follows: it was a queue
//	                                       └──▶ throughput follows: the work is
//	                                            slower; undo, service = residence
//	limit binds for long            ──▶ probe: halve for one window, same question
//
// Invariants: the limit stays within Min and Max; a limit that does not bind is
// never lowered by low throughput, only by a residence time that grew.
//
// A request that runs for longer than the objective may give its slot back while it
// runs on: see Lend. So long polls and rare long requests neither hold the slots of
// the others nor pass for slow service.
//
// What this package does not do: it keeps no queue and does not choose who
// runs.
package slots
