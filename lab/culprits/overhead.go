package culprits

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/harness/servers"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

const (
	// watchedConnections is how many idle connections a server has while it is watched.
	watchedConnections = 100
	// mostOverhead is the share of one processor that a server may use for being looked
	// at ten times a second.
	mostOverhead = 0.015
)

// overhead measures what it costs a server to be watched.
func overhead() experiment.Experiment {
	return experiment.Experiment{Name: "atropos/guard-overhead", Title: "What it costs a server with 100 connections to be looked at ten times a second", Live: true,
		About: "A hundred idle connections, and none, then one guard. What the server uses beyond what it uses unwatched is the overhead; what the guard itself uses stands beside it.",
		Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
			length := 30 * time.Second
			if o.Quick {
				length = 8 * time.Second
			}
			r := &experiment.Result{Quick: o.Quick}
			t := &table.Table{Title: fmt.Sprintf("%d connections, %v each", watchedConnections, length), Columns: []table.Column{{Name: "server"},
				{Name: "unwatched", Unit: "of a processor", Format: "%.4f"}, {Name: "watched", Unit: "of a processor", Format: "%.4f"}, {Name: "guard", Unit: "of a processor", Format: "%.4f"}}}
			pg, my := c6(), c4()
			pg.name, my.name = "PostgreSQL", "MariaDB"
			pg.start = postgres(map[string]string{"max_connections": "150"})
			my.start = mariadb(servers.MariaDBConfig{Settings: map[string]string{"max-connections": "150"}})
			for i, s := range []scene{pg, my} {
				o.Step(i, 2, s.name)
				if err := s.overhead(ctx, length, r, t); err != nil {
					return nil, err
				}
			}
			r.Table = append(r.Table, t)
			return r, nil
		}}
}

func (s *scene) overhead(ctx context.Context, length time.Duration, r *experiment.Result, t *table.Table) error {
	b, err := s.start(ctx)
	if err != nil {
		return fmt.Errorf("overhead: %w", err)
	}
	defer b.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []*sql.Conn
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	for range watchedConnections {
		c, err := b.open(ctx)
		if err != nil {
			return fmt.Errorf("overhead: %w", err)
		}
		all = append(all, c)
	}
	measure := func() (server, own float64, err error) {
		before, mine := b.used(), machine.Own()
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-time.After(length):
		}
		return float64(b.used()-before) / float64(length), float64(machine.Own()-mine) / float64(length), nil
	}
	time.Sleep(time.Second)
	unwatched, idle, err := measure()
	if err != nil {
		return err
	}
	wait, err := spillgate(ctx, s, b, func(int64, string) {})
	if err != nil {
		return err
	}
	defer wait()
	defer cancel()
	time.Sleep(time.Second)
	watched, own, err := measure()
	if err != nil {
		return err
	}
	t.Add(s.name, unwatched, watched, own-idle)
	r.Ceiling(fmt.Sprintf("%s, looked at every %v", s.name, guard.DefaultPeriod), " of a processor", mostOverhead, 0.005, watched-unwatched)
	return nil
}
