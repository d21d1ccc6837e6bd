package culprits

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/harness/servers"
)

// mariadbMore are culprits of other kinds again, two of them on MySQL 8: maintenance of the requests' own
// table, locks that nothing in a lock table's name tells of, sessions whose clients are slow, and one that no
// session can be ended for.
func mariadbMore() []scene {
	return []scene{myCopyAlter(), myReadLock(), myAutoIncrement(), myDelete(), myBatch(), mySlowClient(), myXA(), myProcessors(), my8ForUpdate(), my8Alter()}
}

func myCopyAlter() scene {
	s := myScene("mariadb-rebuild", "MariaDB, ALTER TABLE that copies the requests' table",
		"ALTER TABLE copies the table of the requests, for seconds, and keeps writers out."+schemaAllowed)
	s.start = mariadb(servers.MariaDBConfig{}, "INSERT INTO hot SELECT seq, 0, REPEAT('x', 100) FROM seq_20001_to_400000")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{myCulprit(0, true, func(float64) []string {
		return []string{"ALTER TABLE hot FORCE, ALGORITHM=COPY"}
	})}
	s.rules = allowSchema
	return s
}

func myReadLock() scene {
	s := myScene("mariadb-flush-held", "MariaDB, FLUSH TABLES WITH READ LOCK held by a client that does nothing",
		"A backup has the global read lock, and its client does nothing. Backups are barred unless listed: the guard is told that they may be cancelled.")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{myIdle([]string{"FLUSH TABLES WITH READ LOCK"}, 4*time.Second)}
	s.rules = guard.Rules{Allow: []guard.Rule{{Kind: "backup"}}}
	return s
}

func myAutoIncrement() scene {
	s := myScene("mariadb-autoinc", "MariaDB, the lock of AUTO_INCREMENT: a slow INSERT … SELECT",
		"Requests insert rows. An INSERT … SELECT inserts into the same table, slowly: it keeps the table's lock for new numbers until it ends.")
	s.start = mariadb(servers.MariaDBConfig{}, "CREATE TABLE queue (id BIGINT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB")
	s.request = func(ctx context.Context, b *bench, i int) error {
		_, err := b.db.ExecContext(ctx, "INSERT INTO queue (v) VALUES (?)", i)
		return err
	}
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{myCulprit(0, true, func(size float64) []string {
		return []string{fmt.Sprintf("INSERT INTO queue (v) SELECT seq + SLEEP(0.01) FROM seq_1_to_%d", int(400*size))}
	})}
	return s
}

func myDelete() scene {
	s := myScene("mariadb-delete", "MariaDB, DELETE without an index",
		"A DELETE looks for a few rows of the requests' table by a column without an index, and locks every row that it has read.")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{myCulprit(0, true, func(size float64) []string {
		return []string{fmt.Sprintf("DELETE FROM hot WHERE pad = 'none' OR id <= %d AND SLEEP(0.001)", int(3500*size))}
	})}
	return s
}

func myBatch() scene {
	s := myScene("mariadb-batch", "MariaDB, a transaction of many short statements",
		"A batch updates the rows that a tenth of the requests use and goes on with short statements about other rows, in one transaction of seconds: none of them is long.")
	s.start = mariadb(servers.MariaDBConfig{}, "CREATE TABLE batch (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
		c, id, err := mySession(ctx, b)
		if err != nil {
			return err
		}
		defer c.Close()
		mark(id)
		if err := exec(ctx, c, "BEGIN", "UPDATE hot SET v = v + 1 WHERE id <= 2000"); err != nil {
			return err
		}
		for began := time.Now(); time.Since(began) < time.Duration(size*float64(4*time.Second)); {
			if err := exec(ctx, c, "INSERT INTO batch (v) VALUES (SLEEP(0.01))"); err != nil {
				return err
			}
		}
		return exec(ctx, c, "COMMIT")
	}}
	return s
}

