// Package credit decides how many requests each client may have outstanding at
// a server.
//
// A server owns a Pool. Every request takes one credit, which the client must
// already hold, so that excess load waits at the client and costs the server
// nothing. The Pool resizes itself once per interval from one signal, the
// queueing delay at the server. It hands out credits as windows, which ride on
// replies:
//
//	         demand, on requests
//	Wallet ─────────────────────────────────▶ Pool.OnRequest
//	  ▲                                          │
//	  │ Window.OnGrant    Grant, on replies      ▼
//	  └───────────────────────────────────── Pool.OnReply ◀── queueing delay
//	                      or, for a client           Pool.OnDelay, Pool.OnWake
//	                      with no reply to come:
//	                      Pool.NextGrant
//
// A Grant is a window (the most requests a client may have outstanding), not a
// number of tokens: a newer one replaces an older one, so lost, repeated and
// reordered grants are harmless.
//
// A reply carries a grant only if that says something new: see Pool.Tells.
//
// Clients with a window of zero and nothing pending wait in the drained list. They are
// woken first in, first out, those with known demand first. The
// pool speculates on the demand of the others: it grants a little more than was
// asked for, which saves a message each time demand appears and makes a delay
// AQM at the server necessary (package admission).
//
// A pool is shared by parties: peers, which answer for their clients, and clients without a
// known peer. With workflows, a party's share is the sum of its parts of the workflows
// that it asks for:
//
//	weight of a workflow ÷ parties that ask for it = part of each ──▶ Grant.Part
//	                       sum over its workflows ÷ clients of the party = due to each
//
// The wallet of a party sends its waiting requests in the proportion of these parts.
//
// A client that was clearly below an equal share lately gets a credit for every request,
// beside the pool, and the other clients divide the pool. A client that was clearly above
// it comes last while others wait.
//
// Invariants, which Pool.Check tests: the windows sum to what the pool counts as
// issued, those of modest clients to what it counts as kept, those of a party's clients
// to what it counts for that; a window is at least
// the client's pending requests after a reply unless the client overran it, and at
// most MaxWindow; a client is in the drained list exactly when its window and its
// pending requests are zero.
//
// What this package does not do: it has no clock, no lock and no goroutine, it
// does not rank requests, and it does not refuse any: it only says who overran
// a window.
//
// A credit is for one request, whatever the request costs. Credits in units of cost were
// left out: a client would have to know the cost of a call before it sends the call, and a
// dear call would wait longer than a cheap one until it holds all of its credits. Instead
// the pool steers to a delay, so dear calls lead to fewer credits. They are divided by what
// each client used lately, and there a call of n times the mean service time counts n times
// (OnUse; package admission).
//
// Source: Cho et al., "Overload Control for µs-scale RPCs with Breakwater",
// OSDI 2020, with the changes that Config names.
package credit
