package culprits

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/harness/servers"
)

// counters is how many rows the requests of c3 count in.
const counters = 20

// c3: a report reads under an old snapshot, through all versions that were made since.
func c3() scene {
	return scene{
		name: "c3", title: "MariaDB, undo log: a report under an old snapshot beside updates of the same rows",
		about: fmt.Sprintf("Requests count in half of %d rows at once. A report has taken a snapshot and reads these rows again and again: each read passes through all versions made since, "+
			"and keeps the row's page meanwhile. KILL QUERY leaves the snapshot: only the end of the session lets it go.", counters),
		load: 0.5, lasts: 6 * time.Second,
		start: mariadb(servers.MariaDBConfig{}, fmt.Sprintf("DELETE FROM hot WHERE id > %d", counters)),
		request: func(ctx context.Context, b *bench, i int) error {
			from := 1 + i%2*counters/2
			_, err := b.db.ExecContext(ctx, "UPDATE hot SET v = v + 1 WHERE id BETWEEN ? AND ?", from, from+counters/2-1)
			return err
		},
		culprits: []func(context.Context, *bench, float64, func(int64)) error{func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
			return mySnapshot(ctx, b, time.Duration(size*float64(6*time.Second)), mark)
		}},
		nativeTitle: "max_statement_time 1 s, idle_transaction_timeout 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return mySettings(ctx, b, on, "max_statement_time", "1", "0", "idle_transaction_timeout", "1", "0")
		},
		mend: mySettled,
	}
}

// mySnapshot reads under one snapshot for a time, in a session of its own, which is to blame.
func mySnapshot(ctx context.Context, b *bench, length time.Duration, mark func(int64)) error {
	c, id, err := mySession(ctx, b)
	if err != nil {
		return err
	}
	defer c.Close()
	mark(id)
	if err := exec(ctx, c, "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < length; {
		if err := exec(ctx, c, fmt.Sprintf("SELECT SUM(h.v) FROM big b JOIN hot h ON h.id = 1 + b.id %% %d WHERE b.id <= 1000", counters)); err != nil {
			return err
		}
	}
	return exec(ctx, c, "COMMIT")
}

// c5: a dump reads a table that the buffer pool has no room for.
func c5() scene {
	const hot = 90_000 // rows, about 13 of 16 MB
	return scene{
		name: "c5", title: "MariaDB, buffer pool: a dump of a table that is larger than the pool",
		about: "Requests read ten rows by key of a table that just fits into the buffer pool. A dump reads a larger table, again and again: its pages drive out those of the requests. " +
			"Backups are barred unless listed: the guard is told that they may be cancelled.",
		load: 0.7, lasts: 5 * time.Second,
		start: mariadb(servers.MariaDBConfig{Settings: map[string]string{"innodb-buffer-pool-size": "16M", "innodb-flush-method": "O_DIRECT", "innodb-old-blocks-time": "0"}},
			fmt.Sprintf("INSERT INTO hot SELECT seq, 0, REPEAT('x', 100) FROM seq_%d_to_%d", rows+1, hot)),
		request: func(ctx context.Context, b *bench, i int) error {
			keys := ""
			for k := range 10 {
				keys += fmt.Sprintf(",%d", 1+(i*10+k)*7919%hot)
			}
			var sum int
			return b.db.QueryRowContext(ctx, "SELECT SUM(v) FROM hot WHERE id IN ("+keys[1:]+")").Scan(&sum)
		},
		culprits: []func(context.Context, *bench, float64, func(int64)) error{myCulprit(0, true, func(size float64) []string {
			return []string{"SET SESSION join_cache_level = 0", fmt.Sprintf("SET SESSION max_statement_time = %.2f", 5*size),
				"SELECT /*!40001 SQL_NO_CACHE */ SUM(LENGTH(b.pad)) FROM seq_1_to_1000 s STRAIGHT_JOIN big b"}
		})},
		nativeTitle: "max_statement_time 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return mySettings(ctx, b, on, "max_statement_time", "1", "0")
		},
		rules: guard.Rules{Allow: []guard.Rule{{Kind: "backup"}}},
		mend:  mySettled,
	}
}

// settledHistory is how many transactions may be left to purge.
const settledHistory = 2000

// mySettled waits until the server runs nothing of the run before: statements go on when their
// client has left, and old versions are removed later.
func mySettled(ctx context.Context, b *bench) error {
	c, err := lone(ctx, "mysql", b.root)
	if err != nil {
		return err
	}
	defer c.Close()
	for began := time.Now(); time.Since(began) < grace; {
		var busy int
		var name string
		var history int64
		if err := c.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND NOT IN ('Sleep', 'Daemon') AND ID <> CONNECTION_ID()").Scan(&busy); err != nil {
			return err
		}
		err := c.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'").Scan(&name, &history)
		if err != nil && err != sql.ErrNoRows {
			return err
		}
		if busy == 0 && history < settledHistory {
			return nil
		}
		time.Sleep(50 * ms)
	}
	return fmt.Errorf("the server is still busy with the run before after %v", grace)
}
