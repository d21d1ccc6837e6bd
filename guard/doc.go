// Package guard watches unmodified servers through their own views, names the task that
// blocks the others, and cancels it if it may.
//
//	         every 100 ms, sooner while a pick is unconfirmed
//	server ──Look──▶ adapter ──Sample──▶ rules ──▶ culprit.Engine ──Decision──┐
//	   ▲             postgres, mariadb       what is never                    │
//	   │             search, solr            cancelled                        ▼
//	   └──────────────Act ◀── mode enforce, no kill switch ◀────── log, audit, metrics
//
// One Guard watches one server. Several run in one process, and a Set serves their metrics
// and health together. Adapters, in the subdirectories, know which task waits for which
// and how to cancel; only the engine chooses.
//
// Invariants: in mode monitor, while the kill switch is on, and while a view fails, the
// guard sends a server only queries of its views. A lost connection is opened again after
// growing pauses. The text of a statement is shown only on request, a password never.
//
// What this package does not do: it does not limit clients. It reports the engine's advice
// to limit a kind of statement, for programs that admit requests.
package guard
