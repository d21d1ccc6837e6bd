// Package slots decides how many requests may run at once, without being told
// the capacity of what runs them.
//
// Behind the gate stands something that works on an unknown number of requests at a
// time: cores, a pool of workers, a database's connections. With too few slots it
// idles. With too many the surplus queues inside it, where nobody can order it, refuse
// it or see it. The knee is the number from which on throughput stays flat:
//
//	throughput │      ┌──────────       knee = throughput × service
//	           │    ╱ ·
//	           │  ╱   ·
//	           └──────┴────────── requests at once
//	                 knee
//
// Three observations tell of the knee. Each is right where the others are weak:
//
//	observation                                 tells                          fails for
//	the order in which requests end (line.go):  the highest rank is the knee   times that are nearly
//	first come, first served, with k workers                                   equal; shared processors; a
//	none ends beyond the k-th in line; also                                    first stage that lets few
//	while more than ever ran, if those that                                    through
//	found more took longer (calm.go)
//	residence while fewer run (trial.go)        knee = throughput × residence  random times, few samples
//	throughput while more run (trial.go)        whether the knee is higher     a residence near the objective
//
// The limit follows from what is known:
//
//	regime                        limit
//	ranks confirm a line          knee, and a tenth or one more
//	residence is well inside the  grows until the residence is 0.4 of the objective: a hidden
//	objective, no line confirmed  queue costs nobody anything, a slot too few costs throughput; where
//	                              times vary, and a knee is known, of one in fifty late at most
//	residence beyond that         knee from trials, and as much more as they leave in doubt
//	fewer were seen to do more    as many as do the most, found in steps that are judged by what is done (crowd.go):
//	                              requests hold each other up, and a hidden queue is none that costs nothing
//	no slot is missing            sinks towards a quarter above the most that ran at once, with
//	                              or without a slot
//	long requests held the slots  grows: it tells nothing of the others
//	residence passes half of the  at once to what is known to be served at once
//	objective while it builds up
//	callers gave up on all of it  a quarter, then doubles while residence stays short
//	few run, as fast as before    as many as once ran without a queue: a slowdown is over
//	processors are short          no less than they are, if this process uses them; no order of ends is
//	                              taken for a line; a trial goes down to them, and by its residence more
//	                              are of use or not; where hardly anything is in time a quarter, and
//	                              back if fewer take as long
//
// The knee is what is remembered, not the service time: a server that becomes slower
// does less with as many workers, and needs no new limit.
//
// Where it matters who is served first (SetOrdered) the hidden queue is kept to a tenth
// of the objective.
//
// What the ranks say is asked again. Where fewer run for their sake and do less than was done while slots were free,
// or half as many again do more and take no longer, there is no line, and none is believed for a while: requests that
// hold one of a few connections first and are elsewhere afterwards end in order, whatever runs beside them. So it is where
// less is done than just before the limit went down for their sake, where ever more are found in service and do no more, and where
// few take as little as many did before the work became slower.
//
// Invariants: the limit stays within Min and Max; while nothing binds, low throughput
// lowers no limit below what runs; no verdict by ranks stands against a throughput that
// fell with the limit, and the knee that it counted goes with it; a trial after which the
// server does less is undone; what is believed to do the most is compared with more and with fewer for as long as slots are
// missing.
//
// A request that runs for longer than the objective gives its slot back while it runs
// on, once four times as many as run at once have ended meanwhile, or so many beside it
// and those like it that some of them should have been among these: see Lend. So long
// polls and rare long requests neither hold the slots of the others nor pass for slow
// service; and where the work itself is slow, nothing more is let in. Nor where requests take longer the more of
// them there are, or their callers give up: short ones may end beside them all the time (overlong.go).
//
// A request whose answer goes on without a slot is a sample up to the answer's beginning: see Answer and Part.
//
// Where no reason stands beside a constant, it is a round number that may be another: half
// of it or twice as much loses, in the worlds of the experiment tuning/core, no more than
// chance makes of it. Where those worlds say nothing about one, it says so.
//
// What this package does not do: it keeps no queue and does not choose who
// runs.
package slots
