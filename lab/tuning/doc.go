// Package tuning decides what each constant of the control core is worth: what the
// worlds of lab/wild lose with half of it, and with twice as much.
//
//	source ──▶ constants ──▶ a copy in which the environment moves one ──▶ player
//	(go/ast)   (go/types)    (go build -overlay)                            │
//	table: constant, what it costs to move it ◀── what each world came to ◀─┘
//
// A constant stays a constant: only the copy, which is compiled and thrown away, reads
// it from a variable. What depends on a constant is computed by the type checker, so
// that a moved constant moves whatever is derived from it, as an edit of the source
// would. Sizes of arrays cannot be moved so; they are compiled one by one.
//
// Invariants: the copy in which nothing is moved plays as the program does, which each
// run checks; a constant that changes nothing in any world is told from one that may
// have any value, because the worlds cannot say anything about it.
//
// What this package does not do: it changes no constant and recommends none.
package tuning
