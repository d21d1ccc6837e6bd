// Package schedule decides which of the waiting tasks runs next on one resource.
//
// A Queue has three levels. Classes share the resource by weight, workflows
// share what their class gets, and inside a workflow one order rules:
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
// The two upper levels are the same deficit round robin: whoever is dispatched
// is charged its estimate, and the charge is corrected by what the task turns
// out to use. Who waits alone gets everything, and no debt grows from it.
//
// Invariants: a task that was pushed comes out exactly once, through Next,
// Expired or Remove; a task that cannot meet its deadline is never dispatched;
// whoever waits is served, so the resource is never idle for the sake of a
// share; a child that was idle comes back without credit, and what it still
// owes has been forgiven by the rounds that passed meanwhile.
//
// What this package does not do: it bounds neither the number of tasks nor
// their delay, which is the gate's business, estimates no costs, and never
// preempts. It has no clock, lock or goroutine.
package schedule
