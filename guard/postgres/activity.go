package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spillgate/spillgate/guard/track"
)

// activityRow is a session that does something, as pg_stat_activity shows it.
type activityRow struct {
	pid, leader int64
	backend     string // backend_type
	begun       time.Time
	transaction time.Time // zero outside one
	statement   time.Time
	changed     time.Time
	state       string
	waitType    string
	wait        string
	user        string
	application string
	database    string
	client      string
	port        int     // of the client; 0 unless it came over TCP
	text        *string // nil: as before, or not to be seen
	hidden      bool    // by a lack of rights, which hides the state as well: a session may send the text that stands for it
	superuser   bool
	horizon     int64 // transactions since the oldest that it must still see as open
	pool, free  int   // sessions that its application has from its place; those of them that are free
}

// name names the pool that a session is of.
func (r *activityRow) name() track.Pool {
	return track.Pool{User: r.user, Application: r.application, Database: r.database, Client: r.client}
}

// owner returns who runs what a session does: the session or, where its application has no other, the application, which
// may open one after the other.
func (r *activityRow) owner() uint64 {
	if r.pool == 1 {
		return r.name().Owner()
	}
	return uint64(r.begun.UnixMicro())<<12 | uint64(r.pid)&0xfff // of sessions that begin in one microsecond
}

// summary is what one look says of the whole server.
type summary struct {
	now      time.Time // the server's clock
	began    time.Time // of the statement that looked
	ended    uint64    // transactions, since the statistics began
	finished uint64    // sessions that went idle since the look before
	written  uint64    // transactions that have written something, since the cluster began
}

// maxText is how much of a statement is fetched, in characters.
const maxText = 1024

// mostRows bounds the sessions of a look. With more the look is blind.
const mostRows = 10_000

// activitySQL shows the sessions that do something, or did since the look before, the
// oldest statement first, those of some client ports, and the summary beside each: one row at least.
// Texts are those that began since a second before the look before, of sessions that are not idle: a statement begins when its
// process reads it, and is shown when the process has had a processor for that.
const activitySQL = `WITH a AS MATERIALIZED (
  SELECT pid, leader_pid AS leader, coalesce(backend_type, '') AS backend, backend_start, xact_start, query_start, state_change, coalesce(state, '') AS state,
    wait_event_type AS wait_type, wait_event AS wait, coalesce(usesysid, 0) AS usesysid, usename, coalesce(application_name, '') AS application,
    coalesce(datid, 0) AS datid, datname, client_addr, greatest(client_port, 0) AS port, backend_xmin, backend_xid,
    CASE WHEN query_start >= $1::timestamptz - interval '1 second' AND coalesce(state, '') <> 'idle' THEN left(query, $2) END AS text, state IS NULL AND query = '<insufficient privilege>' AS hidden
  FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (application_name IS DISTINCT FROM $3 OR usename IS DISTINCT FROM current_user)),
p AS (
  SELECT usesysid, application, datid, client_addr, backend, count(*) AS pool, count(*) FILTER (WHERE state = 'idle' AND state_change < statement_timestamp() - interval '20 ms') AS free
  FROM a GROUP BY 1, 2, 3, 4, 5)
SELECT clock_timestamp(), statement_timestamp(), s.ended, s.finished, pg_snapshot_xmax(pg_current_snapshot())::text::bigint, a.pid, coalesce(a.leader, 0), a.backend, a.backend_start, a.xact_start, a.query_start, a.state_change, a.state,
  coalesce(a.wait_type, ''), coalesce(a.wait, ''), coalesce(a.usename::text, ''), a.application, coalesce(a.datname::text, ''), coalesce(host(a.client_addr), ''), a.port, a.text, coalesce(a.hidden, false),
  coalesce((SELECT rolsuper FROM pg_roles r WHERE r.oid = a.usesysid), false), coalesce(greatest(age(a.backend_xmin), age(a.backend_xid), 0)::bigint, 0), coalesce(p.pool, 0), coalesce(p.free, 0)
FROM (SELECT (SELECT coalesce(sum(pg_stat_get_db_xact_commit(oid) + pg_stat_get_db_xact_rollback(oid)), 0)::bigint FROM pg_database) AS ended,
    (SELECT count(*) FROM a WHERE state LIKE 'idle%' AND state_change >= $1) AS finished) s
  LEFT JOIN a ON a.hidden OR (a.state <> 'idle' OR a.state_change >= $1 OR a.port = ANY($5)) AND a.backend IN ('client backend', 'parallel worker', 'autovacuum worker', 'walsender', 'background worker',
    'logical replication worker', 'logical replication apply worker', 'logical replication parallel worker')
    AND (a.state <> '' OR a.xact_start IS NOT NULL OR a.backend = 'walsender')
  LEFT JOIN p ON p.usesysid = a.usesysid AND p.application = a.application AND p.datid = a.datid AND p.client_addr IS NOT DISTINCT FROM a.client_addr AND p.backend = a.backend
ORDER BY a.query_start
LIMIT $4`

