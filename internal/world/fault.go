package world

import "time"

// Fault is something that happens to a service at an instant and is over after a
// time. It slows down, stops or kills a service, or lets clients vanish:
// one of the four is set.
type Fault struct {
	// At is the instant at which it begins, For, above 0, how long it lasts.
	At, For time.Duration
	// Every, if above 0, repeats it, each time from its beginning.
	Every time.Duration
	// Service is the one it happens to.
	Service string
	// Replica is the process it happens to, from 1. Default 0: all of them.
	Replica int
	// Slower, if above 0, multiplies what waits and computations take that
	// begin in that time (2: twice as long), and what is left of those that run.
	Slower float64
	// Stop halts all work in that time.
	Stop bool
	// Kill ends the processes with all their state; they start again when the
	// fault is over. Connections break at once.
	Kill bool
	// Vanish is the share, above 0 to 1, of all connections of clients, drawn by chance,
	// that end in that time without a word, instead of anything that happens to a
	// service. Services notice after Notice; clients connect anew when the fault is
	// over.
	Vanish float64
	Notice time.Duration
}
