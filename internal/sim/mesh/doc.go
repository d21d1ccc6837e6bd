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
// services, in sequence or in parallel. A call that fails fails its caller's
// stage at once. What nobody waits for any more runs on, to waste, or is canceled,
// as the Control says; the work done in vain is counted. Only clients retry.
// Deadlines travel as the budget that is left.
//
// A node hears what package live tells one: what the tags of a request say, the calls
// that a process makes and their answers, what its requests take, and, where its rates
// name the process's resources, who uses those and how long they are waited for. It asks
// processes that limited it and from which nothing has come for a period. What tells a
// process of its callers travels with calls and answers, and nothing else does.
//
// With Control.Share each process learns which calls are interactive and moves the
// weight of that class at its node and in front of its resources. It sees of a call what a
// server would: who calls, its own wall time, and whether it calls others.
//
// Describe makes a Config of a world.World, which adds hosts, whose processors the
// processes on them take in turns and whose messages cost processor time; connections
// with accounts, clients without wallets, retries, ramps and bursts; and faults that
// end. A process on a host finds out how long messages wait for a processor, and what
// it uses of them, as a live one does. Workers may handle their own messages instead.
// Connections may come, go and vanish; grants get lost, late or repeated. World.Measured
// tells what a world.Report holds.
//
// Invariants: a request ends exactly once; a unit of a resource is given back
// exactly once; nobody waits for a resource of which a unit is free; announced
// shares sum to no more than the rate; a request has no more service than time
// (World.Audit checks these). What a request draws by chance depends on the seed
// and its place in the call tree alone, so that two controls compared on one seed
// meet the same work; the same Config gives the same log, byte for byte.
//
// What this package does not do: the network loses nothing but grants; messages cost
// nothing without a host or Service.Message; the pushback of a refusal is not waited for; work at a resource is not
// interrupted, and keeps its speed; orders know the true mean of a piece of work as its
// cost, where a server has to estimate it.
package mesh
