// Package harness is the root of the measuring harness: the parts with which
// a live run is loaded, timed and judged.
//
//		openloop ── paced by ──▶ pace ◀── paced by ── service
//		   │ every request                              ▲
//		   ▼                                            │ in a child started by
//		measure ◀── also used by ── capacity          proc
//
//	  - pace waits for an instant more precisely than time.Sleep.
//	  - openloop sends requests at planned instants, whatever the server does.
//	  - measure records what became of them and decides whether the run counts.
//	  - proc runs servers and generators as pinned child processes.
//	  - service is a server of known capacity.
//	  - capacity finds the load that one calls 1.0x.
//	  - contest measures two kinds of calls in turn, for benchmarks.
//
// Rules that every part keeps: latency is counted from the instant a request
// was meant to leave; attainment is counted over offered requests, not over
// sent or served ones; a run whose generator was itself late, or which did not
// send all it planned, says so and does not count.
//
// The harness measures; it never imports a policy, a driver or an edge, so
// that nothing under test can also be part of the instrument.
package harness
