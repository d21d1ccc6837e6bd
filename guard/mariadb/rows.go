package mariadb

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/guard/track"
)

// sessionRow is a session that does something, or is in a transaction.
type sessionRow struct {
	id         int64
	user       string
	host       string // without a port
	database   string
	command    string
	state      string
	text       string
	elapsed    float64 // of the statement, or of being idle, in milliseconds
	query      int64   // number of the statement
	thread     int64   // of the operating system; 0 unknown
	stage      float64 // progress of the present stage, per cent; 0 unknown
	stages, of int64
}

// progress returns how far a statement has come in all of its stages, in thousandths of a per cent of one;
// zeros if that is not known.
func (r *sessionRow) progress() (done, total uint64) {
	if r.of < 1 || r.of > 1000 || r.stages < 1 || r.stages > r.of || r.stage < 0 || r.stage > 100 {
		return 0, 0
	}
	if done = uint64(r.stages-1)*100_000 + uint64(r.stage*1000); done == 0 {
		return 0, 0
	}
	return done, uint64(r.of) * 100_000
}

// idle tells a session that waits for its client.
func (r *sessionRow) idle() bool { return r.command == "Sleep" }

// pool names the pool that a session is of.
func (r *sessionRow) pool() track.Pool {
	return track.Pool{User: r.user, Database: r.database, Client: r.host}
}

// connected is how many sessions a pool has, and how many of them do nothing.
type connected struct{ size, asleep int }

// readConnected counts the sessions of each pool. MySQL knows since when one does nothing to a second.
func readConnected(ctx context.Context, c *sql.Conn, mysql bool) (map[track.Pool]connected, error) {
	text := fmt.Sprintf("SELECT USER, %s, COALESCE(DB, ''), COUNT(*), SUM(COMMAND = 'Sleep' AND TIME_MS >= %d) FROM information_schema.PROCESSLIST GROUP BY 1, 2, 3 LIMIT %d", hostSQL("HOST"), track.FreeAfter.Milliseconds(), mostRows)
	if mysql {
		text = fmt.Sprintf(`SELECT COALESCE(PROCESSLIST_USER, ''), COALESCE(PROCESSLIST_HOST, ''), COALESCE(PROCESSLIST_DB, ''), COUNT(*), SUM(PROCESSLIST_COMMAND = 'Sleep' AND PROCESSLIST_TIME >= 1)
FROM performance_schema.threads WHERE PROCESSLIST_ID IS NOT NULL GROUP BY 1, 2, 3 LIMIT %d`, mostRows)
	}
	all := map[track.Pool]connected{}
	err := query(ctx, c, text, func(rows *sql.Rows) error {
		var name track.Pool
		var n connected
		err := rows.Scan(&name.User, &name.Client, &name.Database, &n.size, &n.asleep)
		all[name] = n
		return err
	})
	return all, err
}

// transactionRow is a transaction, as INNODB_TRX shows it.
type transactionRow struct {
	id       uint64
	waiting  bool
	begun    int64 // by the server's clock, seconds since 1970
	age      int64 // seconds
	waited   int64 // seconds
	session  int64
	modified int64 // rows
	keeps    bool  // it sees one snapshot until it ends, and only reads
	single   bool  // it ends with its statement
	sure     int64 // microseconds that it is old at least: the server tells when it began to a second
	own      bool  // that of the guard in which it asks
}

// rowWait says which transaction waits for which.
type rowWait struct{ waiter, blocker uint64 }

// lockRow is a metadata lock.
type lockRow struct {
	object   string // type, schema and name
	kind     string // type of the object
	mode     string
	explicit bool // held for the session
	granted  bool
	session  int64
}

// queued is a request that waits for a thread of the pool.
type queued struct {
	connection int64
	waited     float64 // microseconds
	unread     bool    // in its socket: since when is not known
}

// Limits of a look.
const (
	maxText  = 1024
	mostRows = 10_000
)

