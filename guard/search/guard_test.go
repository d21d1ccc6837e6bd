package search_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/guard/search"
	"github.com/spillgate/spillgate/internal/culprit"
)

// A guard cancels the search that has all threads, once, and none of those that wait for them: with
// both servers, of which one does not tell what runs.
func TestGuard(t *testing.T) {
	for name, elastic := range map[string]bool{"OpenSearch": false, "Elasticsearch": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := search.NewFake(elastic)
			g, err := guard.New(guard.Config{URL: f.Serve(t), Objective: 200 * time.Millisecond, Mode: culprit.Enforce}, slog.New(slog.DiscardHandler), nil)
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var cancelled []guard.Cancel
			g.OnCancel = func(c guard.Cancel) {
				mu.Lock()
				defer mu.Unlock()
				cancelled = append(cancelled, c)
			}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = g.Run(ctx) })
			defer running.Wait()
			defer stop()
			await(t, "a look", g.Status, func() bool { return g.Status().Connected })
			f.Strike()
			await(t, "a cancel", g.Status, func() bool { return f.Cancels() > 0 })
			await(t, "relief", g.Status, func() bool {
				s := g.Status()
				return len(s.Cancels) > 0 && s.Cancels[0].Verdict == culprit.Relieved.String()
			})
			mu.Lock()
			defer mu.Unlock()
			if f.Cancels() != 1 || len(cancelled) != 1 || cancelled[0].Process != search.FakeCulprit || cancelled[0].Step != "statement" {
				t.Errorf("%d cancels, %+v; expected the culprit alone", f.Cancels(), cancelled)
			}
		})
	}
}

func await(t *testing.T, what string, status func() guard.Status, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("no %s; the status is %+v", what, status())
		}
	}
}
