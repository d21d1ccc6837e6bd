// Package worlds plays a described world in virtual time and decides which policy each of
// its services and clients gets.
//
//	world.World, policy, seed ──▶ Simulate ──▶ sim/mesh ──▶ world.Report
//	                 │
//	  gated services: the policy, told the objective of its service
//	  clients of kind Credits, and services that call: its sender
//
// Spillgate is told the objective and nothing else. The compared policies also get the
// parameters that an operator would have to tune, workers and service times, from the
// description (see package contenders). That favours them.
//
// Invariants: the same world, policy and seed give the same report, byte for byte.
//
// What this package does not do: it reads no file and runs no real process.
package worlds
