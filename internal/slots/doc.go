// Package slots decides how many requests may run at once, without being told
// the capacity of what runs them.
//
// Behind the gate stands something that can work on an unknown number of
// requests at a time: cores, a pool of workers, a database's connections. With
// too few slots it idles; with too many the surplus queues inside it, where
// nobody can order it, refuse it or see it. The limit is steered to just above the
// knee, where the hidden queue is short but never empty:
//
//	limit = knee + throughput × slack
//
//	throughput │      ┌──────────       knee = throughput × service
//	           │    ╱ ·
//	           │  ╱   ·
//	           └──────┴────────── requests at once
//	                 knee
//
// The knee is what is remembered: a server that becomes slower does less with as many
// workers, and needs no new limit. It is learned by trial, because a longer residence
// is a queue or slower work, and both look the same from here:
//
//	residence with half as many running ──▶ knee = throughput before × that
//	throughput with half again as many  ──▶ it grew: the knee is there
//	requests at once, and no longer residence, while slots are free ──▶ at least so many
//
// What has no effect on the objective is left alone: trials are rare, and rarer while
// they find nothing. A trial after which the server does less is undone.
//
// Invariants: the limit stays within Min and Max; while nothing binds, low throughput
// lowers no limit below what runs; with a residence over the objective no limit grows
// far without a trial.
//
// A request that runs for longer than the objective may give its slot back while it
// runs on: see Lend. So long polls and rare long requests neither hold the slots of
// the others nor pass for slow service.
//
// What this package does not do: it keeps no queue and does not choose who
// runs.
package slots
