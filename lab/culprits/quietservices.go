package culprits

import (
	"context"
	"sync"
	"time"

	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/tracer"
)

// quietServices looks for culprits in etcds and a Go service while nothing is wrong.
func quietServices() experiment.Experiment {
	return quietly("atropos/quiet-services", "Gates that cancel culprits, in front of healthy etcds and in a Go service: no request may be cancelled",
		"A load with bursts and idle spells, and beside it, in turn, lists, counts of a thousand keys, many requests at once, requests that wait long and hold nothing, or one of eight connections. No cancel is right.", serviceServers)
}

// serviceServers are etcds and a Go service with a load, and what goes on beside it. Nothing of it is a culprit.
func serviceServers() []quietServer {
	all := []quietServer{quietGo()}
	for _, form := range []struct {
		name string
		of   func(*etcdStage) *scene
	}{{"etcd, proxy in front", stockEtcdOn}, {"etcd, embedded", embeddedEtcdOn}} {
		e := newEtcdStage(true)
		s := form.of(e)
		s.name, s.culprits = form.name, nil
		all = append(all, quietServer{scene: *s, chores: etcdChores(e), guarded: s.contenders()[0].run})
	}
	return all
}

// etcdChores are those of an etcd. The index is kept from writers for well below a millisecond each time. Gates and proxies may refuse them,
// as any request, when they have no room; only cancels are wrong.
func etcdChores(e *etcdStage) []chore {
	through := func(do func(ctx context.Context, c *etcdClient) error) func(context.Context, *bench) error {
		return func(ctx context.Context, _ *bench) error {
			c, err := dialEtcd(e.front.Load().address)
			if err != nil {
				return err
			}
			defer c.close()
			return do(ctx, c)
		}
	}
	return []chore{
		{"counts of a thousand keys", through(func(ctx context.Context, c *etcdClient) error {
			for range 20 {
				_ = c.count(ctx, "hot/")
			}
			return pause(ctx, 200*ms)
		})},
		{"many at once", through(func(ctx context.Context, c *etcdClient) error {
			together(32, func() error { return c.get(ctx, "hot/1") })
			return pause(ctx, 100*ms)
		})},
		{"another client's keys", through(func(ctx context.Context, c *etcdClient) error {
			for range 50 {
				_ = c.put(ctx, "another/key", "value")
			}
			return pause(ctx, 100*ms)
		})},
	}
}

// together does something n times at once. What fails was refused.
func together(n int, do func() error) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() { _ = do() })
	}
	all.Wait()
}

// quietGo is a Go service with connections, locks and a cache.
func quietGo() quietServer {
	s, ask := goStage(goCase{name: "quiet", title: "a Go service", open: goOrdinary}, true)
	s.name, s.culprits = "Go service", nil
	do := func(what string) func(context.Context, *bench) error {
		return func(ctx context.Context, _ *bench) error {
			_ = ask(ctx, what, 0) // a gate may refuse it
			return pause(ctx, 100*ms)
		}
	}
	return quietServer{scene: *s, guarded: s.contenders()[0].run, chores: []chore{
		{"a long poll", do("poll")}, {"an export on a connection of its own", do("export")}, {"a warm-up of the cache", do("warm")},
		{"many long polls", func(ctx context.Context, _ *bench) error {
			together(16, func() error { return ask(ctx, "poll", 0) })
			return nil
		}},
		{"many at once", func(ctx context.Context, _ *bench) error {
			together(16, func() error { return ask(ctx, "read", 1) })
			return pause(ctx, 100*ms)
		}},
	}}
}

// goOrdinary is a service whose requests use a connection of eight, a lock, and a cache of which half is in use.
func goOrdinary(tr *tracer.Tracer) goHandler {
	const size, keys = 1000, 500
	connections, table, values := tr.NewPool("connections", 8), tr.NewRWMutex("table"), tracer.NewCache[int, int](tr, "values", size)
	get := func(ctx context.Context, key int) error {
		_, err := values.Get(ctx, key, func(ctx context.Context) (int, uint64, error) { return key, 1, pause(ctx, ms) })
		return err
	}
	connected := func(ctx context.Context, lasts time.Duration) error {
		if err := connections.Acquire(ctx, 1); err != nil {
			return err
		}
		defer connections.Release(ctx, 1)
		return pause(ctx, lasts)
	}
	read := func(ctx context.Context, i int) error {
		if err := get(ctx, i*7919%keys); err != nil {
			return err
		}
		if i%10 != 0 {
			return connected(ctx, 2*ms)
		}
		if err := table.Lock(ctx); err != nil {
			return err
		}
		defer table.Unlock(ctx)
		return pause(ctx, ms/2)
	}
	return func(ctx context.Context, what string, i int) error {
		switch what {
		case "poll":
			return pause(ctx, time.Second)
		case "export":
			return connected(ctx, time.Second)
		case "warm":
			for key := range 200 {
				if err := get(ctx, keys+key); err != nil {
					return err
				}
			}
			return nil
		}
		return read(ctx, i)
	}
}
