// Package sim runs a world in virtual time: it decides which event is next.
//
// Nothing sleeps. The engine keeps the events to come and hands out the earliest;
// its handler schedules further ones. Events that are scheduled in the order of their
// instants, as after a constant delay, wait in lanes, the others in a heap:
//
//	At        ──▶ 4-ary heap by (instant, sequence) ─┬─▶ Next ──▶ handler
//	AlongLane ──▶ rings, each in order ──────────────┘               │
//	   ▲                                                             │
//	   └─────────────────────────────────────────────────────────────┘
//
// Chance comes from Streams: every entity draws from a stream of its own,
// derived from one seed and the entity's name, so that adding an entity does
// not change what the others draw, and two policies compared on one seed meet
// the same arrivals and the same work.
//
// Invariants: time never goes back; events of one instant come in the order in
// which they were scheduled; the same seed gives the same events, byte for
// byte.
//
// What this package does not do: it knows no client, server or network (package
// model does), and it cannot cancel an event: a handler that no longer wants
// one ignores it.
package sim