// hostSQL returns the expression for the host of a client in MariaDB's list of processes, which has a port behind the
// last colon: an address of IPv6 has colons too. A client of a socket is localhost, without a port. MySQL's threads have
// the host alone.
func hostSQL(of string) string {
	return fmt.Sprintf("SUBSTRING(%[1]s, 1, CHAR_LENGTH(%[1]s) - LOCATE(':', REVERSE(%[1]s)))", of)
}

// sessionsSQL returns the statement for sessions that do something, and those that
// are in a transaction or are asked for by number.
func sessionsSQL(mysql bool, ids []int64) string {
	busy := "NOT IN ('Sleep', 'Daemon')"
	also := ""
	if len(ids) > 0 {
		also = " OR %s IN (" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]") + ")"
	}
	if !mysql {
		if also != "" {
			also = fmt.Sprintf(also, "ID")
		}
		return fmt.Sprintf(`SELECT ID, USER, %s, COALESCE(DB, ''), COMMAND, COALESCE(STATE, ''), COALESCE(LEFT(INFO, %d), ''), TIME_MS, QUERY_ID, TID, PROGRESS, STAGE, MAX_STAGE
FROM information_schema.PROCESSLIST WHERE COMMAND %s%s LIMIT %d`, hostSQL("HOST"), maxText, busy, also, mostRows+1)
	}
	if also != "" {
		also = fmt.Sprintf(also, "t.PROCESSLIST_ID")
	}
	// MySQL's threads that apply what another server did have no user of their own here.
	return fmt.Sprintf(`SELECT t.PROCESSLIST_ID, IF(t.NAME LIKE 'thread/sql/slave%%' OR t.NAME LIKE 'thread/sql/replica%%', 'system user', COALESCE(t.PROCESSLIST_USER, '')), COALESCE(t.PROCESSLIST_HOST, ''), COALESCE(t.PROCESSLIST_DB, ''), COALESCE(t.PROCESSLIST_COMMAND, ''),
  COALESCE(t.PROCESSLIST_STATE, ''), COALESCE(LEFT(t.PROCESSLIST_INFO, %d), ''), COALESCE(MAX(s.TIMER_WAIT) / 1e9, t.PROCESSLIST_TIME * 1000), COALESCE(MIN(s.EVENT_ID), 0), COALESCE(t.THREAD_OS_ID, 0), 0, 0, 0
FROM performance_schema.threads t LEFT JOIN performance_schema.events_statements_current s ON s.THREAD_ID = t.THREAD_ID AND s.END_EVENT_ID IS NULL
WHERE t.PROCESSLIST_ID IS NOT NULL AND (t.PROCESSLIST_COMMAND %s%s) GROUP BY t.THREAD_ID LIMIT %d`, maxText, busy, also, mostRows+1)
}

