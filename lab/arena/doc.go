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
//   - sleep station: 2 slots, mean 1 ms, exponential; capacity 2,000/s by
//     construction; objective 10 ms.
//   - spin station: the processor, mean 100 µs, exponential; capacity measured
//     without a controller; objective 2 ms.
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
