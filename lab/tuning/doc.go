// Package tuning measures how sensitive the control core is to each of its constants: how
// much the worlds of lab/wild lose with half of its value, and with twice its value.
//
//	source ──▶ constants ──▶ a copy in which the environment moves one ──▶ player
//	(go/ast)   (go/types)    (go build -overlay)                            │
//	table: constant, the loss when it moves  ◀──── results of each world ◀──┘
//
// A constant stays a constant: only the copy, which is compiled and thrown away, reads
// it from a variable. The type checker finds everything derived from a constant, so a
// moved constant moves its derived values too, as an edit of the source would. An array
// size cannot be read from a variable, so each of its values is compiled on its own.
//
// Invariants: the copy with no constant moved plays as the program does, which each run
// checks. A constant that no world exercises is told apart from one that may have any
// value.
//
// What this package does not do: it changes no constant and recommends none.
package tuning