func mySlowClient() scene {
	s := myScene("mariadb-slow-client", "MariaDB, SELECT … FOR UPDATE whose client reads slowly",
		"A client asks for all rows of the requests' table FOR UPDATE, with much beside them, and reads a few rows a second: the statement runs, and waits for its client alone.")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
		c, id, err := mySession(ctx, b)
		if err != nil {
			return err
		}
		defer c.Close()
		mark(id)
		if err := exec(ctx, c, "BEGIN", "UPDATE hot SET v = v + 1 WHERE id <= 2000"); err != nil {
			return err
		}
		rows, err := c.QueryContext(ctx, "SELECT id, REPEAT('x', 20000) FROM hot FOR UPDATE")
		if err != nil {
			return err
		}
		return slowly(ctx, rows, time.Duration(size*float64(4*time.Second)))
	}}
	return s
}

// slowly reads a row each hundredth of a second, for a time.
func slowly(ctx context.Context, rows *sql.Rows, lasts time.Duration) error {
	for began := time.Now(); time.Since(began) < lasts && rows.Next(); {
		if pause(ctx, 10*ms) != nil {
			break
		}
	}
	return rows.Close()
}

// myXA is about a holder that is no session: nothing can be cancelled, and nothing else must be.
func myXA() scene {
	s := myScene("mariadb-xa", "MariaDB, a prepared XA transaction that was left over",
		"A transaction has locked all rows, was prepared, and its client is gone. No session holds it, so there is none to end: XA ROLLBACK is for its owner. Nobody else is to blame.")
	s.nobody = true
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{func(ctx context.Context, b *bench, size float64, _ func(int64)) error {
		c, _, err := mySession(ctx, b)
		if err != nil {
			return err
		}
		if err := exec(ctx, c, "XA START 'left'", "UPDATE hot SET v = v + 1", "XA END 'left'", "XA PREPARE 'left'"); err != nil {
			return err
		}
		c.Close()
		_ = pause(ctx, time.Duration(size*float64(4*time.Second)))
		end, err := lone(context.WithoutCancel(ctx), "mysql", b.root)
		if err != nil {
			return err
		}
		defer end.Close()
		return exec(context.WithoutCancel(ctx), end, "XA ROLLBACK 'left'")
	}}
	return s
}

func myProcessors() scene {
	s := myScene("mariadb-processors", "MariaDB, processors: joins beside the load",
		"Four reports join tables without an index, on all processors, beside requests that read by key.")
	s.objective, s.rate, s.load, s.lasts = 0, 0, 0.6, 5*time.Second
	s.request = myRead
	for range 4 {
		s.culprits = append(s.culprits, myCulprit(0, true, func(size float64) []string {
			return []string{fmt.Sprintf("SET SESSION max_statement_time = %.2f", 5*size), "SELECT COUNT(*) FROM big a JOIN big b ON a.v + b.v = b.pad"}
		}))
	}
	return s
}

func my8Settings(s scene) scene {
	s.start = mysql8
	s.mend = nil
	s.nativeTitle = "innodb_lock_wait_timeout 1 s, lock_wait_timeout 1 s"
	s.native = func(ctx context.Context, b *bench, on bool) error {
		return mySettings(ctx, b, on, "innodb_lock_wait_timeout", "1", "50", "lock_wait_timeout", "1", "31536000")
	}
	return s
}

func my8ForUpdate() scene {
	s := my8Settings(myScene("mysql-for-update", "MySQL 8, row locks: SELECT … FOR UPDATE of a whole table",
		"A transaction reads all rows FOR UPDATE and works on them for seconds."))
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{myCulprit(0, true, func(size float64) []string {
		return []string{"BEGIN", "SELECT SUM(v) FROM hot FOR UPDATE", fmt.Sprintf("SELECT SLEEP(%.2f)", 4*size), "COMMIT"}
	})}
	return s
}

func my8Alter() scene {
	s := my8Settings(myScene("mysql-alter", "MySQL 8, metadata lock: ALTER TABLE behind a forgotten transaction",
		"A transaction has read the table and is forgotten. Half a second later an ALTER TABLE waits for it, and all requests behind that. Changes of tables are barred, so the forgotten transaction is the one to end."))
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{
		myIdle([]string{"BEGIN", "SELECT v FROM hot WHERE id = 1"}, 4*time.Second),
		myCulprit(500*ms, false, func(float64) []string { return []string{"ALTER TABLE hot COMMENT = 'changed'"} })}
	return s
}
