// Package livedoor drives any compared policy on real traffic: a baseline.Door in
// front of the unary calls of a grpc-go server, a baseline.Sender behind those of
// a client.
//
//	call ── Client ── Sender: send? ──▶ metadata: priority, demand
//	                                        │
//	        Server ── Door: run? ◀──────────┘ stamped in the connection reader
//	          handler
//	          trailer: grant, level, reason ──▶ Sender.OnReply
//
// It is the same policy value that the simulator drives, so a difference between
// the two is a difference of worlds, not of code.
//
// Invariants: every call that the Door let run is followed by one Leave, also
// when the handler panics; every ticket gets one Feedback; nothing calls a policy
// without its lock.
//
// What this package does not do: it has no channel for grants without a reply,
// so a client without credits lives by Grant.Revive; it drives no streams; it
// is made for comparing, and package grpcgate for using.
package livedoor
