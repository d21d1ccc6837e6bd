// Package place keeps which nodes hold the publishers of which topics, and decides it.
//
//	spillgate place topic set …     GET /v1/place?topic=…&publisher=…
//	            │                                │
//	            ▼                                ▼
//	       Placer.Update ◀── retry ──┐     Placer.Place: known, or joined
//	            │ State → State      │           │
//	            ▼                    │           ▼
//	      JetStream KV, one key ── another revision: nothing is written
//
// The decisions are those of internal/placement: few nodes, equal parts, every group that fires together
// spread over all of them. Here they are applied to what is known, and kept: a State holds nodes, topics,
// publishers and the moves that were made, as one document under one key. Whoever changes it names the revision that the change was
// made from, so that of two placers that decide at once one decides again, and the room of a node is
// never given away twice.
//
// Invariants: every publisher of a topic is at one node that exists and is not drained, or has no place, which is
// said. What nodes are given is never more than their capacity. A change moves no publisher that may
// stay. A change that is refused changes nothing.
//
// What this package does not do: it measures nothing, so what it predicts of a p99 is a model's, and it forwards no
// message: nodes watch the state, see broker/share. A node that dies is not noticed: drain it.
package place
