// Package admission decides what becomes of a request at a server: it runs, it
// waits, or it is refused, with a reason and a hint when to come back.
//
// A Gate is the whole of a server's control in one pure machine:
//
//	          ┌ expired? ── share? ── delay AQM ── feasible? ┐
//	Arrive ──▶┤                                              ├─▶ Run: a slot
//	          └── its workflow's rate ── shaping wait ──────▶│
//	                    queue for a slot ── Next ────────────┘─▶ Shed: a reason
//	Leave  ──▶ slot free, service time, credits and rate for the reply
//
//	slots.Limit     how many run        credit.Pool      how many may be sent
//	schedule.Queue  who is next         rates.Adapter    whose they are
//
// A request is refused as early as possible: on arrival if its expected wait is too long,
// at its turn if its actual wait was. When the queue is full, a waiting request whose
// sender had clearly more of late makes room for one whose sender had less: max-min over
// the senders that the driver tells apart. Where senders take turns in the queue
// (Schedule.Senders), what they have waiting comes before what they had. Kinds of requests
// that hold a slot for long leave a part of the slots' time to the others: see lengths.
//
// Invariants: a ticket that was told to run is returned once; a ticket that
// waits is named by Next exactly once or canceled; the queueing delay is read
// from the queue itself, so that it falls when the queue does, whether or not
// anything is admitted. Instants that run backwards spoil a measurement, never the
// gate.
//
// While nothing ends at all, requests that would be refused for their delay wait, if
// Config.Hold allows it: one request may be to blame, and about to be cancelled. See hold. While far fewer end than
// usual they wait aside, for what the others leave, and so does whoever is late when the culprit is gone. See aside.
//
// The time a request is held back for its workflow's rate is no queueing delay:
// the AQM and the credits do not see it.
//
// What this package does not do: it has no clock, lock or goroutine, and knows no
// protocol: edges turn reasons into statuses. A request of lower priority is not
// pushed out by one of higher priority: it waits, and is refused when that was too
// long.
package admission
