// Package place decides which nodes hold the publishers of which topics, and stores the
// decision.
//
//	spillgate place topic set …     GET /v1/place?topic=…&publisher=…
//	            │                                │
//	            ▼                                ▼
//	       Placer.Update ◀── retry ──┐     Placer.Place: known, or joined
//	            │ State → State      │           │
//	            ▼                    │           ▼
//	      JetStream KV, one key ── another revision: nothing is written
//
// internal/placement makes the decisions: few nodes, equal parts, every group that fires together
// spread over all of them. This package applies them to a State and stores it. A State holds nodes, topics,
// publishers and past moves, as one document under one key. Each change names the revision that it is
// based on. If two placers decide at once, one of them decides again, so the capacity of a node is
// never given away twice.
//
// Invariants: every publisher of a topic is at one node that exists and is not drained, or is reported as
// unplaced. The load assigned to a node is never more than its capacity. A change moves no publisher that may
// stay. A refused change changes nothing.
//
// What this package does not do: it measures nothing, so its p99 predictions come from a model; and it forwards no
// messages. broker/share watches the state, and reports nodes that miss an objective (State.Shift)
// or are silent (State.SetDown).
package place
