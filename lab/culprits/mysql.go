package culprits

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/harness/servers"
)

// mysql8 starts a MySQL 8 with the tables that the scenes share.
func mysql8(ctx context.Context) (*bench, error) {
	s, err := servers.MySQL(ctx, servers.MySQLConfig{Fetch: true})
	if err != nil {
		return nil, err
	}
	table := func(name string, n int) []string {
		return []string{fmt.Sprintf("SET SESSION cte_max_recursion_depth = %d", n+1),
			fmt.Sprintf("CREATE TABLE %s (id INT PRIMARY KEY, v INT NOT NULL, pad CHAR(100)) ENGINE=InnoDB", name),
			fmt.Sprintf("INSERT INTO %s WITH RECURSIVE n AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM n WHERE id < %d) SELECT id, 0, REPEAT('x', 100) FROM n", name, n)}
	}
	return myBench(ctx, s, "mysql", false, append(table("hot", rows), table("big", rows)...))
}

// c1MySQL is c1 where the FLUSH waits for a long SELECT, which no table of locks shows.
func c1MySQL() scene {
	long := func(size float64) []string {
		return []string{fmt.Sprintf("SELECT SUM(v + SLEEP(0.01)) FROM big WHERE id <= %d", int(350*size))}
	}
	return scene{
		name: "c1-mysql", title: "MySQL 8, backup lock: FLUSH TABLES WITH READ LOCK behind a long SELECT",
		about: "Requests update and read rows by key. Half a second after a long SELECT of another table has begun, a backup asks for " +
			"FLUSH TABLES WITH READ LOCK: it has the global lock, which keeps all writers out, and waits until the SELECT closes its table. Killing the FLUSH is no help on MySQL: " +
			"the SELECT is the one to end. Backups are barred.",
		objective: 100 * ms, rate: 300, lasts: 3 * time.Second,
		start:   mysql8,
		request: myUpdate,
		culprits: []func(context.Context, *bench, float64, func(int64)) error{
			myCulprit(0, true, long),
			myCulprit(500*ms, false, func(float64) []string { return []string{"FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"} }),
		},
		nativeTitle: "max_execution_time 1 s",
		native: func(ctx context.Context, b *bench, on bool) error {
			return mySettings(ctx, b, on, "max_execution_time", "1000", "0")
		},
	}
}
