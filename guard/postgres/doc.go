// Package postgres looks at a PostgreSQL server, version 13 to 18, through its
// public views and cancels the tasks that it is told to.
//
//	pg_stat_activity ─ every look ──────────────┐
//	pg_locks ───────── while a task waits ──────┤
//	pg_stat_progress_… while such work runs ────┼─▶ rows ─▶ build ─▶ track.Look
//	/proc of backends  on the same machine ─────┘
//	pg_cancel_backend, pg_terminate_backend ◀── Act, on a connection of its own
//
// What it knows of PostgreSQL:
//
//   - A task is a transaction. A statement that is cancelled aborts it, so its
//     locks go at once; an idle one ignores a cancel and must be terminated.
//   - A waiting task has an edge to each holder of a conflicting lock. If there is no
//     holder, it has one edge to the first conflicting request in the queue. So 99 waiters
//     on one row have 99 edges and not 4,950.
//   - A snapshot keeps the row versions that were replaced since it was taken. No task waits
//     for it: statements step over more and more versions. Their extra cost while it is held
//     counts as lost to it, and so does the wait for processors that this causes.
//   - The holder of a light-weight lock is a process that does not wait for one itself. If
//     none of the possible holders waits for storage and they lack a processor most of the
//     time, the tasks behind them wait for a processor too.
//   - A session is idle to the server until it has read a request. Where processors are short,
//     that is most of the wait. So the guard looks for unread requests of idle sessions in
//     their sockets, and the time that sessions waited for a processor tells how many
//     statements were late.
//   - An idle session tells when its last statement began and ended, so those that were late
//     and began and ended between two looks are counted as well, one a session.
//   - Who waits for a connection of an exhausted pool waits in the application, and no session
//     of the server does. Where all sessions that an application has from one place are in use and much
//     less ends in them than is usual, requests are taken to wait for all that keep one.
//   - The foreground is judged by its statements. A long transaction of short
//     statements is a conversation and misses no objective.
//
// Invariants: a task is acted on only if its session and its transaction are still
// those of the look, or the session still keeps the advisory lock that it is for, which the
// acting statement itself checks. No look takes
// longer than its limit. Nothing is written to the server.
//
// What this package does not do: it chooses no task. The engine chooses, and the
// rules of the guard say which tasks are never cancelled.
package postgres
