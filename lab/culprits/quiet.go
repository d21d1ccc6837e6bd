package culprits

import (
	"cmp"
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// quietLength is how long the full form guards each server without a culprit.
const quietLength = 10 * time.Minute

// chore is something that goes on in a healthy server beside the load.
type chore struct {
	name string
	do   func(ctx context.Context, b *bench) error
}

// quietServer is a server with a load, and what goes on beside it. Nothing of it is a
// culprit.
type quietServer struct {
	scene  scene
	chores []chore
	// guarded starts what may cancel. Default: a guard beside the server.
	guarded runner
}

func quietServers() []quietServer {
	run := func(statements ...string) func(context.Context, *bench) error {
		return func(ctx context.Context, b *bench) error {
			c, err := b.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return exec(ctx, c, statements...)
		}
	}
	asRoot := func(driver string, statements ...string) func(context.Context, *bench) error {
		return func(ctx context.Context, b *bench) error {
			c, err := lone(ctx, driver, b.root)
			if err != nil {
				return err
			}
			defer c.Close()
			return exec(ctx, c, statements...)
		}
	}
	pg := c6()
	pg.name, pg.start, pg.culprits = "PostgreSQL", postgres(map[string]string{"autovacuum_naptime": "1s", "max_wal_size": "64MB"}, bigTable), nil
	my := c4()
	my.name, my.culprits = "MariaDB", nil
	return []quietServer{
		{scene: pg, chores: []chore{
			{"checkpoint", asRoot("pgx", "CHECKPOINT")}, {"ANALYZE", run("ANALYZE hot")}, {"VACUUM", run("VACUUM hot")},
			{"pg_dump", dump("pg_dump", func(b *bench) []string { return []string{"--dbname", b.url, "--table", "big", "--file", os.DevNull} })},
			{"report", run("SELECT sum(v), count(DISTINCT pad) FROM big")}, {"index", run("CREATE INDEX CONCURRENTLY quiet ON big (v)", "DROP INDEX quiet")},
			{"idle transaction", run("BEGIN", "SELECT count(*) FROM hot", "SELECT pg_sleep(1)", "COMMIT")},
			{"another client", another},
			{"base backup", client("pg_basebackup", func(b *bench) []string {
				return []string{"--dbname", b.url, "--format", "tar", "--wal-method", "none", "--checkpoint", "fast", "--pgdata", "-", "--no-sync"}
			})},
			{"REINDEX CONCURRENTLY", run("REINDEX INDEX CONCURRENTLY hot_pkey")}, {"VACUUM of all", asRoot("pgx", "VACUUM ANALYZE")},
			{"clean-up in batches", run("DELETE FROM big WHERE id % 1000 = 1 AND id <= 50000", "INSERT INTO big SELECT i, 0, repeat('x', 200) FROM generate_series(1, 50000, 1000) i")},
		}},
		{scene: my, chores: []chore{
			{"ANALYZE", run("ANALYZE TABLE hot")}, {"CHECK", run("CHECK TABLE hot")}, {"report", run("SELECT SUM(v), COUNT(DISTINCT pad) FROM big")},
			{"index", run("CREATE INDEX quiet ON big (v)", "DROP INDEX quiet ON big")}, {"idle transaction", run("BEGIN", "SELECT COUNT(*) FROM hot", "SELECT SLEEP(1)", "COMMIT")},
			{"flush logs", asRoot("mysql", "FLUSH LOGS")},
			{"dump", client("mariadb-dump", func(b *bench) []string { return append(dumps(b), "--single-transaction", "d") })},
			{"dump of a table that is locked for it", client("mariadb-dump", func(b *bench) []string { return append(dumps(b), "d", "big") })},
			{"another client", another},
			{"ALTER", run("ALTER TABLE big COMMENT = 'quiet'", "ALTER TABLE hot ADD INDEX quiet (v), ALGORITHM=INPLACE, LOCK=NONE", "ALTER TABLE hot DROP INDEX quiet")},
			{"OPTIMIZE", run("OPTIMIZE TABLE big")},
		}},
	}
}

// dump runs a client program of the server.
func dump(name string, args func(b *bench) []string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		return osexec.CommandContext(ctx, filepath.Join(b.programs, name), args(b)...).Run()
	}
}

// client runs a client program of this machine, and throws away what it writes.
func client(name string, args func(b *bench) []string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		c := osexec.CommandContext(ctx, name, args(b)...)
		said := new(strings.Builder)
		c.Stderr = said
		if err := c.Run(); err != nil {
			return fmt.Errorf("%w: %.300s", err, said)
		}
		return nil
	}
}

// another is an application with tables of its own: it makes them, works on them for two seconds and removes
// them.
func another(ctx context.Context, b *bench) error {
	for _, command := range []string{"prepare", "run", "cleanup"} {
		err := client("sysbench", func(b *bench) []string {
			return append(append([]string{}, b.sysbench...), "--tables=1", "--table-size=1000", "--threads=2", "--time=2", "oltp_read_write", command)
		})(ctx, b)
		if err != nil {
			return err
		}
	}
	return nil
}

