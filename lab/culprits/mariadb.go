package culprits

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/harness/servers"
)

// mariadb starts a MariaDB with the tables that the scenes share.
func mariadb(c servers.MariaDBConfig, further ...string) func(ctx context.Context) (*bench, error) {
	return func(ctx context.Context) (*bench, error) {
		if c.Settings == nil {
			c.Settings = map[string]string{}
		}
		c.Settings["performance-schema-instrument"] = "wait/lock/metadata/sql/mdl=ON"
		s, err := servers.MariaDB(ctx, c)
		if err != nil {
			return nil, err
		}
		return myBench(ctx, s, "mariadb", c.ExtraPort, append([]string{
			fmt.Sprintf("CREATE TABLE hot (id INT PRIMARY KEY, v INT NOT NULL, pad CHAR(100)) ENGINE=InnoDB SELECT seq AS id, 0 AS v, REPEAT('x', 100) AS pad FROM seq_1_to_%d", rows),
			fmt.Sprintf("CREATE TABLE big (id INT PRIMARY KEY, v INT NOT NULL, pad CHAR(100)) ENGINE=InnoDB SELECT seq AS id, 0 AS v, REPEAT('x', 100) AS pad FROM seq_1_to_%d", 10*rows)},
			further...))
	}
}

// myBench makes the bench of a server and its database d by the statements of its
// administrator, who comes in by the extra port if there is one.
func myBench(ctx context.Context, s *servers.Server, scheme string, extra bool, statements []string) (*bench, error) {
	b := &bench{url: s.MySQLURL(scheme), root: s.MySQLDSN("d", extra), programs: s.Programs, used: s.CPU}
	b.sysbench = []string{"--db-driver=mysql", "--mysql-host=" + s.Host, fmt.Sprintf("--mysql-port=%d", s.Port), "--mysql-user=root", "--mysql-db=d"}
	b.stop = s.Stop
	var err error
	if b.db, err = sql.Open("mysql", s.MySQLDSN("d", false)); err != nil {
		b.stop()
		return nil, err
	}
	b.db.SetMaxOpenConns(poolSize)
	b.db.SetMaxIdleConns(poolSize)
	b.stop = func() {
		b.db.Close()
		s.Stop()
	}
	b.open = func(ctx context.Context) (*sql.Conn, error) { return lone(ctx, "mysql", s.MySQLDSN("d", false)) }
	root, err := lone(ctx, "mysql", s.MySQLDSN("mysql", extra))
	if err == nil {
		err = exec(ctx, root, append([]string{"CREATE DATABASE d", "USE d"}, statements...)...)
		root.Close()
	}
	if err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

// myUpdate is a request: an update and a read by key.
func myUpdate(ctx context.Context, b *bench, i int) error {
	if _, err := b.db.ExecContext(ctx, "UPDATE hot SET v = v + 1 WHERE id = ?", 1+i*7919%rows); err != nil {
		return err
	}
	return myRead(ctx, b, i)
}

// myRead is a request that reads by key.
func myRead(ctx context.Context, b *bench, i int) error {
	var v int
	return b.db.QueryRowContext(ctx, "SELECT v FROM hot WHERE id = ?", 1+i*104729%rows).Scan(&v)
}

// myCulprit runs statements in a session of its own after a while. blame says that it is
// the one to cancel; another one only helps to cause the trouble.
func myCulprit(after time.Duration, blame bool, statements func(size float64) []string) func(context.Context, *bench, float64, func(int64)) error {
	return func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(after):
		}
		c, id, err := mySession(ctx, b)
		if err != nil {
			return err
		}
		defer c.Close()
		if blame {
			mark(id)
		}
		err = exec(ctx, c, statements(size)...)
		var ended *mysql.MySQLError
		if errors.As(err, &ended) && ended.Number == statementTimedOut { // a culprit's own limit is its length
			return nil
		}
		return err
	}
}

// mySession opens a session of its own and returns its number.
func mySession(ctx context.Context, b *bench) (c *sql.Conn, id int64, err error) {
	if c, err = b.open(ctx); err != nil {
		return nil, 0, err
	}
	if err = c.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		c.Close()
		return nil, 0, err
	}
	return c, id, nil
}

// statementTimedOut is MariaDB's number for the end of max_statement_time.
const statementTimedOut = 1969

// mySettings sets global variables, name, value and default in turn, and makes the pool
// connect anew.
func mySettings(ctx context.Context, b *bench, on bool, settings ...string) error {
	c, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := 0; i+2 < len(settings); i += 3 {
		value := settings[i+2]
		if on {
			value = settings[i+1]
		}
		if err := exec(ctx, c, fmt.Sprintf("SET GLOBAL %s = %s", settings[i], value)); err != nil {
			return err
		}
	}
	b.db.SetMaxIdleConns(-1) // closes them
	b.db.SetMaxIdleConns(poolSize)
	return nil
}

