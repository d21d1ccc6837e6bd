package search_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/search"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/harness/servers"
)

// On a real node, a search is seen with all its parts as one task, and ends when it is cancelled. The
// node is used where it is in the cache, and not by continuous integration; SPILLGATE_FETCH=1 fetches it, and
// tests Elasticsearch as well.
func TestNode(t *testing.T) {
	fetch := os.Getenv("SPILLGATE_FETCH") == "1"
	if os.Getenv("CI") == "true" && !fetch {
		t.Skip("continuous integration does not fetch 230 MB")
	}
	for name, start := range map[string]func(context.Context, servers.SearchConfig) (*servers.Server, error){"opensearch": servers.OpenSearch, "elasticsearch": servers.Elasticsearch} {
		t.Run(name, func(t *testing.T) {
			if name == "elasticsearch" && !fetch {
				t.Skip("it takes half a minute: SPILLGATE_FETCH=1 tests it")
			}
			server, err := start(t.Context(), servers.SearchConfig{Fetch: fetch})
			if errors.Is(err, servers.ErrMissing) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			cancelOne(t, name, server.Port)
		})
	}
}

// cancelOne sends long searches until one of them is cancelled.
func cancelOne(t *testing.T, name string, port int) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	send := func(ctx context.Context, method, path, body string) int {
		r, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0
		}
		r.Header.Set("Content-Type", "application/x-ndjson")
		if strings.HasPrefix(body, "{") {
			r.Header.Set("Content-Type", "application/json")
		}
		r.Header.Set("X-Opaque-Id", "long")
		resp, err := client.Do(r)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	if s := send(t.Context(), http.MethodPut, "/docs", `{"settings":{"number_of_shards":2,"number_of_replicas":0},"mappings":{"properties":{"n":{"type":"integer"}}}}`); s != http.StatusOK {
		t.Fatalf("the index: status %d", s)
	}
	var bulk, query strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&bulk, "\n{\"index\":{}}\n{\"n\":%d}", i)
	}
	if s := send(t.Context(), http.MethodPost, "/docs/_bulk?refresh=true", bulk.String()+"\n"); s != http.StatusOK {
		t.Fatalf("documents: status %d", s)
	}
	for i := range 900 {
		fmt.Fprintf(&query, `,{"range":{"n":{"gte":%d,"lte":%d,"boost":%d}}}`, 10*i, 10*i+10_000, i+1)
	}
	ctx, stop := context.WithCancel(t.Context())
	var searching sync.WaitGroup
	defer searching.Wait()
	defer stop()
	var failed atomic.Int64
	for range 2 {
		searching.Go(func() {
			for ctx.Err() == nil {
				// A search whose parts are cancelled fails, whatever its status is.
				if s := send(ctx, http.MethodPost, "/docs/_search?request_cache=false&allow_partial_search_results=false", `{"query":{"bool":{"should":[`+query.String()[1:]+`]}}}`); s != http.StatusOK && ctx.Err() == nil {
					failed.Add(1)
				}
			}
		})
	}
	source, err := search.Open(t.Context(), fmt.Sprintf("%s://127.0.0.1:%d", name, port), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for began := time.Now(); failed.Load() == 0; {
		if time.Since(began) > time.Minute {
			t.Fatal("no search was seen and cancelled in a minute")
		}
		l, err := source.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, task := range l.Sample.Tasks {
			s := l.Sessions[i]
			if s.Application != "long" || !strings.HasPrefix(s.State, "indices:data/read/search") || !task.Steps.Has(culprit.Statement) {
				t.Fatalf("task %+v, session %+v", task, s)
			}
			if _, err := source.Act(t.Context(), task.ID, culprit.Statement); err != nil {
				t.Fatal(err)
			}
		}
	}
}
