// Package link is what client connections of all protocols share: a read buffer,
// arrival times, and a bound on their number.
//
//	listener ─ Accept ─▶ Room ─▶ Guest.Serve: Reader.Run ─▶ handle (frames of one read)
//
// Invariants: a read allocates nothing once the buffer has its size; a buffer takes
// memory in proportion to the bytes that the client sends at once, and a large one is
// released after the frame that needed it.
//
// What this package does not do: it knows no protocol, and it does not write;
// engine.Outbox does.
package link
