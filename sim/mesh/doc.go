// Package mesh decides what happens in a simulated world of services that call
// each other, around the very policy code that live servers run.
//
//	clients ─▶ process ─────────────────────────────────────▶ other processes
//	open or    ┊ ingress          inside            egress ┊   of a service, picked
//	closed     ┊ Door: admitted?  steps of a stage: Sender ┊
//	loop       ┊                  work and holds on        ┊
//	   ▲       ┊                  resources, each with     ┊
//	   │       ┊                  a queue; calls           ┊
//	   └── answers, with what policies put on them ◀───────┘
//
// A Workflow is a tree of stages. A stage runs at a process of its service, step
// by step: work on a resource, holding one over several steps, or calls to other
// services, in sequence or in parallel. A call that fails fails its caller's
// stage at once. What nobody waits for any more runs on, to waste, or is canceled,
// as the Control says; the work done in vain is counted.
//
// Only clients retry. Deadlines travel as the budget that is left.
//
// Invariants: a request ends exactly once; a unit of a resource is given back
// exactly once; what a request draws by chance depends on the seed and its place
// in the call tree alone, so that two controls compared on one seed meet the same
// work; the same Config gives the same log, byte for byte.
//
// What this package does not do: messages and refusals cost processes nothing
// and the network loses none (package model has both); work that a process has
// begun is not interrupted, and keeps its speed.
package mesh
