// Package fastrpc carries calls that take microseconds, with credits and deadlines in a fixed header.
//
//	Method.Call ─ wallet: a credit ─ outbox ══▶ inbox ─ gate ─ inline handler ──────┐
//	     ▲                              many frames       └─ a goroutine ─ handler ─┤
//	     └─ answer, grant ── inbox ◀══ a write ══ outbox ◀──────────────────────────┘
//
// A service registers handlers of bytes, or of messages with Typed, behind a gate:
//
//	server, err := fastrpc.NewServer(fastrpc.ServerConfig{Gate: gate})
//	server.HandleInline("get", get) // microseconds, never waits
//	server.Handle("scan", scan)     // a goroutine of its own
//	err = server.Serve(listener)
//
// and a client calls any of several such servers, over one connection each:
//
//	client, err := fastrpc.Dial(ctx, fastrpc.ClientConfig{}, "store-1:4000", "store-2:4000")
//	get := client.Method("get")
//	value, err := get.Call(ctx, key, value[:0])
//
// The bytes between the two are in FORMAT.md.
//
// Invariants: every request that is read is answered once; the ticket and the credit of a call are
// returned however it ends; a refused call did not run; the frames that wait on a connection are bounded in
// both directions; input from a peer never panics, and malformed input closes its connection with the reason.
// The delay of a call counts from the arrival of its bytes at the machine if the kernel reports it (TCP on Linux),
// and otherwise from the read. So the delay includes the wait behind an inline handler.
//
// Trust is as in grpcgate and httpgate: tags that put a call ahead of others are believed only if
// ServerConfig.Trust says so.
//
// What this package does not do: it has no streams, and sends nothing again by itself; a call whose connection broke
// may have run. It makes no decisions; package live does.
package fastrpc
