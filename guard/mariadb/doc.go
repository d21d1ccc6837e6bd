// Package mariadb looks at a MariaDB server, version 10.6 or later, or a MySQL 8 server
// through their public views and cancels the tasks that it is told to.
//
//	processlist, or threads and events_statements_current ─ every look ──┐
//	INNODB_TRX ─────────────────────────────────────────── every look ───┤
//	INNODB_LOCK_WAITS, data_lock_waits ─ while rows are waited for ──────┼─▶ build ─▶ track.Look
//	metadata_locks ───────────── while tables, backups, names are ───────┤
//	THREAD_POOL_QUEUES, sockets  where there is a thread pool ───────────┤
//	/proc of threads ─────────── on the same machine ────────────────────┘
//	KILL QUERY ID, KILL CONNECTION ◀── Act, on a connection of its own
//
// What it knows of these servers:
//
//   - KILL QUERY ends a statement and leaves its transaction the row locks; so an idle
//     transaction, or a long one of short statements, can only lose its connection.
//   - MariaDB numbers the statements inside of a procedure, and shows their texts. What is older than
//     the look before is the statement that was seen then. KILL QUERY would end one of many.
//   - Views of lock waits are quadratic in the waiters of one row. The blockers of the
//     oldest waiters are enough. Where even that query is dear, it runs so seldom that it
//     takes a tenth of the time.
//   - FLUSH TABLES WITH READ LOCK dams: on MariaDB its pending request blocks the writers
//     behind it and can be cancelled without harm. On MySQL it waits for a long SELECT that
//     is in no table of locks, so the oldest statement is taken for that SELECT.
//   - A transaction that reads under one snapshot keeps the row versions that were replaced
//     since: no more than the server keeps more of since then, so none beside statements that only read. A statement that steps over them shows no wait in any view. The time that
//     statements run, or sleep in latches, beyond normal while the snapshot is held counts
//     as lost to it, and only the end of its session releases it. It is at least as old as
//     the statement that uses it; the server reports its age to a second.
//   - Where no view shows what a running statement waits for, the state of its thread does:
//     storage, a latch, a processor.
//   - Who waits for a connection of an exhausted pool waits in the application. Where two sessions
//     or more keep their connections, the guard counts those of each application that are free; where none is, and
//     much less ends than is usual, requests are taken to wait for all that keep one.
//   - InnoDB's views repeat their last answer when they are read more than ten times a
//     second. They are read no more often. A session that has begun another statement since is
//     in another transaction, unless that one is known to have several.
//   - With a thread pool, requests that wait for a thread are in no process list, and new
//     connections wait as well. So the guard connects in advance, through extra_port or
//     admin_port where the server has one.
//
// Invariants: a task is looked up immediately before it is killed, and MariaDB compares the
// number of a statement in the KILL as well. No look takes longer than its
// limit. A view of waits that the server refuses costs a look what that view shows, no more. Nothing is
// written to the server.
//
// What this package does not do: it does not choose the task.
package mariadb
