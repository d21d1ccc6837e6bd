// Package culprit decides which task hogs a resource of an application, and
// whether cancelling that task is worth what it costs.
//
// Overload is often one task that holds a table lock, a buffer pool or a worker
// queue while the other tasks wait. Refusing the waiting tasks frees nothing.
// The engine names the task that the others wait for:
//
//	         every 50–500 ms
//	source ──────Sample──────▶ Engine ──────Decision──────▶ source
//	task file                    │ late? flat?         state, blame, candidates,
//	database guard               │ explained by         at most one Action
//	simulator, gate              │   which resource?
//	                             │ held by whom?
//	                             │ clear, confirmed,
//	                             ▼   worth its price?
//	                           baseline of normal times
//
// A source looks at its application, fills a Sample and hands it to
// Engine.Observe. The Decision names the state, the share of time that each
// resource costs, the best candidates with scores and prices, and an Action
// when one task must be cancelled. The source carries the Action out; later
// samples tell the engine whether it helped.
//
// Invariants: the same configuration and the same samples give the same
// decisions. A task that is barred, younger than the minimum age (unless its kind is
// limited) or already cancelled with a step is never picked for that step. No Action exceeds the
// caps. The baseline is learned in normal times only, so a stall never becomes
// the normal state. Nothing is cancelled while a view is blind.
//
// What this package does not do: it reads no clock, view or counter, it cancels
// nothing itself, it admits and refuses no requests, and it knows no server.
// Ordinary overload, which no task explains, is reported and left to admission.
// The idea and the formulas are those of Atropos (SOSP 2025), sections 3.3–3.5.
package culprit
