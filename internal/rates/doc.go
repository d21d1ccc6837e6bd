// Package rates decides at what rate each workflow may enter this process, and
// which rate to announce to each upstream process.
//
// Credits say how many requests a process takes; rates say of which workflow they
// are. A process that is short of a resource divides it among the workflows that
// use it. The share of a workflow travels up the call graph, divided by the calls
// that one request makes, to the entry. The entry then holds back the requests that
// a later process would refuse:
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
// An Adapter does this once per period, for every workflow, from the events of the
// last period. A workflow is limited from the moment its process or one below it is
// overloaded until its limit has been twice its demand. Where no resource is short,
// no workflow is limited.
//
// Where credits protect each process from overload, rates act at entries only:
// requests of a peer that knows its rate are not held back a second time, and a
// little more than the rate enters, because the process that is short must not run
// empty.
//
// Invariants: a limited workflow's rate is finite and above zero; what is
// announced to the upstream processes sums to no more than the rate, but for
// those that are downstream as well; a workflow that does not use a process is
// not touched by it; a workflow over its fair share is cut to it, and no
// workflow below it; nothing here depends on the order of a map.
//
// What this package does not do: it has no clock, lock or goroutine; it keeps no
// queue, and only counts the requests that wait in the caller's; it sends nothing:
// the driver carries announcements on replies and demands on requests. It does not
// check who claims a demand: a process that lies gets the share of another one in the
// same workflow, so an edge must not believe strangers. A cycle of more than
// two services can keep a rate down after its cause has gone.
//
// Source: Suresh et al., "Distributed Resource Management Across Process
// Boundaries", SoCC 2017 (Wisp), Algorithm 1, with the changes that comments
// name.
package rates
