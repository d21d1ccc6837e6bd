// Package config reads the one configuration file, and reports every mistake in it at
// once, each with its place.
//
//	bytes ──YAML──▶ tree ──Decode──▶ File ──Check──▶ File, or every mistake:
//	                                                 spillgate.yaml:3:6: slo: "fast", expected a duration such as 100ms
//
// The syntax is that of internal/plainyaml. examples/http/spillgate.yaml names every key.
//
// Invariants: a File that is returned without an error describes a proxy that can be
// built; bytes from outside never panic, and they cost time in proportion to MaxSize. The
// packages that own the values check their meaning, so a value from a flag and a value
// from a file meet the same rules.
//
// What this package does not do: it starts nothing. Watch reports changes of the file; its
// caller decides which values can change while the program runs.
package config
