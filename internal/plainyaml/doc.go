// Package plainyaml reads files in a plain subset of YAML and reports every mistake with
// its place.
//
//	bytes ──Parse──▶ Node ──Object, List, Text …──▶ fields of a struct
//	                           │                       │
//	                        mistakes ◀────Found──── its own check
//	                           ▼
//	               Err: file.yaml:3:6: slo: "fast", expected a duration such as 100ms
//
// A file is one document of plain mappings and lists, without anchors, aliases, merges
// and tags. An unknown key and a repeated key are mistakes, because a misspelt limit that
// is silently ignored is noticed only in the next overload.
//
// Invariants: all mistakes are reported, up to MaxMistakes, in the order of the
// file, and each once; bytes from outside never panic. Parsing takes time that
// grows faster than its input, so callers bound what they read.
//
// What this package does not do: it opens no file, knows no key and fills no
// struct by reflection. A decoder is not safe for concurrent use.
package plainyaml
