// Package worldfile reads world files, and says everything that is wrong with one at
// once, each mistake with its place.
//
//	world.yaml ──────▶ tree ──▶ world.World ──Check──▶ the world, or every mistake:
//	trace.csv ──────▶ instants ──▲                     world.yaml:9:13: services[0].methods[0].steps[0].wait: "10", expected …
//	histogram.csv ──▶ points ────┘                     trace.csv:17: "yesterday", expected …
//
// docs/worlds.md teaches the format. The syntax of YAML is that of
// internal/plainyaml; what the values mean, and their limits, is said by
// internal/world.
//
// Invariants: a world that is returned without an error is one that world.Check
// accepts. Bytes from outside never panic, and cost time and memory in proportion
// to MaxSize, and to MaxCSV for each file that is named.
//
// What this package does not do: it runs nothing and fills in no default.
package worldfile