// byPidSQL shows sessions that hold something although they do nothing.
const byPidSQL = `SELECT clock_timestamp(), statement_timestamp(), 0::bigint, 0::bigint, 0::bigint, pid, coalesce(leader_pid, 0), coalesce(backend_type, ''), backend_start, xact_start, query_start, state_change, coalesce(state, ''),
  coalesce(wait_event_type, ''), coalesce(wait_event, ''), coalesce(usename::text, ''), coalesce(application_name, ''), coalesce(datname::text, ''), coalesce(host(client_addr), ''), 0,
  left(query, $2), coalesce(query = '<insufficient privilege>' AND state IS NULL, false), coalesce((SELECT rolsuper FROM pg_roles r WHERE r.oid = usesysid), false),
  greatest(age(backend_xmin), age(backend_xid), 0)::bigint, 0::bigint, 0::bigint
FROM pg_stat_activity WHERE pid = ANY($1)`

// readActivity runs one of the two statements.
func readActivity(ctx context.Context, conn *pgx.Conn, into []activityRow, sql string, args ...any) (summary, []activityRow, error) {
	var s summary
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return s, into, err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			r                           activityRow
			ended, finished, written    int64
			pid, leader                 *int64
			begun, xact, query, changed *time.Time
			backend, state, waitType    *string
			wait, user, app, database   *string
			client                      *string
			port                        *int32
		)
		if err := rows.Scan(&s.now, &s.began, &ended, &finished, &written, &pid, &leader, &backend, &begun, &xact, &query, &changed, &state,
			&waitType, &wait, &user, &app, &database, &client, &port, &r.text, &r.hidden, &r.superuser, &r.horizon, &r.pool, &r.free); err != nil {
			return s, into, err
		}
		s.ended, s.finished, s.written = uint64(max(ended, 0)), uint64(max(finished, 0)), uint64(max(written, 0))
		if pid == nil {
			continue
		}
		r.pid, r.leader = *pid, value(leader)
		r.begun, r.transaction, r.statement, r.changed = value(begun), value(xact), value(query), value(changed)
		r.backend, r.state, r.waitType, r.wait = value(backend), value(state), value(waitType), value(wait)
		r.user, r.application, r.database, r.client = value(user), value(app), value(database), value(client)
		r.port = int(value(port))
		into = append(into, r)
	}
	return s, into, rows.Err()
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// lockRow is a contended lock: held, or asked for.
type lockRow struct {
	group   string // what is locked
	kind    string // locktype
	pid     int64  // 0: a prepared transaction
	virtual string // virtualtransaction
	mode    string
	granted bool
	since   time.Time // of the wait, zero if unknown
}

// lockSQL names what a row of pg_locks is about.
const lockSQL = "concat_ws('/', locktype, database, relation, page, tuple, virtualxid, transactionid, classid, objid, objsubid)"

// locksSQL shows every contended lock, with its holders. The
// column after granted is waitstart, which came with version 14.
const locksSQL = `WITH l AS MATERIALIZED (SELECT *, %s AS since FROM pg_locks WHERE mode <> 'SIReadLock')
SELECT key, locktype, coalesce(pid, 0), virtualtransaction, mode, granted, since FROM (SELECT *, ` + lockSQL + ` AS key FROM l) k
WHERE key IN (SELECT ` + lockSQL + ` FROM l WHERE NOT granted) ORDER BY granted DESC, since NULLS LAST, pid LIMIT $1`

// mostLocks bounds the lock rows of a look; the oldest waiters come first.
const mostLocks = 20_000

func readLocks(ctx context.Context, conn *pgx.Conn, into []lockRow, sql string) ([]lockRow, error) {
	rows, err := conn.Query(ctx, sql, mostLocks)
	if err != nil {
		return into, err
	}
	defer rows.Close()
	for rows.Next() {
		var r lockRow
		var since *time.Time
		if err := rows.Scan(&r.group, &r.kind, &r.pid, &r.virtual, &r.mode, &r.granted, &since); err != nil {
			return into, err
		}
		r.since = value(since)
		into = append(into, r)
	}
	return into, rows.Err()
}

// progress is how far a command has come.
type progress struct{ pid, done, total int64 }

// progressSQL unites the progress views of a version. Their units differ, but each
// command has one.
func progressSQL(version int) string {
	sql := `SELECT pid, heap_blks_scanned, heap_blks_total FROM pg_stat_progress_vacuum
UNION ALL SELECT pid, heap_blks_scanned, heap_blks_total FROM pg_stat_progress_cluster
UNION ALL SELECT pid, blocks_done, blocks_total FROM pg_stat_progress_create_index
UNION ALL SELECT pid, sample_blks_scanned, sample_blks_total FROM pg_stat_progress_analyze`
	if version >= 140000 {
		sql += "\nUNION ALL SELECT pid, bytes_processed, bytes_total FROM pg_stat_progress_copy"
	}
	return sql
}

func readProgress(ctx context.Context, conn *pgx.Conn, version int) ([]progress, error) {
	rows, err := conn.Query(ctx, progressSQL(version))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (progress, error) {
		var p progress
		var done, total *int64 // hidden from those without rights
		err := row.Scan(&p.pid, &done, &total)
		p.done, p.total = value(done), value(total)
		return p, err
	})
}
