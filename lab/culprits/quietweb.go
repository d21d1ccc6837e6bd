package culprits

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/spillgate/spillgate/lab/experiment"
)

// webServers are the web servers with a load, and what goes on beside it. Nothing of it is a
// culprit.
func webServers() []quietServer {
	report := func(ctx context.Context, b *bench) error {
		return page(ctx, fmt.Sprintf("%s/slow.php?us=%d", b.root, time.Second.Microseconds()), nil)
	}
	chores := []chore{
		{"report", report},
		{"three reports", func(ctx context.Context, b *bench) error {
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { _ = report(ctx, b) })
			}
			all.Wait()
			return nil
		}},
		{"slow client", slowClient},
	}
	module := apacheScenes()[0]
	pool := apacheScenes()[1]
	module.name, pool.name = "Apache", "PHP-FPM"
	return []quietServer{{scene: module, chores: append(chores[:len(chores):len(chores)], chore{"graceful restart", func(_ context.Context, b *bench) error { return b.reload() }})}, {scene: pool, chores: chores}}
}

// slowClient sends the head of a request over a second.
func slowClient(ctx context.Context, b *bench) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(b.root, "http://"))
	if err != nil {
		return err
	}
	defer c.Close()
	for _, part := range []string{"GET /fast.php HTTP/1.1\r\n", "Host: localhost\r\n", "Connection: close\r\n\r\n"} {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second / 3):
		}
		if _, err := io.WriteString(c, part); err != nil {
			return err
		}
	}
	_, err = io.Copy(io.Discard, c)
	return err
}

// quietWeb guards each web server in mode enforce while nothing is wrong.
func quietWeb() experiment.Experiment {
	return quietly("atropos/quiet-web", "Guards in mode enforce beside healthy web servers: no request may be cancelled",
		"A load with bursts and idle spells, and beside it, in turn, pages of a second, one and three at once, a slow client, and of Apache a graceful restart. No cancel is right.", webServers)
}
