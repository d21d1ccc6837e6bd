// Package node decides everything that one process decides about requests: a
// policy at its door, and around it what the process knows of names, senders,
// callees and whole requests.
//
//	             Describe                 Arrive, Observe
//	tags ─▶ flow number, sender,   ──▶   baseline.Door: by default
//	        remaining work, claim        an admission.Gate
//	                                       │ Next, NextGrant, NextWake, NextPoll
//	calls ─▶ Call, OnAnswer ─▶ rates ◀─────┘
//	                 Feedback ─▶ reply: credits, reason, pushback, rate
//
// A Node is itself a baseline.Door, so the simulator, the servers and the
// compared policies meet one interface. A driver that knows no tags leaves
// Describe out. Shares, the weights of the two classes, is a part of its own
// with its own NextWake, because its driver may keep it under another lock.
//
// Invariants: a ticket gets one Feedback, which ends its stay in its workflow;
// a poll goes only to a callee whose limit was heard and not confirmed for a
// period; the answer to a poll counts only if it was asked for; equal events
// give equal outputs in equal order.
//
// What this package does not do: it has no clock, lock, timer or goroutine, it
// sends nothing, and it decides nothing that a policy below it decides.
package node
