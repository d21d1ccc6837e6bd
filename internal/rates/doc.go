// Package rates decides at what rate each workflow may enter this process, and
// which rate to announce to each upstream process.
//
// Credits say how much a process takes; rates say whose it is. A process that is
// short of something divides it among the workflows that use it. What is left
// for a workflow travels up the call graph, divided by the calls that one
// request makes, until the entry holds back what would be refused further down:
//
//	upstream u                     process p                      downstream d
//	           OnArrival ──▶ offered A, demand of u
//	                            │
//	         Pass Wait Drop ◀── limiter: token bucket at sigma
//	                            │
//	                            ├──▶ OnUse    ─ load, cost ─▶ policy ─▶ local s
//	                            ├──▶ OnCall   ─ alpha, calls per request ─┐
//	                            ▼                                         ▼
//	◀── Announce: sigma ×    OnDone          sigma = min(s, per service: ◀── OnRate
//	    demand[u] ÷ demand                   quantile of rate ÷ alpha)
//
// An Adapter does this once per period, for every workflow, from what the events
// of the last period taught it. Where nothing is short, nothing is limited: a
// workflow is limited from the moment in which its process or one below it is
// overloaded until its limit has been twice its demand.
//
// While there are credits, they keep each process from more than it can do, and
// rates only tell the entries: what a peer sends that knows its rate is not held
// back again, and what enters is a little more than the rate, for the service that is
// short not to run empty.
//
// Invariants: a limited workflow's rate is finite and above zero; what is
// announced to the upstream processes sums to no more than the rate, but for
// those that are downstream as well; a workflow that does not use a process is
// not touched by it; a workflow over its fair share is cut to it, and no
// workflow below it; nothing here depends on the order of a map.
//
// What this package does not do: it has no clock, lock or goroutine; it keeps no
// queue, but only counts those who wait in the caller's; it sends nothing, the
// driver carries announcements on replies and demands on requests; it does not
// say who may claim a demand: a process that lies gets another's share of the
// same workflow, and the edge must not believe strangers. A cycle of more than
// two services can keep a rate down after its cause has gone.
//
// Source: Suresh et al., "Distributed Resource Management Across Process
// Boundaries", SoCC 2017 (Wisp), Algorithm 1, with the changes that comments
// name.
package rates
