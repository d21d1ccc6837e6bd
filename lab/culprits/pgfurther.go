package culprits

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// postgresFurther are more culprits that Atropos did not try: those that leave the application no
// connection, and others that hold locks.
func postgresFurther() []scene {
	return []scene{pgPool(), pgForUpdate(), pgParent(), pgChain(), pgTruncate()}
}

const pgProcess = "SELECT pg_backend_pid()"

func pgPool() scene {
	s := aScene("pg-pool", "PostgreSQL, connections: long statements take all of the application's pool",
		"As many requests as the application has connections each run a statement of seconds that harms nobody but by its connection.")
	s.culprits = pooled(pgProcess, func(size float64) string { return fmt.Sprintf("SELECT pg_sleep(%.2f)", 4*size) })
	return s
}

func pgForUpdate() scene {
	s := aScene("pg-for-update", "PostgreSQL, row locks: SELECT … FOR UPDATE of many rows, and then a long computation",
		"A transaction locks all rows of the table and computes over another for seconds.")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgCulprit(func(size float64) []string {
		return []string{"BEGIN", "SELECT count(*) FROM (SELECT id FROM hot FOR UPDATE) l", fmt.Sprintf("SELECT pg_sleep(%.2f)", 4*size), "COMMIT"}
	})}
	s.mend = pgMend("VACUUM hot")
	return s
}

func pgParent() scene {
	s := aScene("pg-parent", "PostgreSQL, foreign keys: an idle transaction has locked the rows that others refer to",
		"Requests insert rows that refer to one of ten rows. A transaction has read all ten FOR UPDATE and goes idle: each insert waits to know whether its reference holds.")
	s.start = postgres(nil, "CREATE TABLE parent (id int PRIMARY KEY, v int UNIQUE)", "INSERT INTO parent SELECT i, i FROM generate_series(0, 9) i", "CREATE TABLE child (id bigint, parent int REFERENCES parent (id))")
	s.request = func(ctx context.Context, b *bench, i int) error {
		_, err := b.db.ExecContext(ctx, "INSERT INTO child VALUES ($1, $2)", i, i%10)
		return err
	}
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgIdle(4*time.Second, []string{"BEGIN", "SELECT id FROM parent FOR UPDATE"}, "ROLLBACK")}
	return s
}

// pgChain is about whom to blame: the one at the root of a chain.
func pgChain() scene {
	s := aScene("pg-chain", "PostgreSQL, a chain: an idle transaction holds a row, another that waits for it holds the table",
		"A transaction updates a row of another table and goes idle. A second one locks the table of the requests and then waits for that row: all wait for the second, which waits for the first.")
	s.start = postgres(nil, "CREATE TABLE other AS SELECT 1 AS id, 0 AS v")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{
		pgIdle(4*time.Second, []string{"BEGIN", "UPDATE other SET v = v + 1"}, "ROLLBACK"),
		pgSession(200*ms, false, func(ctx context.Context, c *sql.Conn, _ float64) error {
			return exec(ctx, c, "BEGIN", "LOCK TABLE hot IN EXCLUSIVE MODE", "UPDATE other SET v = v + 1", "COMMIT")
		})}
	return s
}

func pgTruncate() scene {
	s := aScene("pg-truncate", "PostgreSQL, TRUNCATE behind a forgotten transaction",
		"A transaction has read the table and is forgotten. Half a second later a TRUNCATE of it waits, and all requests behind that. Changes of tables are barred, so the forgotten transaction is the one to end.")
	s.start = postgres(nil, "CREATE TABLE scratch AS SELECT i AS id, 0 AS v FROM generate_series(1, 1000) i")
	s.request = func(ctx context.Context, b *bench, i int) error {
		_, err := b.db.ExecContext(ctx, "INSERT INTO scratch VALUES ($1, 0)", i)
		return err
	}
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{
		pgIdle(4*time.Second, []string{"BEGIN", "SELECT count(*) FROM scratch"}, "COMMIT"),
		pgSession(500*ms, false, func(ctx context.Context, c *sql.Conn, _ float64) error { return exec(ctx, c, "TRUNCATE scratch") })}
	return s
}
