// Package share divides the bucket of a topic among the nodes that hold its publishers,
// and redirects publishers to the node where they belong.
//
//	place.State (JetStream KV) ──▶ every Node: does this one hold publishers of the topic?
//	                                  yes ▶ engine.Hub.SetShare(r, b)     no ▶ sent on to a node that does
//	                                  nobody does ▶ one of them keeps the bucket for what comes from elsewhere (place.State.Keeper)
//	Node ── report: messages, backlog, grants it obeys ▶ leader: placement.Adaptor, one a topic
//	Node ◀── grant: r, b, how long ──────────────────────┘
//	Node ── this client belongs elsewhere ──▶ Move: Server Reference
//	Node ◀─ beat: what I heard of you, and when ─▶ Node: whose grants count still
//	leader ── processing p99 over the objective, or no report ──▶ place.State: publishers move
//
// One node at a time leads: it keeps its name in a key of the KV and renews it. Its term is
// the revision of the key when it began to lead. A node that has heard of a term obeys no earlier
// one. A leader lets the nodes keep what they say that they obey, and grants no more than that until all have said it, or until what the
// others may obey has expired. A grant counts from the report that it goes by, on the clock of the node, which holds against grants
// that are late and nodes that were stopped.
//
// Grants last for two windows, which outlives a leader, but count only while the node is backed: while the leader or enough of the witnesses
// have heard it a moment ago. So the leader knows soon that a dead node obeys nothing any more, see witness.go.
//
// Invariants: all nodes together never let through more of a topic than its bucket, even
// if messages are late or lost or any node dies; a node that nobody hears falls back to
// its floor after three steps, one that hears no leader after two windows.
//
// The leader also moves publishers: a few at a time from a node whose processing misses a topic's objective
// (placement.Migration), and all of them from a node that is about to end (Node.Leave), is connected nowhere, or was silent for half a window.
//
// What this package does not do: it makes no other decision about places; package place does.
package share
