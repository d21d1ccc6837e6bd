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
// Who is a client. Behind a proxy that shares connections a connection is not a
// client, so a client names itself (wire.Tags.Client), and has one account over
// all the connections on which it is heard. What a peer can gain by making up
// names is bounded: a peer is a verified client certificate, or else an address,
// and live.Ledger says how many names it may have. A client with a connection to
// itself always has an account.
//
// What this package does not do: it does not decide, package live does; it does
// not know whom to believe, see WithClassifier.
package grpcgate
