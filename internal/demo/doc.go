// Package demo decides what the demo plays, in which order, and what it found.
//
//	                 ┌─ search for the capacity, plain services
//	Play ── starts ──┼─ act 1: the load on plain services
//	   │             ├─ act 2: the same load on gated ones
//	   │             ├─ act 3: tenants share gated ones, and one wants too much
//	   │             ├─ act 4: checkouts visit four servers in a flood of reads that
//	   │             │         visit one: in order of arrival, and with shares
//	   │             ├─ act 5: a report seizes a store's lock: without a gate, and with
//	   │             │         one that cancels it
//	   │             └─ act 6: one topic floods a broker: without limits, and with a rate
//	   │                       for each topic
//	   │
//	   └─ State, several times a second ──▶ screen, page, lines; in the end Tables, Report
//
// Each act has services of its own, in processes of their own (package stage).
// The first two acts have the same services with the same seed, the same
// connections and the same requests at the same instants. Loads are multiples of a
// capacity that the run measures. The last three acts have servers of their own, whose
// capacity is not measured: they show the order of requests, a culprit, and a broker. An act whose
// load generator was late is marked invalid in every view.
//
// Invariants: a State is never changed once it was published; when Play
// returns, no process that it started is left.
//
// What this package does not do: it draws nothing, and takes no input from the
// viewer.
package demo
