// Package classify decides what a request is, before anything decides whether it
// may come in: its workflow, class, priority and, if it brought none, its deadline.
//
//	facts: header, path, method, host, peer, tags ──▶ rules, first match wins ──▶ set
//	                                                                               │
//	workflow: the rule's, or a header's value ◀────────────────────────────────────┤
//	          listed? its defaults : room among Names? itself : the default one    │
//	class, priority, deadline: the rule's, else a believed tag, else the workflow's ◀┘
//
// Rules are compiled once and never change, so that any number of requests can be
// classified at once; a changed configuration makes new ones. GRPC and HTTP are the
// ways in for servers of those kinds, Stamp is for who passes requests on.
//
// Invariants: what a request says about itself counts only if the edge trusts its
// sender, or a rule says that it counts (AnyBaggage); a name from outside never
// makes more than a bounded number of workflows; no input panics; a request is
// looked at in time proportional to the rules and the length of what they look at,
// without allocating.
//
// What this package does not do: it knows no passwords. Whoever can send the
// header that a rule looks at can have what the rule gives, so a header that
// strangers can set belongs in a rule that gives no advantage, or behind a gateway
// that sets it.
package classify
