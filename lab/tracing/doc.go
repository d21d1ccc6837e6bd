// Package tracing tests tracers, and gates that use them: the cost of tracing to a program,
// and a Go service in which one request seizes a resource that the others need.
//
//	programs in C, Go, Java ──events──▶ task file ◀──looks, modes── engine    overhead
//	open loop ──requests──▶ Go service: gate, tracer, locks, pools, cache     go-service
//
// Invariants: all modes of a program are measured in turn in one run, against the same
// program untraced, by their rates per second of processor time. A service is told its
// objective and nothing about the scene.
//
// What this package does not do: it measures no guard beside a database; package
// culprits does.
package tracing
