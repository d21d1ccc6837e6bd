package culprits

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// postgresMore are culprits of other kinds again: maintenance of the requests' own table, work that is
// slow row by row, sessions whose clients are slow, and one that no session can be ended for.
func postgresMore() []scene {
	return []scene{pgVacuumFull(), pgReindex(), pgRefresh(), pgTrigger(), pgBatch(), pgSlowClient(), pgCascade(), pgUpsert(), pgPrepared(), pgSpill()}
}

// dearIndex is an index of the requests' table that takes seconds to build and costs them little: its
// expression is slow, and requests change no column of it.
var dearIndex = []string{
	"CREATE FUNCTION dear(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN IF $1 <= 10000 THEN PERFORM pg_sleep(0.0002); END IF; RETURN $1; END $$",
	"ALTER TABLE hot SET (fillfactor = 50)", "CREATE INDEX dear ON hot (dear(id)) WHERE id <= 10000"}

func pgVacuumFull() scene {
	s := aScene("pg-vacuum-full", "PostgreSQL, VACUUM FULL of the requests' table",
		"VACUUM FULL rewrites the table of the requests and builds its indexes anew, for seconds, and keeps everybody out."+schemaAllowed)
	s.start = postgres(nil, dearIndex...)
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgCulprit(func(float64) []string { return []string{"VACUUM FULL hot"} })}
	s.rules = allowSchema
	return s
}

func pgReindex() scene {
	s := aScene("pg-reindex", "PostgreSQL, REINDEX beside requests",
		"REINDEX builds an index of the requests' table anew, for seconds: writers wait."+schemaAllowed)
	s.start = postgres(nil, dearIndex...)
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgCulprit(func(float64) []string { return []string{"REINDEX INDEX dear"} })}
	s.rules = allowSchema
	return s
}

func pgRefresh() scene {
	s := aScene("pg-refresh", "PostgreSQL, REFRESH MATERIALIZED VIEW beside readers",
		"Requests read a materialized view by key. REFRESH computes it anew for seconds, and keeps readers out."+schemaAllowed)
	s.start = postgres(nil, "CREATE FUNCTION slowly(int) RETURNS int VOLATILE LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(current_setting('a.sleep', true)::float8); RETURN $1; END $$",
		"SET a.sleep = 0", "CREATE MATERIALIZED VIEW sums AS SELECT id, slowly(v) AS v FROM hot WHERE id <= 1000", "CREATE INDEX sums_id ON sums (id)")
	s.request = func(ctx context.Context, b *bench, i int) error {
		var v int
		return b.db.QueryRowContext(ctx, "SELECT v FROM sums WHERE id = $1", 1+i%1000).Scan(&v)
	}
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgCulprit(func(size float64) []string {
		return []string{fmt.Sprintf("SET a.sleep = %.5f", 0.004*size), "REFRESH MATERIALIZED VIEW sums"}
	})}
	s.rules = allowSchema
	return s
}

func pgTrigger() scene {
	s := aScene("pg-trigger", "PostgreSQL, a trigger that sleeps in a statement of many rows",
		"One request in ten updates one of ten rows. An import updates these and others in one statement, whose trigger takes milliseconds for each row.")
	s.start = postgres(nil, "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END $$",
		"CREATE TRIGGER slow BEFORE UPDATE ON hot FOR EACH ROW WHEN (NEW.v = -1) EXECUTE FUNCTION slow()")
	s.request = someRows
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgCulprit(func(size float64) []string {
		return []string{fmt.Sprintf("UPDATE hot SET v = -1 WHERE id <= %d", int(400*size))}
	})}
	s.mend = pgMend("UPDATE hot SET v = 0 WHERE v < 0", "VACUUM hot")
	return s
}

// someRows is a request of which one in ten updates one of ten rows.
func someRows(ctx context.Context, b *bench, i int) error {
	if i%10 > 0 {
		return pgUpdate(ctx, b, i)
	}
	_, err := b.db.ExecContext(ctx, "UPDATE hot SET v = v + 1 WHERE id = $1", 1+i/10%10)
	return err
}

func pgBatch() scene {
	s := aScene("pg-batch", "PostgreSQL, a transaction of many short statements",
		"One request in ten updates one of ten rows. A batch updates all ten at first and goes on with short statements about other tables, in one transaction of seconds: none of them is long.")
	s.request = someRows
	s.start = postgres(nil, "CREATE TABLE batch (id int)")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgSession(0, true, func(ctx context.Context, c *sql.Conn, size float64) error {
		if err := exec(ctx, c, "BEGIN", "UPDATE hot SET v = v + 1 WHERE id <= 10"); err != nil {
			return err
		}
		for began, i := time.Now(), 0; time.Since(began) < time.Duration(size*float64(4*time.Second)); i++ {
			if err := exec(ctx, c, fmt.Sprintf("INSERT INTO batch VALUES (%d)", i), "SELECT pg_sleep(0.01)"); err != nil {
				return err
			}
		}
		return exec(ctx, c, "COMMIT")
	})}
	return s
}

