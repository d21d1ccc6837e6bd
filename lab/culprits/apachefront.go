package culprits

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/proxy"
)

// askAgain is how long a client whose page was refused or cut off waits before it asks again.
const askAgain = 50 * ms

// againScene is c9 with clients that take no for an answer to nothing: with a guard alone Apache refuses them, by a worker
// each; a proxy that is told of the guard keeps them out.
func againScene() scene {
	var front atomic.Pointer[string]
	at := func(b *bench) string {
		if f := front.Load(); f != nil {
			return *f
		}
		return b.root
	}
	s := scene{name: "c9-again", title: "Slow PHP pages are asked for again and again (c9)", objective: 100 * ms, rate: 200, lasts: 10 * time.Second,
		about: `As c9, but a client whose slow page was cut off or refused asks again after 50 ms. With "guard alone" Apache refuses them
itself; ours is the guard with Spillgate's proxy in front, in culprit mode enforce, which is told of the guard by one
line (culprit.guard).`,
		start: startApache, native: limitScripts, nativeTitle: "max_execution_time 1, which does not count waiting"}
	s.request = func(ctx context.Context, b *bench, _ int) error { return page(ctx, at(b)+"/fast.php", nil) }
	for range phpWorkers {
		s.culprits = append(s.culprits, func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
			length := time.Duration(size * float64(s.lasts))
			ctx, cancel := context.WithTimeout(ctx, length)
			defer cancel()
			for ctx.Err() == nil {
				if err := slowPage(ctx, at(b), length, mark); err != nil {
					return err
				}
				select {
				case <-ctx.Done():
				case <-time.After(askAgain):
				}
			}
			return nil
		})
	}
	fronted := func(ctx context.Context, s *scene, b *bench, cancelled func(int64, string)) (func(), error) {
		address, wait, err := guardedFront(ctx, s, &guarded{url: b.url, root: b.root}, cancelled)
		if err != nil {
			return nil, err
		}
		front.Store(&address)
		return func() {
			wait()
			front.Store(nil)
		}, nil
	}
	s.contenders = func() []contender {
		return []contender{
			{name: "no culprit", alone: true, run: fronted},
			{name: "no culprit, no proxy", alone: true},
			{name: "no control"},
			{name: "hand-set limits", run: handSet},
			{name: "guard alone", run: spillgate},
			{name: ours, run: fronted},
		}
	}
	return s
}

// guarded is a server behind a proxy that is told of its guard.
type guarded struct {
	url  string // for the guard
	root string // of the server
	// watch, if not nil, is called while the guard runs, in a goroutine of its own.
	watch func(ctx context.Context, g *guard.Guard)
}

// guardedFront runs a guard, and a proxy that is told of it. It returns where the proxy listens.
func guardedFront(ctx context.Context, s *scene, server *guarded, cancelled func(int64, string)) (address string, wait func(), err error) {
	g, err := guard.New(guard.Config{URL: server.url, Objective: s.watched(), Mode: culprit.Enforce, Rules: s.rules}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return "", nil, err
	}
	g.OnCancel = func(c guard.Cancel) { cancelled(s.whose(c.Process, c.Application), c.Step) }
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	admin := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"guards": []guard.Status{g.Status()}})
	})}
	p, err := proxy.New(proxy.Config{Objective: s.objective, Listen: []proxy.Listener{{Address: "127.0.0.1:0"}}, Upstreams: []proxy.Upstream{{Name: "server", URL: server.root}},
		Culprit: proxy.Culprit{Mode: culprit.Enforce, Guard: "http://" + l.Addr().String()}, Drain: proxy.Drain{Timeout: time.Second}}, slog.New(slog.DiscardHandler))
	if err == nil {
		err = p.Listen()
	}
	if err != nil {
		return "", nil, errors.Join(err, l.Close())
	}
	front, _ := p.Addrs()
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx) })
	if server.watch != nil {
		running.Go(func() { server.watch(ctx, g) })
	}
	running.Go(func() { _ = admin.Serve(l) })
	running.Go(func() {
		_ = p.Run(ctx)
		_ = admin.Close()
	})
	return "http://" + front[0].String(), running.Wait, nil
}
