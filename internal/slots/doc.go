// Package slots decides how many requests may run at once. No capacity is configured.
//
// Behind the gate, something works on an unknown number of requests at a time: cores, a pool of workers, the
// connections of a database. With too few slots it idles. With too many, requests queue inside it, where nothing
// can order, refuse or see them: a hidden queue. The knee is the number of requests at once from which on the
// throughput stays flat:
//
//	throughput │      ┌──────────       knee = throughput × service time
//	           │    ╱ ·
//	           │  ╱   ·
//	           └──────┴────────── requests at once
//	                 knee
//
// Three observations tell of the knee. Each is right where the others are weak:
//
//	observation                            tells                           fails for
//	order in which requests end            highest rank = knee, if they    nearly equal times; shared processors;
//	(arrivals.go, calm.go)                 wait in line, first come,       a first stage that lets few through
//	                                       first served
//	residence with fewer (fewer.go)        knee = throughput × residence   random times, few samples
//	throughput with more (more.go)         whether the knee is higher      residences near the objective
//
// Each window of completions ends in one regime, the first of this table that applies (steer):
//
//	regime              when                                     what the limit does
//	in vain             two of three requests were late or       falls to a quarter, then doubles while
//	(vain.go)           given up by their callers, or a cold     residences stay short; back if fewer take as long
//	                    start let far too many in
//	slowdown over       few run, as fast as once many            returns to what once ran without a queue
//	(steer.go)
//	outgrown (lend.go)  long requests held most slots            grows, because the window tells nothing of others
//	trial (trial.go)    fewer or more run to learn the knee      goes to the next stage, or to the target
//	binding             slots were missing                       grows while the knee is unknown and residences
//	(binding.go)                                                 are short; else goes to the target
//	free (free.go)      slots were free                          sinks towards a quarter above the peak; at once
//	                                                             to what is known to be served if a queue builds up
//
// The target follows from what is known (target.go), again by the first row that applies:
//
//	known                                  target
//	fewer did more (crowd.go): requests    the number that does the most in time, found in steps that are judged
//	hold each other up; or more of it in   by answers in time alone
//	time (late.go): a part waits inside
//	this process is short of processors    half as many again as the knee, which wait a tenth of the objective at
//	                                       most, less what messages wait in sockets behind them, in and out; at
//	                                       least one request a processor
//	requests wait in line (verdict.go)     the knee, and a tenth or one more
//	otherwise                              the residence is 0.4 of the objective, or less if times vary: a hidden
//	                                       queue that fits into the objective costs nothing, a slot too few costs
//	                                       throughput
//
// The knee is remembered, not the service time: a server that becomes slower does less with as many workers, and
// needs no new limit. Where the order of service matters (SetOrdered), the hidden queue is kept to a tenth of the
// objective.
//
// A line is never certain. Requests that pass a first stage in order end in order, whatever runs beside them. A line
// is refuted if fewer requests run for its sake and do less, if fewer do more, or if half as many again do more; then none is
// believed for a while. It is refuted as well if far fewer than it has in service do nearly as much.
// The knee of a line that is refuted soon after it lowered the limit goes with it (unlearnLine).
//
// A request that runs for longer than the objective gives its slot back while it runs on (Lend), so that long polls
// neither hold the slots of others nor pass for slow service. Slow work admits no more requests that way, because
// enough others must end first, and overdue requests must not wait for each other (overlong.go). Before that it holds a slot
// for an objective. Once nearly all of its kind are as long, the next ones run beside the limit, half as many as it has
// slots, until each has shown the same (kinds.go).
//
// Where every request fails because a service further down refused a part of it, a quarter of the limit may run, until
// requests succeed again (barren.go). That is a bound beside the limit, which no regime moves.
//
// Invariants: the limit stays within Min and Max. While slots are free, it does not sink below what runs, unless nothing
// that runs succeeds (barren.go). No verdict by ranks stands against a throughput that fell with the limit, and the
// knee that it counted goes with it. What is believed to do the most is compared with more and with fewer as long as
// slots are missing.
//
// A constant with no reason beside it is a round number: half of it and twice as much lose no more than chance in
// the worlds of the experiment tuning/core. Comments say where these worlds do not see a constant.
//
// What this package does not do: it keeps no queue and does not choose which requests run.
package slots
