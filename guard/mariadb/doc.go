// Package mariadb looks at a MariaDB server, version 10.6 or later, or a MySQL 8 server
// through their public views and cancels what it is told to.
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
//     transaction can only lose its connection.
//   - Views of lock waits are quadratic in the waiters of one row. The blockers of the
//     oldest waiters are enough, and where even these are dear, they are asked for so
//     seldom that they cost a tenth of the time.
//   - FLUSH TABLES WITH READ LOCK dams: on MariaDB its pending request stands in front of
//     writers, and goes without harm. On MySQL it waits for a long SELECT that is in no
//     table of locks: the oldest statement is taken for it.
//   - A transaction that reads under one snapshot keeps the versions of rows that were
//     replaced since, and whoever passes through them has no wait in any view. What
//     statements run, or sleep in latches, beyond normal while it is held is lost to it, and
//     only the end of its session lets it go. It is as old as the statement under it at least;
//     the server itself tells its age to a second.
//   - What a running statement waits for that no view shows, the state of its thread tells:
//     storage, a latch, a processor.
//   - InnoDB's views show what they showed before while they are read more often than ten
//     times a second. They are read no more often.
//   - With a thread pool, requests that wait for a thread are in no process list, and
//     nobody can connect. So the connections are those of extra_port or admin_port where
//     the server has one, and are opened in advance.
//
// Invariants: a task is looked up immediately before it is killed, and MariaDB compares the
// number of a statement in the KILL as well. No look takes longer than its
// limit. Nothing is written to the server.
//
// What this package does not do: it chooses nothing.
package mariadb
