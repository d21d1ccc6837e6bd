// Package worlds decides which policy stands where when a described world is played in
// virtual time.
//
//	world.World, policy, seed ──▶ Simulate ──▶ sim/mesh ──▶ world.Report
//	                 │
//	  gated services: the policy, told the objective of its service
//	  clients of kind Credits, and services that call: its sender
//
// Spillgate is told the objective and nothing else. The policies that it is compared
// with get what their authors require somebody to tune: workers and service times, which
// the description knows (see package contenders). That favours them.
//
// Invariants: the same world, policy and seed give the same report, byte for byte.
//
// What this package does not do: it reads no file and runs no real process.
package worlds
