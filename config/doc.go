// Package config reads the one configuration file, and says everything that is
// wrong with it at once, each mistake with its place.
//
//	bytes ──YAML──▶ tree ──Decode──▶ File ──Check──▶ File, or every mistake:
//	                                                 spillgate.yaml:3:6: slo: "fast", expected a duration such as 100ms
//
// The syntax is YAML 1.2 without its dark corners: no anchors, aliases, merges
// and tags, one document, plain mappings and lists. Keys that are unknown and
// keys that come twice are mistakes, because a misspelt limit that is silently
// ignored is found in the next overload. docs and examples/http/spillgate.yaml
// name every key.
//
// Invariants: a File that is returned without an error makes a proxy that can
// be built; bytes from outside never panic and cost time in proportion to
// MaxSize. The meaning of values is checked by the packages that own them, so a
// value given by flag and one given in a file meet the same rules.
//
// What this package does not do: it starts nothing. Watch tells of changes; what
// can change while running is decided by whom it tells.
package config
