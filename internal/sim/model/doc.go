// Package model decides what happens in a simulated world of clients, a network
// and one server, around the very policy code that live servers run.
//
//	clients ── Sender ──▶ network ──▶ Door ──▶ station: k cores, own queue
//	(open loop,           (delay,     (the     (service times, speed,
//	 budget, retries)      losses)    policy)   costs of messages)
//	   ▲                                          │
//	   └───────── Feedback on the reply ◀─────────┘
//
// Load is open: the instants at which clients mean to send are drawn in advance
// and do not wait for answers. Response times and goodput count from those
// instants, the wait for a credit included.
//
// The station is hidden from the door: requests told to run enter its first-in,
// first-out queue, and the door learns of them only when they leave. Cores also
// handle messages that belong to no executed request, before other work: a
// refusal costs two (one in, one out), a grant without a reply or a report of
// demand one each. So refusing is not free, and neither is granting.
//
// Invariants: a request ends exactly once: good, late, refused, lost or given
// up; chance is drawn per client and per purpose, so that two policies run on
// one seed meet the same arrivals and the same work; the same Config gives the
// same log, byte for byte.
//
// What this package does not do: it does not model loss of requests inside a
// living connection, congestion in the network, or the cost of work at clients.
package model
