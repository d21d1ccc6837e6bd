package culprits

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of the load

	"github.com/spillgate/spillgate/internal/harness/servers"
)

const ms = time.Millisecond

// rows is how many rows a table of the load has.
const rows = 20_000

// postgres starts a PostgreSQL with the tables that the scenes share: "hot", which
// requests use, and "big", which they do not, filled by further statements.
func postgres(settings map[string]string, further ...string) func(ctx context.Context) (*bench, error) {
	return func(ctx context.Context) (*bench, error) {
		s, err := servers.Postgres(ctx, servers.PostgresConfig{Settings: settings})
		if err != nil {
			return nil, err
		}
		b := &bench{url: s.PostgresURL("postgres"), root: s.PostgresURL("postgres"), programs: s.Programs, used: s.CPU}
		b.sysbench = []string{"--db-driver=pgsql", "--pgsql-host=" + s.Host, fmt.Sprintf("--pgsql-port=%d", s.Port), "--pgsql-user=app", "--pgsql-db=postgres"}
		app := strings.Replace(b.url, "postgres@", "app@", 1)
		b.db, err = sql.Open("pgx", app)
		if err != nil {
			s.Stop()
			return nil, err
		}
		b.db.SetMaxOpenConns(poolSize)
		b.db.SetMaxIdleConns(poolSize)
		b.stop = func() {
			b.db.Close()
			s.Stop()
		}
		b.open = func(ctx context.Context) (*sql.Conn, error) { return lone(ctx, "pgx", app) }
		root, err := lone(ctx, "pgx", b.url)
		if err == nil {
			err = exec(ctx, root, append([]string{
				"CREATE ROLE app LOGIN", "GRANT ALL ON SCHEMA public TO app", "SET ROLE app",
				fmt.Sprintf("CREATE TABLE hot AS SELECT i AS id, 0 AS v, repeat('x', 100) AS pad FROM generate_series(1, %d) i", rows),
				"ALTER TABLE hot ADD PRIMARY KEY (id)"}, further...)...)
			root.Close()
		}
		if err != nil {
			b.stop()
			return nil, err
		}
		return b, nil
	}
}

// poolSize is how many connections an application has.
const poolSize = 24

// lone opens a connection that is in no pool: closing it ends the session.
func lone(ctx context.Context, driver, dsn string) (*sql.Conn, error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(-1)
	db.SetMaxOpenConns(1)
	c, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, err
	}
	context.AfterFunc(ctx, func() { db.Close() })
	return c, nil
}

// byKey is pgUpdate and myUpdate for the closed load.
var byKey = []string{"UPDATE hot SET v = v + 1 WHERE id = %d", "SELECT v FROM hot WHERE id = %d"}

// pgUpdate is a request: an update and a read by key.
func pgUpdate(ctx context.Context, b *bench, i int) error {
	id := 1 + i*7919%rows
	if _, err := b.db.ExecContext(ctx, "UPDATE hot SET v = v + 1 WHERE id = $1", id); err != nil {
		return err
	}
	var v int
	return b.db.QueryRowContext(ctx, "SELECT v FROM hot WHERE id = $1", 1+i*104729%rows).Scan(&v)
}

// pgCulprit runs statements in a session of its own, which is to blame. A cancel ends
// it without an error.
func pgCulprit(statements func(size float64) []string) func(context.Context, *bench, float64, func(int64)) error {
	return pgSession(0, true, func(ctx context.Context, c *sql.Conn, size float64) error { return exec(ctx, c, statements(size)...) })
}

// pgSession does something in a session of its own after a while. blame says that it is
// the one to cancel; another one only helps to cause the trouble.
func pgSession(after time.Duration, blame bool, do func(ctx context.Context, c *sql.Conn, size float64) error) func(context.Context, *bench, float64, func(int64)) error {
	return func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(after):
		}
		c, err := b.open(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		var pid int64
		if err := c.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		if blame {
			mark(pid)
		}
		return do(ctx, c, size)
	}
}

// cancelledByServer reports whether the server ended a statement or its session.
func cancelledByServer(err error) bool {
	var ended *pgconn.PgError
	return errors.As(err, &ended) && (ended.Code == "57014" || ended.Code == "57P01") // query_canceled, admin_shutdown
}

// postgresScenes are c6 to c8 and others.
func postgresScenes() []scene {
	return slices.Concat([]scene{c6(), c7(), c8()}, postgresOthers(), postgresFurther(), postgresMore())
}