func pgSlowClient() scene {
	s := aScene("pg-slow-client", "PostgreSQL, SELECT … FOR UPDATE whose client reads slowly",
		"A client asks for all rows of the requests' table FOR UPDATE, and reads the answer a few rows a second: the statement runs, and waits for its client alone.")
	s.start = postgres(nil, "CREATE TABLE wide AS SELECT repeat('x', 20000) AS pad")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgSession(0, true, func(ctx context.Context, c *sql.Conn, size float64) error {
		if err := exec(ctx, c, "BEGIN"); err != nil {
			return err
		}
		rows, err := c.QueryContext(ctx, "SELECT hot.id, wide.pad FROM wide, hot FOR UPDATE OF hot")
		if err != nil {
			return err
		}
		for began := time.Now(); time.Since(began) < time.Duration(size*float64(4*time.Second)) && rows.Next(); {
			if err := pause(ctx, 10*ms); err != nil {
				break
			}
		}
		return rows.Close()
	})}
	s.mend = pgMend("VACUUM hot")
	return s
}

func pgCascade() scene {
	s := aScene("pg-cascade", "PostgreSQL, DELETE that cascades without an index",
		"Requests insert rows that refer to one of ten rows. A clean-up deletes these ten; for each of them the server looks through all rows that may refer to it, slowly.")
	s.start = postgres(nil, "CREATE TABLE parent (id int PRIMARY KEY)", "INSERT INTO parent SELECT i FROM generate_series(0, 9) i",
		"CREATE TABLE child (id bigint, parent int REFERENCES parent (id) ON DELETE CASCADE)",
		"CREATE TABLE grandchild (id int PRIMARY KEY, parent int REFERENCES parent (id) ON DELETE CASCADE)",
		"INSERT INTO grandchild SELECT i, i % 10 FROM generate_series(1, 400) i",
		"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.01); RETURN OLD; END $$",
		"CREATE TRIGGER slow BEFORE DELETE ON grandchild FOR EACH ROW EXECUTE FUNCTION slow()")
	s.request = func(ctx context.Context, b *bench, i int) error {
		_, err := b.db.ExecContext(ctx, "INSERT INTO child VALUES ($1, $2)", i, i%10)
		return err
	}
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgCulprit(func(float64) []string {
		return []string{"BEGIN", "DELETE FROM parent", "ROLLBACK"}
	})}
	return s
}

// pgPeriod is the first key of the present period, a twentieth of a second: the periods are as new as the clock, so no
// row of an earlier run is in the way.
const pgPeriod = "floor(extract(epoch FROM clock_timestamp()) * 20)::bigint * 10"

func pgUpsert() scene {
	s := aScene("pg-upsert", "PostgreSQL, INSERT … ON CONFLICT of keys that an import has inserted and not committed",
		"Requests count in one of ten rows of the present period, which the first of them inserts. An import has inserted the rows of the periods to come in a transaction that goes on computing: who meets such a key waits to learn whether it will be there.")
	s.start = postgres(nil, "CREATE TABLE counter (id bigint PRIMARY KEY, v int)")
	s.request = func(ctx context.Context, b *bench, i int) error {
		_, err := b.db.ExecContext(ctx, "INSERT INTO counter SELECT "+pgPeriod+" + $1, 1 ON CONFLICT (id) DO UPDATE SET v = counter.v + 1", i%10)
		return err
	}
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgCulprit(func(size float64) []string {
		return []string{"BEGIN", fmt.Sprintf("INSERT INTO counter SELECT "+pgPeriod+" + i, 0 FROM generate_series(10, %d) i ON CONFLICT DO NOTHING", int(4*size+1)*20*10),
			fmt.Sprintf("SELECT count(*), pg_sleep(%.2f) FROM counter WHERE v > 1", 4*size), "ROLLBACK"}
	})}
	return s
}

// pgPrepared is about a holder that is no session: nothing can be cancelled, and nothing else must be.
func pgPrepared() scene {
	s := aScene("pg-prepared", "PostgreSQL, a prepared transaction that was left over",
		"A transaction has locked the table, was prepared and forgotten. No session holds it, so there is none to end: ROLLBACK PREPARED is for its owner. Nobody else is to blame.")
	s.nobody = true
	s.start = postgres(map[string]string{"max_prepared_transactions": "4"})
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{pgSession(0, false, func(ctx context.Context, c *sql.Conn, size float64) error {
		if err := exec(ctx, c, "BEGIN", "LOCK TABLE hot IN EXCLUSIVE MODE", "PREPARE TRANSACTION 'left'"); err != nil {
			return err
		}
		_ = pause(ctx, time.Duration(size*float64(4*time.Second)))
		return exec(context.WithoutCancel(ctx), c, "ROLLBACK PREPARED 'left'")
	})}
	return s
}

func pgSpill() scene {
	s := aScene("pg-spill", "PostgreSQL, storage: sorts that spill",
		"Four reports sort a table that does not fit into their memory, again and again, beside requests that wait for the log.")
	s.objective, s.rate, s.load, s.parts, s.lasts = 0, 0, 0.6, 2, 5*time.Second
	s.start = postgres(map[string]string{"fsync": "on", "max_wal_size": "4GB", "work_mem": "64kB"}, bigTable, "ANALYZE big")
	for range 4 {
		s.culprits = append(s.culprits, pgCulprit(func(size float64) []string {
			return []string{"SET max_parallel_workers_per_gather = 0", fmt.Sprintf("SET statement_timeout = '%dms'", int(5000*size)),
				"SELECT count(*) FROM (SELECT b.* FROM big b, generate_series(1, 20) k ORDER BY b.pad || k, b.id OFFSET 1) x"}
		}))
	}
	return s
}
