package culprits

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/guard"
)

// postgresOthers are culprits that Atropos did not try.
func postgresOthers() []scene {
	return []scene{pgAdvisory(), pgAdvisoryActive(), pgIndex(), pgAlter(), pgIdleLock(), pgRow(), pgScan(), pgNomad(), pgSnapshot()}
}

// aScene is what most of them have in common: requests that update and read rows by key,
// and a culprit of four seconds.
func aScene(name, title, about string) scene {
	return scene{name: name, title: title, about: about, objective: 100 * ms, rate: 400, lasts: 4 * time.Second, start: postgres(nil), request: pgUpdate,
		nativeTitle: "lock_timeout 200 ms, statement_timeout 1 s, idle_in_transaction_session_timeout 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return pgSettings(ctx, b, on, "lock_timeout", "200ms", "statement_timeout", "1s", "idle_in_transaction_session_timeout", "1s")
		}}
}

// pgIdle is a session that is to blame, runs statements, is idle and runs more.
func pgIdle(length time.Duration, before []string, after ...string) func(context.Context, *bench, float64, func(int64)) error {
	return pgSession(0, true, func(ctx context.Context, c *sql.Conn, size float64) error {
		if err := exec(ctx, c, before...); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(float64(length) * size)):
		}
		return exec(ctx, c, after...)
	})
}

// pgShared is a request that takes an advisory lock together with others of its kind, for
// its update alone.
func pgShared(ctx context.Context, b *bench, i int) error {
	_, err := b.db.ExecContext(ctx, "UPDATE hot SET v = v + 1 FROM (SELECT pg_advisory_xact_lock_shared(7)) l WHERE id = $1", 1+i*7919%rows)
	return err
}

func pgAdvisory() scene {
	s := aScene("pg-advisory", "PostgreSQL, advisory lock: held by an idle session",
		"Requests take an advisory lock in shared mode. A session takes it exclusively and does nothing: it is in no transaction, so that no timeout of the server is about it.")
	s.request = pgShared
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{
		pgIdle(4*time.Second, []string{"SELECT pg_advisory_lock(7)"}, "SELECT pg_advisory_unlock(7)")}
	return s
}

func pgAdvisoryActive() scene {
	s := aScene("pg-advisory-active", "PostgreSQL, advisory lock: held by a session that works",
		"The same, and the session runs a statement. Cancelling the statement leaves the lock with the session, which its application keeps: only its end frees the lock.")
	s.request = pgShared
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgSession(0, true, func(ctx context.Context, c *sql.Conn, size float64) error {
		length, began := time.Duration(size*float64(4*time.Second)), time.Now()
		err := exec(ctx, c, "SELECT pg_advisory_lock(7)", fmt.Sprintf("SELECT pg_sleep(%.2f)", length.Seconds()))
		if !cancelledByServer(err) {
			return err
		}
		select { // its pool keeps the session
		case <-ctx.Done():
		case <-time.After(length - time.Since(began)):
		}
		return err
	})}
	return s
}

// schemaAllowed says what the guard is told where the culprit changes tables, allowSchema.
const schemaAllowed = " Changes of tables are barred unless listed: the guard is told that they may be cancelled."

var allowSchema = guard.Rules{Allow: []guard.Rule{{Kind: "schema"}}}

func pgIndex() scene {
	s := aScene("pg-index", "PostgreSQL, CREATE INDEX beside writers",
		"An index is built over an expression that takes long, and not concurrently: readers go on, writers wait."+schemaAllowed)
	s.start = postgres(nil, "CREATE FUNCTION dear(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.0002); RETURN $1; END $$")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgCulprit(func(size float64) []string {
		return []string{fmt.Sprintf("CREATE INDEX dear ON hot (dear(v)) WHERE id <= %d", int(min(12_000*size, rows)))}
	})}
	s.rules = allowSchema
	s.mend = pgMend("DROP INDEX IF EXISTS dear", "VACUUM hot")
	return s
}

func pgAlter() scene {
	s := aScene("pg-alter", "PostgreSQL, ALTER TABLE behind a long reader",
		"A report reads the table for long and harms nobody. Half a second later an ALTER TABLE waits for it, and all requests wait behind the ALTER. Cancelling the ALTER loses nothing."+schemaAllowed)
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{
		pgSession(0, false, func(ctx context.Context, c *sql.Conn, size float64) error {
			return exec(ctx, c, fmt.Sprintf("SELECT count(*), pg_sleep(%.2f) FROM hot", 4*size))
		}),
		pgSession(500*ms, true, func(ctx context.Context, c *sql.Conn, _ float64) error {
			return exec(ctx, c, "ALTER TABLE hot ALTER COLUMN v SET DEFAULT 0")
		})}
	s.rules = allowSchema
	return s
}

