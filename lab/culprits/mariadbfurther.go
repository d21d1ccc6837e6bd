package culprits

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/harness/servers"
)

// behindAlter: a harmless long SELECT, a change of its table that waits for it, and all
// requests behind that.
func behindAlter() scene {
	long := func(size float64) []string {
		return []string{fmt.Sprintf("SELECT SUM(v + SLEEP(0.01)) FROM hot WHERE id <= %d", int(450*size))}
	}
	return scene{
		name: "mariadb-alter", title: "MariaDB, table lock: ALTER TABLE behind a long SELECT",
		about: "Requests update and read rows by key. Half a second after a long SELECT of their table has begun, an ALTER TABLE asks for the table: it waits for the SELECT, and all requests wait for it. " +
			"Changes of tables are barred, so the SELECT is the one to end.",
		objective: 100 * ms, rate: 300, lasts: 4 * time.Second,
		start:   mariadb(servers.MariaDBConfig{}),
		request: myUpdate,
		culprits: []func(context.Context, *bench, float64, func(int64)) error{
			myCulprit(0, true, long),
			myCulprit(500*ms, false, func(float64) []string { return []string{"ALTER TABLE hot COMMENT = 'changed'"} }),
		},
		nativeTitle: "lock_wait_timeout 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return mySettings(ctx, b, on, "lock_wait_timeout", "1", "86400")
		},
	}
}

// idleHolder: a transaction has locked rows, and its client does nothing.
func idleHolder() scene {
	return scene{
		name: "mariadb-idle", title: "MariaDB, row locks: SELECT … FOR UPDATE, and then nothing",
		about: "Requests update and read rows by key. A transaction reads all rows FOR UPDATE, and its client does not come back for seconds. " +
			"No statement runs that could be ended: only the end of the session helps.",
		objective: 100 * ms, rate: 300, lasts: 4 * time.Second,
		start:   mariadb(servers.MariaDBConfig{}),
		request: myUpdate,
		culprits: []func(context.Context, *bench, float64, func(int64)) error{
			myIdle([]string{"BEGIN", "SELECT SUM(v) FROM hot FOR UPDATE"}, 4*time.Second)},
		nativeTitle: "innodb_lock_wait_timeout 1 s, idle_transaction_timeout 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return mySettings(ctx, b, on, "innodb_lock_wait_timeout", "1", "50", "idle_transaction_timeout", "1", "0")
		},
	}
}

// namedLock: a job holds the lock by which an application orders its work.
func namedLock() scene {
	return scene{
		name: "mariadb-named", title: "MariaDB, named lock: a job keeps GET_LOCK",
		about:     "Requests take a named lock, update a row and release it. A job takes the same lock and does nothing for seconds, in no statement and no transaction.",
		objective: 100 * ms, rate: 300, lasts: 4 * time.Second,
		start: mariadb(servers.MariaDBConfig{}),
		request: func(ctx context.Context, b *bench, i int) error {
			c, err := b.db.Conn(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return exec(ctx, c, "SELECT GET_LOCK('orders', 60)", fmt.Sprintf("UPDATE hot SET v = v + 1 WHERE id = %d", 1+i*7919%rows), "SELECT RELEASE_LOCK('orders')")
		},
		culprits: []func(context.Context, *bench, float64, func(int64)) error{
			myIdle([]string{"SELECT GET_LOCK('orders', 60)"}, 4*time.Second)},
		nativeTitle: "wait_timeout 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return mySettings(ctx, b, on, "wait_timeout", "1", "28800")
		},
	}
}

// myIdle runs statements in a session of its own, to blame for what comes of it, and does
// nothing for a time.
func myIdle(statements []string, lasts time.Duration) func(context.Context, *bench, float64, func(int64)) error {
	return func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
		c, id, err := mySession(ctx, b)
		if err != nil {
			return err
		}
		defer c.Close()
		mark(id)
		if err := exec(ctx, c, statements...); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(float64(lasts) * size)):
		}
		return nil
	}
}