// query runs a statement and scans each row.
func query(ctx context.Context, c *sql.Conn, text string, scan func(rows *sql.Rows) error, args ...any) error {
	rows, err := c.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func readSessions(ctx context.Context, c *sql.Conn, into []sessionRow, mysql bool, ids []int64) ([]sessionRow, error) {
	err := query(ctx, c, sessionsSQL(mysql, ids), func(rows *sql.Rows) error {
		var r sessionRow
		err := rows.Scan(&r.id, &r.user, &r.host, &r.database, &r.command, &r.state, &r.text, &r.elapsed, &r.query, &r.thread, &r.stage, &r.stages, &r.of)
		into = append(into, r)
		return err
	})
	return into, err
}

// readBusy reports whether any session runs a statement. On MariaDB the process list is filled
// with all sessions before a row is looked at, at a cost of 1 to 2 ms for a hundred.
func readBusy(ctx context.Context, c *sql.Conn) (busy bool, err error) {
	err = c.QueryRowContext(ctx, "SELECT COUNT(*) > 0 FROM performance_schema.threads WHERE PROCESSLIST_ID <> CONNECTION_ID() AND PROCESSLIST_COMMAND NOT IN ('Sleep', 'Daemon')").Scan(&busy)
	return busy, err
}

// transactionsSQL is for the mark of the guard's own transaction, twice.
const transactionsSQL = `SELECT %[1]s trx_id, trx_state = 'LOCK WAIT', TIMESTAMPDIFF(SECOND, trx_started, NOW()), COALESCE(TIMESTAMPDIFF(SECOND, trx_wait_started, NOW()), 0), trx_mysql_thread_id, trx_rows_modified,
  trx_isolation_level IN ('REPEATABLE READ', 'SERIALIZABLE') AND trx_rows_modified + trx_lock_structs = 0, trx_autocommit_non_locking,
  TIMESTAMPDIFF(MICROSECOND, trx_started, NOW(6)) - 1000000, UNIX_TIMESTAMP(trx_started), COALESCE(trx_query LIKE 'SELECT %[1]s%%', FALSE)
FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id <> 0 LIMIT 10000`

// markSQL returns a comment by which the statement that has it is known in the view of transactions.
func markSQL(mark uint64) string { return fmt.Sprintf("/* spillgate guard %d */", mark) }

// readTransactions reads the transactions, by a statement with a mark.
func readTransactions(ctx context.Context, c *sql.Conn, into []transactionRow, mark uint64) ([]transactionRow, error) {
	err := query(ctx, c, fmt.Sprintf(transactionsSQL, markSQL(mark)), func(rows *sql.Rows) error {
		var r transactionRow
		err := rows.Scan(&r.id, &r.waiting, &r.age, &r.waited, &r.session, &r.modified, &r.keeps, &r.single, &r.sure, &r.begun, &r.own)
		into = append(into, r)
		return err
	})
	return into, err
}

// readRowWaits reads the blockers of some waiting transactions.
func readRowWaits(ctx context.Context, c *sql.Conn, mysql bool, waiters []uint64) (all []rowWait, err error) {
	text := "SELECT DISTINCT requesting_trx_id, blocking_trx_id FROM information_schema.INNODB_LOCK_WAITS WHERE requesting_trx_id IN (%s)"
	if mysql {
		text = "SELECT DISTINCT REQUESTING_ENGINE_TRANSACTION_ID, BLOCKING_ENGINE_TRANSACTION_ID FROM performance_schema.data_lock_waits WHERE REQUESTING_ENGINE_TRANSACTION_ID IN (%s)"
	}
	list := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(waiters)), ","), "[]")
	err = query(ctx, c, fmt.Sprintf(text, list), func(rows *sql.Rows) error {
		var w rowWait
		err := rows.Scan(&w.waiter, &w.blocker)
		all = append(all, w)
		return err
	})
	return all, err
}

// locksSQL shows the metadata locks of every object that somebody waits for: a server has some of each table for each session.
const locksSQL = `SELECT l.OBJECT_TYPE, COALESCE(l.OBJECT_SCHEMA, ''), COALESCE(l.OBJECT_NAME, ''), l.LOCK_TYPE, l.LOCK_DURATION = 'EXPLICIT', l.LOCK_STATUS = 'GRANTED', t.PROCESSLIST_ID
FROM performance_schema.metadata_locks l JOIN performance_schema.threads t ON t.THREAD_ID = l.OWNER_THREAD_ID
WHERE t.PROCESSLIST_ID IS NOT NULL AND l.LOCK_STATUS IN ('GRANTED', 'PENDING') AND (l.OBJECT_TYPE, COALESCE(l.OBJECT_SCHEMA, ''), COALESCE(l.OBJECT_NAME, '')) IN (
  SELECT p.OBJECT_TYPE, COALESCE(p.OBJECT_SCHEMA, ''), COALESCE(p.OBJECT_NAME, '') FROM performance_schema.metadata_locks p WHERE p.LOCK_STATUS = 'PENDING')
LIMIT 20000`

