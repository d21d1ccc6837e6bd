// Package grpcgate puts a gate in front of grpc-go servers and a wallet behind
// grpc-go clients, so that excess load waits at the clients.
//
//	caller's goroutine                      connection reader   call's goroutine
//	┌───────────────────────┐  request      ┌───────────────┐   ┌──────────────────┐
//	│ interceptor: a credit │  + Tags       │ tap: stamp,   │   │ interceptor:     │
//	│ from the wallet       │──────────────▶│ parse Tags    │──▶│ gate.Enter       │
//	│ picker: its SubConn   │               └───────────────┘   │ handler          │
//	│ Done: grant, shed     │◀── trailer: Reply ────────────────│ ticket.Leave     │
//	└───────────────────────┘                                   └──────────────────┘
//	  control stream, one a connection: demand ──▶  ◀── grants without a reply
//
// A server takes two lines, a client one:
//
//	srv := grpc.NewServer(grpcgate.ServerOptions(gate)...)
//	err := grpcgate.Serve(srv, listener) // in place of srv.Serve
//
//	conn, err := grpc.NewClient(target, append(grpcgate.DialOptions(), creds)...)
//
// Both sides work with peers that do not know Spillgate: a plain client is
// admitted by the gate without credits, and a plain server is not limited.
// Health checks, reflection and the control stream itself are exempt.
//
// Invariants: every ticket is returned, also when a handler panics; every permit
// is returned, also when a call never gets to a connection; a refused call's
// handler does not run; what a peer says can be ignored and is counted, but never
// fails a call. Nothing is shared between a server and a client of one process,
// or between two ClientConns: the request's tags pass from one to the other in
// the context alone.
//
// What this package does not do: it does not decide, package live does; it does
// not know whom to believe, see WithClassifier; identity is the connection, so
// behind a proxy that shares connections clients share one account.
package grpcgate
