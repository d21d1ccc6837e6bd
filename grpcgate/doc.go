// Package grpcgate puts a gate in front of grpc-go servers and credits into grpc-go
// clients, so that excess load waits at the clients.
//
//	caller's goroutine                      connection reader   call's goroutine
//	┌───────────────────────┐  request      ┌───────────────┐   ┌──────────────────┐
//	│ interceptor: a credit │  + Tags       │ tap: stamp,   │   │ interceptor:     │
//	│ from the wallet       │──────────────▶│ parse Tags    │──▶│ gate.Enter       │
//	│ picker: its SubConn   │               └───────────────┘   │ handler          │
//	│ Done: grant, shed     │◀── trailer: Reply ────────────────│ ticket.Leave     │
//	└───────────────────────┘                                   └──────────────────┘
//	  control stream, one per connection: demand ──▶  ◀── grants without a reply
//
// A server needs two lines, a client one:
//
//	srv := grpc.NewServer(grpcgate.ServerOptions(gate)...)
//	err := grpcgate.Serve(srv, listener) // in place of srv.Serve
//
//	conn, err := grpc.NewClient(target, append(grpcgate.DialOptions(), creds)...)
//
// Both sides work with peers that do not use Spillgate: the gate admits a non-credit
// client without credits, and a client does not limit calls to a server that grants
// none. Health checks, reflection and the control stream itself are exempt.
//
// Invariants: every ticket is returned, also if a handler panics; every permit is
// returned, also if a call never reaches a connection; the handler of a refused call
// does not run; malformed messages of a peer are ignored and counted, and never fail a
// call. A server and a client in one process share nothing, and neither do two
// ClientConns: a request's tags pass from one to the other only in the context.
//
// Identity. Behind a proxy that shares connections, a connection is not a client. A client
// therefore names itself (wire.Tags.Client) and has one account over all connections on
// which the server hears from it. Made-up names gain a peer little: live.Ledger bounds
// the names of a peer, which is a verified client certificate or else an address. A
// client with a connection to itself always has an account.
//
// Trust. Budget, attempt and demand are believed of every client. Class, priority, workflow
// and progress are believed only of the calls that WithTrust names, by default of none.
// Alternatively, WithClassifier decides what each call is.
//
// What this package does not do: package live decides, not this one.
package grpcgate
