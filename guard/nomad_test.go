package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/harness/servers"
)

// nomad is a culprit of a server that opens a new session for each of its transactions, changes its text, and sleeps in between.
type nomad struct {
	driver, dsn, url string
	process          string   // asks for the number of the session
	locks            []string // take what the others need
	stays            string   // the statement behind that, with %d for its number
}

// again runs one transaction, until its session or its transaction is ended.
func (n *nomad) again(ctx context.Context, number int, mark func(process int64)) error {
	db, err := sql.Open(n.driver, n.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var process int64
	if err := c.QueryRowContext(ctx, n.process).Scan(&process); err != nil {
		return err
	}
	mark(process)
	for _, text := range n.locks {
		if _, err := c.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	for i := 0; err == nil; i++ { // where a cancel ends the statement alone, it goes on with another
		_, err = c.ExecContext(ctx, fmt.Sprintf(n.stays, 100*number+i))
	}
	return nil
}

// Whoever blocks the others is found each time, however it hides, and nobody else is cancelled.
func TestNomads(t *testing.T) {
	const times = 3
	for name, start := range map[string]func(t *testing.T) nomad{"PostgreSQL": postgresNomad, "MariaDB": mariadbNomad} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			db, err := sql.Open(n.driver, n.dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			working, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer all.Wait()
			defer stop()
			for i := range 6 {
				all.Go(func() {
					for working.Err() == nil {
						_, err := db.ExecContext(context.WithoutCancel(working), fmt.Sprintf("UPDATE t SET v = v + 1 WHERE id = %d", i+1))
						if err != nil {
							t.Errorf("a victim failed: %v", err)
							return
						}
						time.Sleep(5 * time.Millisecond)
					}
				})
			}
			w := watch(t, Config{URL: n.url, Objective: 200 * time.Millisecond, Mode: culprit.Enforce})
			w.eventually(t, "normal times", func(s Status) bool { return s.Connected && s.Baseline > 0 })
			var blamed []int64
			for i := range times {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // which only ends a hang
				if err := n.again(ctx, i, func(process int64) { blamed = append(blamed, process) }); err != nil {
					t.Error(err)
				}
				if errors.Is(ctx.Err(), context.DeadlineExceeded) {
					t.Fatalf("transaction %d of the nomad was not ended; the log:\n%s", i+1, w.log.String())
				}
				cancel()
				time.Sleep(50 * time.Millisecond)
			}
			for _, c := range w.Status().Cancels {
				if !slices.Contains(blamed, c.Process) {
					t.Errorf("session %d was cancelled, which is not of the nomad %v: %+v", c.Process, blamed, c)
				}
			}
		})
	}
}

func postgresNomad(t *testing.T) nomad {
	s, err := servers.Postgres(t.Context(), servers.PostgresConfig{})
	servers.SkipMissing(t, err)
	t.Cleanup(s.Stop)
	url := s.PostgresURL("postgres")
	setUp(t, "pgx", url, "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i")
	return nomad{driver: "pgx", dsn: url, url: url, process: "SELECT pg_backend_pid()",
		locks: []string{"BEGIN", "LOCK TABLE t IN EXCLUSIVE MODE"}, stays: "SELECT pg_sleep(600) AS step_%d"}
}

func mariadbNomad(t *testing.T) nomad {
	s, err := servers.MariaDB(t.Context(), servers.MariaDBConfig{})
	servers.SkipMissing(t, err)
	t.Cleanup(s.Stop)
	setUp(t, "mysql", s.MySQLDSN("mysql", false), "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB", "INSERT INTO d.t SELECT seq, 0 FROM seq_1_to_100")
	return nomad{driver: "mysql", dsn: s.MySQLDSN("d", false), url: s.MySQLURL("mariadb"), process: "SELECT CONNECTION_ID()",
		locks: []string{"BEGIN", "UPDATE t SET v = v + 1"}, stays: "SELECT SLEEP(600) AS step_%d"}
}

// setUp runs statements.
func setUp(t *testing.T, driver, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, text := range statements {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}