func pgIdleLock() scene {
	s := aScene("pg-idle-lock", "PostgreSQL, LOCK TABLE held by an idle transaction",
		"A transaction locks the table and goes idle. A cancel has no effect on it: only the end of the session frees the table.")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgIdle(4*time.Second, []string{"BEGIN", "LOCK TABLE hot IN ACCESS EXCLUSIVE MODE"}, "COMMIT")}
	return s
}

func pgRow() scene {
	s := aScene("pg-row", "PostgreSQL, a row locked by an idle transaction",
		"One request in ten updates one of ten rows. A transaction updates one of these and goes idle: requests for it wait, each on one of the application's connections, until none is left for the others.")
	s.request = func(ctx context.Context, b *bench, i int) error {
		if i%10 > 0 {
			return pgUpdate(ctx, b, i)
		}
		_, err := b.db.ExecContext(ctx, "UPDATE hot SET v = v + 1 WHERE id = $1", 1+i/10%10)
		return err
	}
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgIdle(4*time.Second, []string{"BEGIN", "UPDATE hot SET v = v + 1 WHERE id = 5"}, "COMMIT")}
	s.mend = pgMend("VACUUM hot")
	return s
}

func pgScan() scene {
	s := aScene("pg-scan", "PostgreSQL, processors: a parallel scan beside the load",
		"A report computes over another table with as many parallel workers as it gets, on all processors. Its workers' use counts for their leader.")
	s.objective, s.rate, s.load, s.parts = 0, 0, 0.6, 2
	s.start = postgres(nil, bigTable, "ANALYZE big")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgCulprit(func(size float64) []string {
		return []string{"SET max_parallel_workers_per_gather = 4", "SET parallel_setup_cost = 0", "SET parallel_tuple_cost = 0", "SET min_parallel_table_scan_size = 0",
			fmt.Sprintf("SELECT sum(length(md5(b.pad || k))) FROM big b, generate_series(1, %d) k", int(70*size))}
	})}
	s.nativeTitle = "statement_timeout 1 s"
	s.native = func(ctx context.Context, b *bench, on bool) error {
		return pgSettings(ctx, b, on, "statement_timeout", "1s")
	}
	return s
}

func pgNomad() scene {
	s := aScene("pg-nomad", "PostgreSQL, a culprit that changes its text, opens new sessions and sleeps in between",
		"Again and again a new session locks the table, runs a statement of another text for a second, ends, and is back after a tenth of a second.")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
		for began, i := time.Now(), 0; time.Since(began) < time.Duration(size*float64(4*time.Second)) && ctx.Err() == nil; i++ {
			err := pgSession(100*ms, true, func(ctx context.Context, c *sql.Conn, _ float64) error {
				return exec(ctx, c, "BEGIN", "LOCK TABLE hot IN ACCESS EXCLUSIVE MODE", fmt.Sprintf("SELECT pg_sleep(1) AS step_%d", i), "COMMIT")
			})(ctx, b, size, mark)
			if cancelledByServer(err) {
				continue
			}
			if err != nil {
				return err
			}
		}
		return nil
	}}
	return s
}

// refreshed is how many neighbouring rows a request of the snapshot scenes updates.
const refreshed = 50

// pgSnapshot is about an overload without any wait: index entries of old versions, which
// each request passes by on its way to the oldest row.
func pgSnapshot() scene {
	s := aScene("pg-snapshot", "PostgreSQL, row versions: a snapshot held by an idle transaction",
		"Requests refresh fifty rows and ask for the row that has not been for longest, by an index. A report has taken a snapshot of another table and does nothing: "+
			"no version that requests replace can be removed, and each request passes by all of them. Nobody waits for anything.")
	s.objective, s.rate, s.load, s.parts, s.lasts = 0, 0, 0.5, 2, 5*time.Second
	s.start = postgres(map[string]string{"autovacuum_naptime": "1s"}, bigTable, "CREATE INDEX refreshed ON hot (v)")
	s.request = func(ctx context.Context, b *bench, i int) error {
		from := 1 + i*7919%(rows/refreshed)*refreshed
		if _, err := b.db.ExecContext(ctx, "UPDATE hot SET v = $1 WHERE id BETWEEN $2 AND $3", i, from, from+refreshed-1); err != nil {
			return err
		}
		var oldest int
		return b.db.QueryRowContext(ctx, "SELECT min(v) FROM hot").Scan(&oldest)
	}
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{
		pgIdle(5*time.Second, []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM big"}, "COMMIT")}
	s.nativeTitle = "statement_timeout 1 s, idle_in_transaction_session_timeout 1 s"
	s.native = func(ctx context.Context, b *bench, on bool) error {
		return pgSettings(ctx, b, on, "statement_timeout", "1s", "idle_in_transaction_session_timeout", "1s")
	}
	s.mend = pgMend("VACUUM hot")
	return s
}
