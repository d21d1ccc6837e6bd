// Package classify decides what a request is, before a gate decides whether it may enter:
// its workflow, class and priority, and its deadline if it brought none.
//
//	facts: header, path, method, host, peer, tags ──▶ rules, first match wins ──▶ set
//	                                                                               │
//	workflow: the rule's, or a header's value ◀────────────────────────────────────┤
//	          listed? its defaults : room among Names? itself : the default one    │
//	class, priority, deadline: the rule's, else a believed tag, else the workflow's ◀┘
//
// Rules are compiled once and never change, so any number of requests can be classified at
// once; a changed configuration makes new rules. GRPC and HTTP are for servers of those
// kinds, Stamp is for programs that pass requests on.
//
// Invariants: what a request says about itself counts only if the edge trusts its sender,
// or if a rule says so (AnyBaggage); names from outside never make more than a bounded
// number of workflows; no input panics; classifying a request takes time in proportion to
// the rules and to the length of what they look at, and allocates nothing.
//
// What this package does not do: it knows no passwords. Every client that can send the
// header that a rule looks at gets what the rule gives. A header that strangers can set
// belongs in a rule that gives no advantage, or behind a gateway that sets it.
package classify
