// Package stage holds the parts that the demo's child processes play: the
// services of a small call graph, and the load on it.
//
//	load ──gRPC──▶ entry ──gRPC──▶ middle ──gRPC──▶ store: k workers, sleeping
//	  │              │                │               │
//	  └──────────────┴── JSON lines ──┴───────────────┘──▶ the parent reads
//
// A part is described by one JSON value, which is the only argument of the child
// (Run). It reports its events in lines of JSON on standard output, each a
// [Line]. The same program plays a part with gates and without: Gated decides
// whether the gRPC servers and clients get Spillgate's options, and nothing else
// differs. Tenants beside it gives each gate rates and a fair queue.
//
// Each tenant has a load and connections of its own. The workflow of a request is
// the name of its tenant.
//
// A shop is several servers instead (Shop), each with workers of its own:
//
//	checkouts ──▶ first ──▶ second ──▶ … ──▶ last     queue: order of arrival,
//	reads ──────▶ one of them                         or weights of live.Shares
//
// A broker carries messages from publishers to a consumer (Broker, Feed). The same
// program is a broker with limits and without.
//
// Only the parent process knows the capacity of the store. Gates and wallets are
// given the latency objective alone; with Tenants, gates are told as well for how long a
// request may wait at its rate. The gates of a shop have as many
// slots as there are workers.
//
// What this package does not do: it starts no process, and it draws nothing.
package stage