func readLocks(ctx context.Context, c *sql.Conn, into []lockRow) ([]lockRow, error) {
	err := query(ctx, c, locksSQL, func(rows *sql.Rows) error {
		var r lockRow
		var schema, name string
		err := rows.Scan(&r.kind, &schema, &name, &r.mode, &r.explicit, &r.granted, &r.session)
		r.object = r.kind + "/" + schema + "/" + name
		into = append(into, r)
		return err
	})
	return into, err
}

// tableLevel is the kind of a lock that a storage engine without row locks, such as MyISAM or Aria, takes of a whole table.
// Its mode is what the statement asked for; the view does not tell who waits.
const tableLevel = "TABLE LEVEL"

const handlesSQL = `SELECT COALESCE(h.OBJECT_SCHEMA, ''), COALESCE(h.OBJECT_NAME, ''), h.INTERNAL_LOCK, t.PROCESSLIST_ID
FROM performance_schema.table_handles h JOIN performance_schema.threads t ON t.THREAD_ID = h.OWNER_THREAD_ID
WHERE t.PROCESSLIST_ID IS NOT NULL AND h.INTERNAL_LOCK IS NOT NULL LIMIT 20000`

// readHandles appends the locks of whole tables. Those of the sessions that wait are requests.
func readHandles(ctx context.Context, c *sql.Conn, into []lockRow, waits func(session int64) bool) ([]lockRow, error) {
	err := query(ctx, c, handlesSQL, func(rows *sql.Rows) error {
		r := lockRow{kind: tableLevel}
		var schema, name string
		err := rows.Scan(&schema, &name, &r.mode, &r.session)
		r.object, r.granted = tableLevel+"/"+schema+"/"+name, !waits(r.session)
		into = append(into, r)
		return err
	})
	return into, err
}

func readQueues(ctx context.Context, c *sql.Conn) (all []queued, err error) {
	err = query(ctx, c, "SELECT COALESCE(CONNECTION_ID, 0), QUEUEING_TIME_MICROSECONDS FROM information_schema.THREAD_POOL_QUEUES LIMIT 10000", func(rows *sql.Rows) error {
		var q queued
		err := rows.Scan(&q.connection, &q.waited)
		all = append(all, q)
		return err
	})
	return all, err
}

// readUnread appends the connections of some client ports that run nothing: what they have
// sent waits in their sockets.
func readUnread(ctx context.Context, c *sql.Conn, into []queued, ports []int) ([]queued, error) {
	err := query(ctx, c, "SELECT ID, HOST FROM information_schema.PROCESSLIST WHERE COMMAND = 'Sleep' LIMIT 10000", func(rows *sql.Rows) error {
		var id int64
		var host string
		err := rows.Scan(&id, &host)
		port, _ := strconv.Atoi(host[strings.LastIndexByte(host, ':')+1:])
		if port > 0 && slices.Contains(ports, port) {
			into = append(into, queued{connection: id, unread: true})
		}
		return err
	})
	return into, err
}

// counts are what the server counts.
type counts struct {
	questions uint64 // statements that clients have sent
	changed   uint64 // rows that statements have updated or deleted, each of which left an old version
	history   int64  // transactions of which old versions are kept, -1 unknown
}

// readCounts reads them; history only if the server tells it here. To read all costs no more than one.
func readCounts(ctx context.Context, c *sql.Conn) (counts, error) {
	all := counts{history: -1}
	err := query(ctx, c, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Handler_update', 'Handler_delete', 'Innodb_history_list_length')", func(rows *sql.Rows) error {
		var name string
		var n uint64
		err := rows.Scan(&name, &n)
		switch strings.ToLower(name) {
		case "questions":
			all.questions = n
		case "handler_update", "handler_delete":
			all.changed += n
		default:
			all.history = int64(min(n, math.MaxInt64))
		}
		return err
	})
	return all, err
}

// readHistory reads of how many transactions MySQL keeps old versions, -1 if it does not count them.
func readHistory(ctx context.Context, c *sql.Conn) (int64, error) {
	history := int64(-1)
	err := query(ctx, c, "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len' AND STATUS = 'enabled'", func(rows *sql.Rows) error {
		return rows.Scan(&history)
	})
	return history, err
}
