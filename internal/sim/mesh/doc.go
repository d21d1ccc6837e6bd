// Package mesh decides what happens in a simulated world of services that call
// each other, around the very policy code that live servers run.
//
//	clients ─▶ ingress of a process ─▶ its inside ────────▶ its egress ─▶ processes of
//	open or    rates.Adapter: may it   steps of a stage:    Sender, per   other services
//	closed     come now? then          work, holds, calls;  process that
//	loop       Door: may it run?       a queue in front     it calls
//	   ▲                               of each resource,
//	   │                               in schedule's order
//	   └──── answers, with credits, announced rates, service and work done ◀────┘
//
// A Workflow is a tree of stages. A stage runs at a process of its service, step
// by step: work on a resource, holding one over several steps, or calls to other
// services, in sequence or in parallel. A call that fails fails its caller's
// stage at once. What nobody waits for any more runs on, to waste, or is canceled,
// as the Control says; the work done in vain is counted. Only clients retry.
// Deadlines travel as the budget that is left.
//
// With Control.Share each process learns which calls are interactive and moves the
// weight of that class in front of its resources. It sees of a call what a server
// would: who calls, its own wall time, and what answers tell of service and hops.
//
// Each process has an adapter of rates in front of its door, so that the time for
// which a request waits for its workflow's rate is no queueing delay of the door.
// Rates come with answers; a process that was limited and hears nothing for a
// period asks.
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
