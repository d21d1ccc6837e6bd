// Package config reads the one configuration file, and says everything that is
// wrong with it at once, each mistake with its place.
//
//	bytes ──YAML──▶ tree ──Decode──▶ File ──Check──▶ File, or every mistake:
//	                                                 spillgate.yaml:3:6: slo: "fast", expected a duration such as 100ms
//
// The syntax is that of internal/plainyaml. examples/http/spillgate.yaml names
// every key.
//
// Invariants: a File that is returned without an error makes a proxy that can
// be built; bytes from outside never panic and cost time in proportion to
// MaxSize. The meaning of values is checked by the packages that own them, so a
// value given by flag and one given in a file meet the same rules.
//
// What this package does not do: it starts nothing. Watch tells of changes; what
// can change while running is decided by whom it tells.
package config
