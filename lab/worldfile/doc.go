// Package worldfile reads world files. It reports all mistakes of a file at once, each
// with its place.
//
//	world.yaml ──────▶ tree ──▶ world.World ──Check──▶ the world, or every mistake:
//	trace.csv ──────▶ instants ──▲                     world.yaml:9:13: services[0].methods[0].steps[0].wait: "10", expected …
//	histogram.csv ──▶ points ────┘                     trace.csv:17: "yesterday", expected …
//
// docs/worlds.md teaches the format. internal/plainyaml defines the syntax;
// internal/world defines the meaning of the values and their limits.
//
// Invariants: a world that is returned without an error is one that world.Check
// accepts. Bytes from outside never panic, and cost time and memory in proportion
// to MaxSize, and to MaxCSV for each file that is named.
//
// What this package does not do: it runs nothing and fills in no default.
package worldfile
