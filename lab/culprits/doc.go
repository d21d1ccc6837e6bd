// Package culprits tests guards on real, unmodified servers. In each experiment one request
// seizes a resource that the others need, and several ways to deal with it are compared.
//
//	open loop ──requests──▶ server ◀──looks, cancels── contender
//	                          ▲
//	  onset ──── culprit ─────┘   lock, scan, flush, snapshot, …
//
// A scene is a server with its data, a request, a culprit and the limits that an operator
// would set by hand against this culprit. The contenders play it one after the other on the
// same server: no culprit; the culprit and no control; the hand-set limits; the oldest
// statement cancelled, as pt-kill does; victims dropped, as Protego does; the largest
// user of the most contended resource alone; and ours, a guard that knows the
// objective and nothing of the scene.
//
// The load of a scene is a rate. Where the effect of the culprit depends on how busy the
// server is, the load is a share of the server's capacity, measured at the start of the
// run. The objective is then 1.2 times the 99th percentile of that load alone, as in
// Atropos. A guard that watches statements is told the objective of one statement of a
// request. In full form the published cases are also played with a closed load, by sysbench.
//
// Invariants: onset, load and size of the culprit follow from the seed, and are the
// same for all contenders. The open load does not slow down with the server. The
// measurement begins a second after the onset and ends when the culprit would have ended
// without control. Latency counts from the instant at which a request was meant to leave.
//
// What this package does not do: it simulates nothing. It sets only the objective of a
// guard and, where the culprit is of a kind that is barred unless listed, that kind.
package culprits