// dumps are the arguments with which mariadb-dump connects as the administrator.
func dumps(b *bench) []string {
	var all []string
	for _, a := range b.sysbench {
		if rest, ok := strings.CutPrefix(a, "--mysql-"); ok && !strings.HasPrefix(rest, "db=") {
			all = append(all, "--"+rest)
		}
	}
	return all
}

// quiet guards each database in mode enforce while nothing is wrong.
func quiet() experiment.Experiment {
	return quietly("atropos/quiet", "Guards in mode enforce beside healthy servers: no session may be cancelled",
		"A load with bursts and idle spells, and beside it, in turn, checkpoints, vacuums, dumps, reports, index builds, idle transactions. No cancel is right.", quietServers)
}

// quietly guards each of some servers in mode enforce while nothing is wrong, all at once: a machine that others use is the
// harder test.
func quietly(name, title, about string, all func() []quietServer) experiment.Experiment {
	return experiment.Experiment{Name: name, Title: title, Live: true, About: about,
		Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
			length := quietLength
			if o.Quick {
				length = 16 * time.Second
			}
			servers := all()
			found, failed := make([]quietFound, len(servers)), make([]error, len(servers))
			o.Step(0, 1, fmt.Sprintf("%d servers", len(servers)))
			var running sync.WaitGroup
			for i, q := range servers {
				running.Go(func() { found[i], failed[i] = q.run(ctx, o.Seed, length) })
			}
			running.Wait()
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			r := &experiment.Result{Quick: o.Quick}
			t := &table.Table{Title: fmt.Sprintf("%v, at once", length), Columns: []table.Column{{Name: "server"}, {Name: "chores done"}, {Name: "chores failed"}, {Name: "requests"},
				{Name: "late", Format: "%.4f"}, {Name: "failed"}, {Name: "cancels"}}}
			for i, q := range servers {
				f := &found[i]
				if failed[i] != nil { // what the others came to is told all the same
					t.Note = cmp.Or(t.Note, fmt.Sprintf("%.300v", failed[i]))
					r.Ceiling(q.scene.name+": did not run", "", 0, 0, 1)
					continue
				}
				t.Add(q.scene.name, f.chores, f.spoiled, f.requests, float64(f.late)/float64(max(f.requests, 1)), f.failed, f.cancels)
				t.Note = cmp.Or(t.Note, f.first)
				r.Ceiling(q.scene.name+": cancels", "", 0, 0, float64(f.cancels))
				r.Ceiling(q.scene.name+": chores failed", "", 0, 0, float64(f.spoiled))
			}
			r.Table = append(r.Table, t)
			return r, nil
		}}
}

// quietFound is what became of a quiet server.
type quietFound struct {
	chores, spoiled                 int    // done; failed
	first                           string // failure of a chore, "" if none failed
	requests, late, failed, cancels int
}

// guard returns what starts what may cancel.
func (q *quietServer) guard() runner {
	if q.guarded == nil {
		return spillgate
	}
	return q.guarded
}

func (q *quietServer) run(ctx context.Context, seed uint64, length time.Duration) (found quietFound, err error) {
	b, err := q.scene.start(ctx)
	if err != nil {
		return found, fmt.Errorf("quiet, %s: %w", q.scene.name, err)
	}
	defer b.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var cancels atomic.Int64
	guarding, stopGuard := context.WithCancel(ctx)
	wait, err := q.guard()(guarding, &q.scene, b, func(int64, string) { cancels.Add(1) })
	if err != nil {
		stopGuard()
		return found, err
	}
	defer func() {
		stopGuard()
		wait()
	}()
	var beside sync.WaitGroup
	choring, stopChores := context.WithCancel(ctx)
	beside.Go(func() {
		for i := 0; choring.Err() == nil; i++ {
			c := q.chores[i%len(q.chores)]
			switch err := c.do(choring, b); {
			case err == nil:
				found.chores++
			case choring.Err() == nil: // cut off, it may be, by a cancel
				found.spoiled++
				found.first = cmp.Or(found.first, fmt.Sprintf("%s, %s: %.200v", q.scene.name, c.name, err))
				_ = pause(choring, time.Second)
			}
		}
	})
	out := &played{}
	var answers sync.Mutex
	// A third of the load, twice the load, nothing, and again.
	for part, began := 0, time.Now(); time.Since(began) < length && err == nil; part++ {
		factor := []float64{0.3, 2, 1}[part%3]
		err = load(ctx, &q.scene, b, plan{rest: 3 * time.Second, rate: factor * q.scene.rate, seed: seed + uint64(part)}, out, &answers)
		time.Sleep(time.Second) // an idle spell
	}
	stopChores()
	beside.Wait()
	if err != nil {
		return found, fmt.Errorf("quiet, %s: %w", q.scene.name, err)
	}
	found.requests = len(out.answers)
	for _, a := range out.answers {
		if !a.ok {
			found.failed++
		} else if a.took > q.scene.objective {
			found.late++
		}
	}
	found.cancels = int(cancels.Load())
	return found, nil
}
