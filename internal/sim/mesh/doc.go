// Package mesh decides what happens in a simulated world of services that call
// each other, around the very policy code that live servers run.
//
//	clients ─▶ node.Node of a process ─▶ its inside ────────▶ its egress ─▶ processes of
//	open or    may it come, and run,     steps of a stage:    Sender, per   other services
//	closed     and when?                 work, holds, calls;  process that
//	loop                                 a queue in front     it calls
//	   ▲                                 of each resource,
//	   │                                 in schedule's order
//	   └──── answers, with credits, announced rates, service and work done ◀────┘
//
// A Workflow is a tree of stages. A stage runs at a process of its service, step
// by step: work on a resource, holding one over several steps, or calls to other
// services, in sequence or in parallel. When a call fails, its caller's stage fails
// at once. Calls whose caller has given up run on or are cancelled, as the Control
// says, and their work counts as wasted. Only clients retry.
// Deadlines travel as the budget that is left.
//
// A node is told what package live tells one: the tags of requests, the calls of its
// process and their answers, and the service times of requests. If its rates name the
// resources of the process, it is also told which workflows use them and how long
// requests wait for them. It polls a process that limited it and has been silent for a
// period. Processes learn of each other from calls and answers alone.
//
// With Control.Share each process learns which calls are interactive and moves the
// weight of that class at its node and in front of its resources. It sees of a call what a
// server sees: the caller, the call's wall time at this process, and whether it calls
// others.
//
// Describe makes a Config from a world.World. A world adds hosts, on which processes
// share processors and messages cost processor time; connections with accounts, clients
// without wallets, retries, ramps and bursts; and faults that end. A process on a host
// measures how long messages wait for a processor and how much processor time it uses, as
// a live one does. Workers may handle their own messages instead. Connections may come, go
// and vanish; grants get lost, late or repeated. World.Measured fills a world.Report.
//
// Invariants: a request ends exactly once; a unit of a resource is given back
// exactly once; no stage waits for a resource with a free unit; announced shares sum
// to no more than the rate; the service of a request is no longer than its wall time
// (World.Audit checks these). The random draws of a request depend on the seed and
// its place in the call tree alone, so two controls compared on one seed meet the
// same work; the same Config gives the same log, byte for byte.
//
// What this package does not do: the network loses nothing but grants; messages cost
// nothing without a host or Service.Message; a caller has a wallet for each process of a service, and takes these in
// turn; work at a resource is not interrupted and keeps its speed; orders know the true
// mean cost of a piece of work, which a server has to estimate.
package mesh
