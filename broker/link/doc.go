// Package link is what connections of clients have in common, whatever protocol
// they speak: a buffer that is read into, arrival times, and a bound on how many
// there are.
//
//	listener ─ Accept ─▶ Room ─▶ Guest.Serve: Reader.Run ─▶ handle (frames of one read)
//
// Invariants: a read allocates nothing once the buffer has its size; a buffer takes
// memory in proportion to what the client sends at once, and a large one is given
// back after the frame that needed it.
//
// What this package does not do: it knows no protocol and writes nothing, which
// engine.Outbox does.
package link
