// Package share gives each node its part of the bucket of a topic that several nodes
// hold, and tells publishers where they belong.
//
//	place.State (JetStream KV) ──▶ every Node: does this one hold publishers of the topic?
//	                                  yes ▶ engine.Hub.SetShare(r, b)     no ▶ sent on to a node that does
//	Node ── report: messages, backlog, grants it obeys ▶ leader: placement.Adaptor, one a topic
//	Node ◀── grant: r, b, how long ──────────────────────┘
//	Node ── this client belongs elsewhere ──▶ Move: Server Reference
//	leader ── processing p99 over the objective, or no report ──▶ place.State: publishers move
//
// One node at a time leads: its name is in a key of KV, which it renews. Its term is the
// revision with which it began to lead. A node that has heard of a term obeys no earlier
// one. A leader grants nothing until it knows which grants the nodes obey, or until those
// have expired.
//
// Invariants: all nodes together never let through more of a topic than its bucket, even
// if messages are late or lost or any node dies; a node that hears no leader falls back to
// its floor after two windows.
//
// The leader also changes the state: publishers leave a node whose processing misses a topic's objective (placement.Migration),
// a few in each step, and all leave a node that was silent for a window.
//
// What this package does not do: it decides on no other place; those are the state's.
package share