// c6: a transaction locks the table against writers and updates all of it.
func c6() scene {
	return scene{
		name: "c6", title: "PostgreSQL, table lock: LOCK TABLE … IN EXCLUSIVE MODE and an UPDATE of all rows",
		about:     "Requests update and read rows by key. A transaction locks the table and updates all rows of it, several times.",
		objective: 100 * ms, rate: 400, lasts: 4 * time.Second,
		start:   postgres(nil),
		request: pgUpdate, statements: byKey,
		culprits: []func(context.Context, *bench, float64, func(int64)) error{pgCulprit(func(size float64) []string {
			return []string{"BEGIN", "LOCK TABLE hot IN EXCLUSIVE MODE",
				fmt.Sprintf("DO $$ DECLARE until timestamptz := clock_timestamp() + interval '%d ms'; BEGIN WHILE clock_timestamp() < until LOOP UPDATE hot SET v = v + 1; END LOOP; END $$", int(4000*size)), "COMMIT"}
		})},
		nativeTitle: "lock_timeout 200 ms, statement_timeout 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return pgSettings(ctx, b, on, "lock_timeout", "200ms", "statement_timeout", "1s")
		},
		mend: pgMend("VACUUM hot"),
	}
}

// bigTable is a table that requests do not use.
const bigTable = "CREATE TABLE big AS SELECT i AS id, 0 AS v, repeat('x', 200) AS pad FROM generate_series(1, 300000) i"

// c7: an update of an unrelated table fills the write-ahead log that every commit needs.
func c7() scene {
	return scene{
		name: "c7", title: "PostgreSQL, write-ahead log: a bulk UPDATE of an unrelated table",
		about: "Requests update and read rows by key, and every commit waits for the log. A bulk update of another table writes it as fast as it can.",
		load:  0.6, parts: 2, lasts: 5 * time.Second,
		start:   postgres(map[string]string{"fsync": "on", "max_wal_size": "4GB", "wal_buffers": "1MB"}, bigTable),
		request: pgUpdate, statements: byKey,
		culprits: []func(context.Context, *bench, float64, func(int64)) error{pgCulprit(func(size float64) []string {
			return []string{fmt.Sprintf("DO $$ DECLARE until timestamptz := clock_timestamp() + interval '%d ms'; BEGIN WHILE clock_timestamp() < until LOOP UPDATE big SET v = v + 1; END LOOP; END $$", int(5000*size))}
		})},
		nativeTitle: "statement_timeout 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return pgSettings(ctx, b, on, "statement_timeout", "1s")
		},
		mend: pgMend("VACUUM hot", "VACUUM big"),
	}
}

// c8: a table is rewritten beside the load.
func c8() scene {
	return scene{
		name: "c8", title: "PostgreSQL, storage: VACUUM FULL of an unrelated table",
		about: "Requests update and read rows by key. VACUUM FULL rewrites another table. Changes of tables are barred unless listed: " +
			"the guard is told that they may be cancelled.",
		load: 0.6, parts: 2, lasts: 5 * time.Second,
		start:   postgres(map[string]string{"fsync": "on", "max_wal_size": "4GB", "shared_buffers": "16MB"}, bigTable),
		request: pgUpdate, statements: byKey,
		culprits: []func(context.Context, *bench, float64, func(int64)) error{pgCulprit(func(size float64) []string {
			var all []string
			for range max(int(6*size), 1) {
				all = append(all, "VACUUM FULL big")
			}
			return all
		})},
		nativeTitle: "statement_timeout 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return pgSettings(ctx, b, on, "statement_timeout", "1s")
		},
		rules: allowSchema,
		mend:  pgMend("VACUUM hot"),
	}
}

// pgMend runs statements and then a checkpoint: what a run has left to write would slow
// down the next one.
func pgMend(statements ...string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		if err := exec(ctx, b.db, statements...); err != nil {
			return err
		}
		root, err := lone(ctx, "pgx", b.root)
		if err != nil {
			return err
		}
		defer root.Close()
		return exec(ctx, root, "CHECKPOINT")
	}
}

// pgSettings gives the application's role settings, name and value in turn, and makes
// its pool connect anew, or takes them back.
func pgSettings(ctx context.Context, b *bench, on bool, settings ...string) error {
	root, err := lone(ctx, "pgx", b.url)
	if err != nil {
		return err
	}
	defer root.Close()
	for i := 0; i+1 < len(settings); i += 2 {
		sql := "ALTER ROLE app RESET " + settings[i]
		if on {
			sql = fmt.Sprintf("ALTER ROLE app SET %s = '%s'", settings[i], settings[i+1])
		}
		if err := exec(ctx, root, sql); err != nil {
			return err
		}
	}
	b.db.SetMaxIdleConns(-1) // closes them
	b.db.SetMaxIdleConns(poolSize)
	return nil
}
