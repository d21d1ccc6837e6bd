// Package arena puts controllers of overload against each other on real gRPC: one
// server process on one core, one generator process on another, the same station
// behind every controller.
//
//	parent ── starts, one pair at a time ──▶ server     core 0: Controller.Server ─▶ station
//	   │                                     generator  core 1: Controller.Client, open loop
//	   └─ medians over interleaved repeats ──▶ Table, beside earlier measurements
//
// Both children are the running program itself: a program that uses Run calls
// Child first.
//
//   - sleep station: slots that sleep for an exponential time; capacity by
//     construction. 4 slots of 10 ms and an objective of 100 ms; the fast one 2 of
//     1 ms and 10 ms.
//   - spin station: a processor that is burnt for an exponential time; capacity
//     measured without a controller. 2 ms and an objective of 40 ms; the fast one
//     100 µs and 2 ms. GOMAXPROCS is 2, one above the processors, so that the kernel
//     lets who reads connections share them with handlers; the lone one has 1.
//
// Calls carry the objective as their deadline, counted from the intended
// instant. The station does not know of it, as most databases do not: work whose
// caller gave up is done to its end and wasted.
//
// Invariants: each repeat runs every controller before the next repeat begins, so
// that a slow stretch of the machine hits all; a run whose generator was late is
// shown but marked; no process outlives a run.
//
// What this package does not do: it holds no third-party peers. They stand in a
// module of their own, lab/peers, so that users of this one do not download them.
package arena