// mariadbScenes are c1 to c5, c1 on MySQL, and others than those of the paper.
func mariadbScenes() []scene {
	return append([]scene{c1(), c1MySQL(), c2(), c3(), c4(), c5(), behindAlter(), idleHolder(), namedLock()}, append(mariadbOthers(), mariadbMore()...)...)
}

// c2: a few heavy joins take all threads of the pool.
func c2() scene {
	joins := make([]func(context.Context, *bench, float64, func(int64)) error, 8)
	for i := range joins {
		joins[i] = myCulprit(time.Duration(i)*5*ms, true, func(size float64) []string {
			return []string{fmt.Sprintf("SET SESSION max_statement_time = %.2f", 4*size), "SELECT COUNT(*) FROM big a JOIN big b ON a.v + b.v = b.pad"}
		})
	}
	return scene{
		name: "c2", title: "MariaDB, thread pool: heavy joins take all threads",
		about: "Requests read rows by key. The pool has two groups and at most six threads; eight joins without an index take them all. " +
			"Nobody can connect then: the guard holds connections to the extra port.",
		objective: 100 * ms, rate: 300, lasts: 4 * time.Second,
		start:       mariadb(servers.MariaDBConfig{ExtraPort: true, Settings: map[string]string{"thread-handling": "pool-of-threads", "thread-pool-size": "2", "thread-pool-max-threads": "6"}}),
		request:     myRead,
		statements:  byKey[1:],
		culprits:    joins,
		nativeTitle: "max_statement_time 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return mySettings(ctx, b, on, "max_statement_time", "1", "0")
		},
		mend: mySettled,
	}
}

// c1: a backup's FLUSH TABLES WITH READ LOCK waits for a long UPDATE of another table, and
// every writer waits behind it.
func c1() scene {
	long := func(size float64) []string {
		// Each row of big takes a little, as an update with an expensive expression.
		return []string{fmt.Sprintf("UPDATE big SET v = v + SLEEP(0.01) WHERE id <= %d", int(450*size))}
	}
	return scene{
		name: "c1", title: "MariaDB, backup lock: FLUSH TABLES WITH READ LOCK behind a long UPDATE",
		about: "Requests update and read rows by key. Half a second after a long UPDATE of another table has begun, a backup asks for " +
			"FLUSH TABLES WITH READ LOCK: it waits for the UPDATE, and all writers wait for it. Cancelling the FLUSH loses nothing; cancelling the UPDATE pays for its rollback. " +
			"Backups are barred unless listed: the guard is told that they may be cancelled.",
		objective: 100 * ms, rate: 300, lasts: 4 * time.Second,
		start:   mariadb(servers.MariaDBConfig{}),
		request: myUpdate, statements: byKey,
		culprits: []func(context.Context, *bench, float64, func(int64)) error{
			myCulprit(0, false, long),
			myCulprit(500*ms, true, func(float64) []string { return []string{"FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"} }),
		},
		nativeTitle: "lock_wait_timeout 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return mySettings(ctx, b, on, "lock_wait_timeout", "1", "86400")
		},
		rules: guard.Rules{Allow: []guard.Rule{{Kind: "backup"}}},
	}
}

// c4: a transaction locks all rows of a table for a report.
func c4() scene {
	return scene{
		name: "c4", title: "MariaDB, row locks: SELECT … FOR UPDATE of a whole table",
		about: "Requests update and read rows by key. A transaction reads all rows FOR UPDATE, works on them for seconds and commits. " +
			"KILL QUERY ends the statement and leaves the locks: only the end of the session frees them.",
		objective: 100 * ms, rate: 300, lasts: 4 * time.Second,
		start:   mariadb(servers.MariaDBConfig{}),
		request: myUpdate, statements: byKey,
		culprits: []func(context.Context, *bench, float64, func(int64)) error{myCulprit(0, true, func(size float64) []string {
			return []string{"BEGIN", "SELECT SUM(v) FROM hot FOR UPDATE", fmt.Sprintf("SELECT SLEEP(%.2f)", 4*size), "COMMIT"}
		})},
		nativeTitle: "innodb_lock_wait_timeout 1 s, idle_transaction_timeout 1 s, max_statement_time 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return mySettings(ctx, b, on, "innodb_lock_wait_timeout", "1", "50", "idle_transaction_timeout", "1", "0", "max_statement_time", "1", "0")
		},
	}
}
