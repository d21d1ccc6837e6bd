// Package share gives each node its part of the bucket of a topic that several nodes
// hold, and tells publishers where they belong.
//
//	place.State (JetStream KV) ──▶ every Node: does this one hold publishers of the topic?
//	                                  yes ▶ engine.Hub.SetShare(r, b)     no ▶ sent on to a node that does
//	Node ── report: messages, backlog, what it obeys ──▶ leader: placement.Adaptor, one a topic
//	Node ◀── grant: r, b, how long ──────────────────────┘
//	Node ── this client belongs elsewhere ──▶ Move: Server Reference
//
// One node at a time leads: the one whose name is in a key of KV that it renews. Its term
// is the revision with which it came to lead. A node that has heard of a term obeys no
// earlier one, and a leader grants nothing until it knows what the nodes obey, or what
// they obeyed has expired.
//
// Invariants: what all nodes let through of a topic together is never more than its
// bucket, whatever is late or lost, and whoever dies; a node that does not hear a leader
// falls back to its floor after two windows.
//
// What this package does not do: it measures no objective and moves no publisher because
// of one; places are those of the state.
package share
