// Package follow reads streams of JetStream, and goes on within seconds after the death of
// any one node of a cluster.
//
// Streams are read through consumers, each of which NATS keeps on one node. It places new
// ones on a dead node too, as long as the cluster's leader takes that for alive, and does
// not place a consumer again under the name of one that the node has. So no consumer here
// is repaired: one that says nothing is given up, and the next one, with a name of its own,
// begins after the last message that came.
//
//	Follow: consumer ──▶ messages ──▶ handle
//	           ▲                        │
//	           └── silence, gap, error ─┘
//
// Changing is Follow of a choice of subjects that may change: the next consumer is there before the one before is given up.
//
// Invariants: each message is handled once, in the order of the stream; a Stream may be
// read by several goroutines.
//
// What this package does not do: it acknowledges nothing, and NATS does not keep how far a
// reader is.
package follow
