// Package guard watches unmodified servers from beside, names the task that hogs what
// the others need, and cancels it if it may.
//
//	         every 100 ms, sooner while a pick is to be confirmed
//	server ──Look──▶ adapter ──Sample──▶ rules ──▶ culprit.Engine ──Decision──┐
//	   ▲             postgres                who must not be                  │
//	   │             mariadb                 cancelled                        ▼
//	   └──────────────Act ◀── mode enforce, no kill switch ◀────── log, audit, metrics
//
// One Guard watches one server; several run in one process, and a Set serves their
// metrics and health together. Adapters, in the subdirectories, know what waits for
// what and how to cancel; the engine alone chooses.
//
// Invariants: in mode monitor, while the kill switch is thrown, and while a view fails,
// nothing is sent to a server but what looks. A lost connection is opened again with a
// growing pause. Texts of statements appear nowhere unless asked for, passwords never.
//
// What this package does not do: it restrains no clients. What the engine advises about
// a kind of statement is reported, for whoever admits requests.
package guard
