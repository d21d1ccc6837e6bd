// Package tracing decides how tracers, and gates that use them, are put to the test: what
// tracing costs a program, and what becomes of a Go service in which one request seizes
// what the others need.
//
//	programs in C, Go, Java ──events──▶ task file ◀──looks, modes── engine    overhead
//	open loop ──requests──▶ Go service: gate, tracer, locks, pools, cache     go-service
//
// Invariants: all modes of a program are measured in turn in one run, against the same
// program untraced; what is compared are rates per second of processor time. A service is told its
// objective and nothing of the scene.
//
// What this package does not do: it measures no guard beside a database; package
// culprits does.
package tracing
