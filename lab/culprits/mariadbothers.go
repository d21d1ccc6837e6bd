package culprits

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/harness/servers"
)

// mariadbOthers are more culprits that Atropos did not try.
func mariadbOthers() []scene {
	return []scene{myPool(), myGap(), myTables(), myTablesRead(), mySource(), myForgotten()}
}

const myProcess = "SELECT CONNECTION_ID()"

// myScene is what most of them have in common: requests that update and read rows by key.
func myScene(name, title, about string) scene {
	return scene{name: name, title: title, about: about, objective: 100 * ms, rate: 300, lasts: 4 * time.Second,
		start: mariadb(servers.MariaDBConfig{}), request: myUpdate, mend: mySettled,
		nativeTitle: "innodb_lock_wait_timeout 1 s, lock_wait_timeout 1 s, idle_transaction_timeout 1 s, max_statement_time 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return mySettings(ctx, b, on, "innodb_lock_wait_timeout", "1", "50", "lock_wait_timeout", "1", "86400", "idle_transaction_timeout", "1", "0", "max_statement_time", "1", "0")
		}}
}

func myPool() scene {
	s := myScene("mariadb-pool", "MariaDB, connections: long statements take all of the application's pool",
		"As many requests as the application has connections each run a statement of seconds that harms nobody but by its connection.")
	s.culprits = pooled(myProcess, func(size float64) string { return fmt.Sprintf("SELECT SLEEP(%.2f)", 4*size) })
	return s
}

func myGap() scene {
	s := myScene("mariadb-gap", "MariaDB, gap locks: a locking read of rows that do not exist",
		"Requests insert rows. A transaction has read the place where they go FOR UPDATE, found nothing, and its client does not come back.")
	s.start = mariadb(servers.MariaDBConfig{}, "CREATE TABLE queue (id BIGINT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB")
	s.request = func(ctx context.Context, b *bench, i int) error {
		_, err := b.db.ExecContext(ctx, "INSERT INTO queue (v) VALUES (?)", i)
		return err
	}
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{
		myIdle([]string{"BEGIN", "SELECT v FROM queue WHERE id > 1000000000 FOR UPDATE"}, 4*time.Second)}
	return s
}

func myTables() scene {
	s := myScene("mariadb-lock-tables", "MariaDB, LOCK TABLES held by a client that does nothing",
		"A client locks the table for writing, and does nothing: it is in no statement and no transaction.")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{myIdle([]string{"LOCK TABLES hot WRITE"}, 4*time.Second)}
	return s
}

func myTablesRead() scene {
	s := myScene("mariadb-read-lock", "MariaDB, LOCK TABLES … READ held by a client that does nothing",
		"A client locks the table for reading, and does nothing: writers wait. The view shows its lock in the mode of a plain read.")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{myIdle([]string{"LOCK TABLES hot READ"}, 4*time.Second)}
	return s
}

func mySource() scene {
	s := myScene("mariadb-copy", "MariaDB, INSERT … SELECT locks the rows that it copies",
		"A statement copies the table of the requests into another, slowly: it keeps a shared lock on every row that it has read.")
	s.start = mariadb(servers.MariaDBConfig{}, "CREATE TABLE copied (id INT, v INT) ENGINE=InnoDB")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{myCulprit(0, true, func(size float64) []string {
		return []string{fmt.Sprintf("INSERT INTO copied SELECT id, v + SLEEP(IF(id %% 50 = 0, 0.01, 0)) FROM hot ORDER BY id LIMIT %d", int(min(20_000*size, rows)))}
	})}
	return s
}

func myForgotten() scene {
	s := myScene("mariadb-forgotten", "MariaDB, metadata lock: ALTER TABLE behind a forgotten transaction",
		"A transaction has read the table and is forgotten. Half a second later an ALTER TABLE waits for it, and all requests behind that. Changes of tables are barred, so the forgotten transaction is the one to end.")
	s.culprits = []func(context.Context, *bench, float64, func(int64)) error{
		myIdle([]string{"BEGIN", "SELECT v FROM hot WHERE id = 1"}, 4*time.Second),
		myCulprit(500*ms, false, func(float64) []string { return []string{"ALTER TABLE hot COMMENT = 'changed'"} })}
	return s
}
