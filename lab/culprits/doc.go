// Package culprits decides how guards are put to the test on real, unmodified
// servers: one request seizes what the others need, and what each way to deal with it
// makes of that is measured.
//
//	open loop ──requests──▶ server ◀──looks, cancels── contender
//	                          ▲
//	  onset ──── culprit ─────┘   lock, scan, flush, snapshot, …
//
// A scene is a server with its data, a request, a culprit and what an operator would
// set by hand against just this one. The contenders play it one after the other on the
// same server: no culprit; the culprit and no control; the hand-set limits; the oldest
// statement cancelled, as pt-kill does; victims dropped, as Protego does; the largest
// user of the most contended resource alone; and ours, a guard that knows the
// objective and nothing of the scene.
//
// The load of a scene is a rate, or, where the effect of its culprit depends on how busy
// the server is, a share of what the server does alone, measured at the start of the run.
// Its objective is then a fifth more than the 99th percentile of that load alone, as
// Atropos' is; who watches statements is told that of one of the statements of a request.
// In full form the published cases are played with a closed load as well, by sysbench.
//
// Invariants: onset, load and size of the culprit follow from the seed, and are the
// same for all contenders. The open load does not slow down with the server. What is
// measured begins a second after the onset and ends with the culprit, had it been left
// alone. Latency counts from the instant at which a request was meant to leave.
//
// What this package does not do: it simulates nothing, and sets nothing of a guard but
// the objective and, where a scene's culprit is of a kind that is barred unless listed,
// that kind.
package culprits
