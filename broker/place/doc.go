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
// publishers and the moves that were made, as one document under one key. Each change names the revision that it is
// based on, so of two placers that decide at once, one decides again, and the capacity of a node is
// never given away twice.
//
// Invariants: every publisher of a topic is at one node that exists and is not drained, or is reported to have no
// place. The load assigned to a node is never more than its capacity. A change moves no publisher that may
// stay. A refused change changes nothing.
//
// What this package does not do: it measures nothing, so its p99 predictions come from a model, and it forwards no
// messages: nodes watch the state, see broker/share, which also tells it of nodes that miss an objective (State.Shift)
// or are silent (State.SetDown).
package place
