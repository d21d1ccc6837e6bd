// Package share decides how much of a server each class of work gets.
//
// Interactive requests go through several services and queue at each, so a person
// waits for the sum; other requests queue once. At a server, each class has a queue.
// While both queues hold requests, the next one comes from the interactive queue with
// probability Weight:
//
//	caller, callee, method ─▶ Classifier ─▶ class ─▶ queue of the class
//	                                                   │  Decision.Weight
//	arrivals, completions, cancels ─▶ Controller ──────┘
//	                                   │ rates ─▶ model of the two waits ─▶ weight
//	                                   │ waits measured ─▶ slow trim ──┘
//	                                   └ Fitter: how patient callers are
//
// The weight changes the order of the work and not its amount, which bounds the
// gain: while the server is never idle with work at hand, the waits of the two
// classes, weighted by the work they bring, add up to a constant. The default class
// pays for every gain of the interactive one; hence the guards.
//
// The rest of the package is the arithmetic behind that, for use in models as
// well: queues whose customers give up ([MarkovQueue], [ImpatientQueue]), chains
// of them ([Chain]), and what FIFO, separate servers and priority
// make of a [Load].
//
// Invariants: the weight stays between MinWeight and Config.MaxWeight; it changes
// by at most Config.MaxStep in a period; every decision names its reason; the
// same events give the same decisions. Within the conservation law the
// two classes are never both slower than in one FIFO queue.
//
// What this package does not do: it keeps no queue, refuses nothing, and does
// not see requests that were shed. Cancelled requests are no sample of latency;
// they only tell how patient callers are. Nothing here is safe for concurrent
// use, except functions and methods on values.
//
// Source: Zhang et al., "Delay-guaranteed dynamic differentiated service" (D3G),
// IEEE Network 2018, whose static queue shares slow both classes down, see
// [Load.Separate]; the weights here are work-conserving instead.
package share
