package culprits

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/guard"
)

// bench is a server that runs, with the data of a scene.
type bench struct {
	// url is what a guard is given.
	url string
	// asked is the URL of a guard that reads no task file, if url is that of one that does.
	asked string
	// root is what connects its administrator.
	root string
	// programs is the directory of its client programs.
	programs string
	// db is the pool of the application.
	db *sql.DB
	// open makes a connection of its own, for culprits.
	open func(ctx context.Context) (*sql.Conn, error)
	// sysbench are the arguments with which sysbench connects as the application.
	sysbench []string
	// search is the application's client of a search server.
	search *searchClient
	stop   func()
	// ended is closed when the server has ended by itself; nil where nobody tells.
	ended <-chan struct{}
	// used returns the processor time that the server has used.
	used func() time.Duration
	// reload has the server read its configuration again, if it can.
	reload func() error
}

// scene is a case: a server, its load, a culprit.
type scene struct {
	name, title, about string
	// objective is that of the requests. If it is measured, a fifth more than the 99th percentile without a culprit takes its place, if that is less.
	objective time.Duration
	measured  bool
	// rate is how many requests leave per second, before the seed varies it.
	rate float64
	// load, if not 0, sets rate and objective when the server runs, see calibrate: the rate
	// to about this share of what the server does alone.
	load float64
	// start makes the server and its data.
	start func(ctx context.Context) (*bench, error)
	// parts is how many statements a calibrated request is, one after the other, if more than
	// one. Who watches the server sees these, and is told of their objective.
	parts int
	// request is one request of the load.
	request func(ctx context.Context, b *bench, i int) error
	// statements are the same request for the closed load, with %d for the key of a row;
	// none: the scene is not played with it.
	statements []string
	// culprits are what starts at the onset, all at once but for what they wait
	// themselves; size is about 1. They end by themselves, and soon after ctx does. They
	// tell by mark which of their sessions is to blame, which no contender is told.
	culprits []func(ctx context.Context, b *bench, size float64, mark func(process int64)) error
	// nobody tells that no session can be ended that would help, or be told from the others: whoever is
	// cancelled is a victim.
	nobody bool
	// lasts is about how long the culprit takes if it is left alone.
	lasts time.Duration
	// native sets, and takes back, what an operator would set by hand.
	native      func(ctx context.Context, b *bench, on bool) error
	nativeTitle string
	// rules is what the guard is told: which kinds it may cancel.
	rules guard.Rules
	// contenders are those that play it, nil for all that work beside a database.
	contenders func() []contender
	// slow tells that the server takes long to start, so that the quick form leaves out other rules to choose.
	slow bool
	// application, if not "", is that of the culprit's requests, and of no others, see whose.
	application string
	// mend puts back between two runs what the culprit changed.
	mend func(ctx context.Context, b *bench) error
}

// exec runs statements one after the other.
func exec(ctx context.Context, c interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, statements ...string) error {
	for _, s := range statements {
		if _, err := c.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%.60s: %w", s, err)
		}
	}
	return nil
}

// watched is the objective that those are told who watch the server's statements.
func (s *scene) watched() time.Duration { return s.objective / time.Duration(max(s.parts, 1)) }
