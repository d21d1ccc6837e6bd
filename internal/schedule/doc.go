// Package schedule decides which of the waiting tasks runs next on one resource.
//
// A Queue has three levels. Classes share the resource by weight, workflows
// share what their class gets, and inside a workflow one order rules, in which
// senders may take turns (Config.Senders) and, in FIFO, tasks that hold the resource
// for long leave a part of it to the others (Kind):
//
//	           weights            shares             Order
//	resource ─┬─ interactive ───┬─ workflow 0 ─── t t t t
//	          │                 └─ workflow 7 ─── t t
//	          └─ default ─────┬─── workflow 0 ─── t
//	                          └─── workflow 3 ─── t t t
//
//	Push ──▶ waits ──▶ Expired: can no longer meet its deadline, dropped
//	                └▶ Next:    dispatched ──▶ Charge … Settle
//
// The two upper levels are the same deficit round robin: a dispatched task is
// charged its estimated cost, and the charge is corrected when its cost is known. A
// workflow that waits alone gets the whole resource and builds up no debt.
//
// Invariants: a task that was pushed comes out exactly once, through Next,
// Expired or Remove; a task that cannot meet its deadline is never dispatched;
// the resource is never idle while a task waits, whatever the shares; a workflow
// that was idle comes back without credit, and the rounds that passed meanwhile have
// forgiven its debt.
//
// What this package does not do: it bounds neither the number of tasks nor
// their delay, which is the gate's business, estimates no costs, and never
// preempts. It has no clock, lock or goroutine.
package schedule
