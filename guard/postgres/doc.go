// Package postgres looks at a PostgreSQL server, version 13 to 18, through its
// public views and cancels what it is told to.
//
//	pg_stat_activity ─ every look ──────────────┐
//	pg_locks ───────── while somebody waits ────┤
//	pg_stat_progress_… while such work runs ────┼─▶ rows ─▶ build ─▶ track.Look
//	/proc of backends  on the same machine ─────┘
//	pg_cancel_backend, pg_terminate_backend ◀── Act, on a connection of its own
//
// What it knows of PostgreSQL:
//
//   - A task is a transaction. A statement that is cancelled aborts it, so its
//     locks go at once; an idle one ignores a cancel and must be terminated.
//   - Who waits stands behind those who hold what conflicts, and only where there
//     are none behind the first pending request that does: so the edges of 99
//     waiters on one row are 99 and not 4,950.
//   - A snapshot keeps the versions of rows that were replaced since it was taken, and
//     nobody waits for it: statements pass by more and more of them. What they cost beyond
//     normal while it is held is lost to it, and so is the wait for processors that this causes.
//   - A light-weight lock is held by a process that does not wait for one itself. Where none
//     waits for storage and most of their time they lack a processor, so do those behind.
//   - A session is idle to the server until it has read a request. Where processors are short,
//     that is most of the wait: requests that idle sessions have not read are looked up in their
//     sockets, and the time that sessions waited for a processor tells how many statements were late.
//   - The foreground is judged by its statements. A long transaction of short
//     statements is a conversation and misses no objective.
//
// Invariants: a task is acted on only if its session and its transaction are still
// those of the look, which the statement that acts checks itself. No look takes
// longer than its limit. Nothing is written to the server.
//
// What this package does not do: it chooses nothing. Whom to cancel is for the
// engine, who may not be for the rules of the guard.
package postgres
