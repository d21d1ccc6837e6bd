// Package parity holds two tests. They show that a policy decides the same in the
// simulator and in the server.
//
//	requests ─▶ sim/mesh ───────────▶ node, wallets ─▶ tape ─┐
//	   └─ what was submitted, and how long it took           ├─ equal, line by line
//	          └─▶ live: Gate, Outlet ─▶ node, wallets ─▶ tape ┘
//
// The first lets the simulator's own driver and package live play the same requests,
// and compares every event that a node and its clients' wallets were told of, with its
// instant and its answer. The second feeds a log with workflows, senders and calls to
// the gate through a plain loop and through package live, and compares the decisions.
//
// It is the only place that sees both drivers.
package parity
