package search_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/search"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/harness/servers"
	"github.com/spillgate/spillgate/internal/taskfile"
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

// With the plugin of its kind in a node, requests are seen and cancelled through the task file, a bulk request too, of which what was not
// executed is given up.
func TestPlugin(t *testing.T) {
	fetch := os.Getenv("SPILLGATE_FETCH") == "1"
	if os.Getenv("CI") == "true" && !fetch {
		t.Skip("continuous integration does not fetch 230 MB")
	}
	t.Run("opensearch", func(t *testing.T) { plugin(t, "opensearch", servers.OpenSearch, fetch) })
	t.Run("elasticsearch", func(t *testing.T) {
		if !fetch {
			t.Skip("it takes half a minute: SPILLGATE_FETCH=1 tests it")
		}
		plugin(t, "elasticsearch", servers.Elasticsearch, fetch)
	})
}

func plugin(t *testing.T, name string, start func(context.Context, servers.SearchConfig) (*servers.Server, error), fetch bool) {
	sources, err := filepath.Abs(filepath.Join("..", "..", "tracer", name))
	if err != nil {
		t.Fatal(err)
	}
	server, err := start(t.Context(), servers.SearchConfig{Fetch: fetch, Plugin: sources, Settings: map[string]string{"indices.requests.cache.size": "64kb"}})
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	c := client(t, server.Port)
	source, err := search.Open(t.Context(), fmt.Sprintf("%s://127.0.0.1:%d?tasks=%s", name, server.Port, server.TaskFile()), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	c.fill(t)
	t.Run("search", func(t *testing.T) {
		seen := seize(t, source, 6, "read/search docs bool range(n) x100", func(ctx context.Context) (int, string) {
			return c.send(ctx, http.MethodPost, longSearch, c.long)
		})
		for _, want := range []string{"search threads held", "search threads awaited", "processor used", "heap used"} {
			if !seen[want] {
				t.Errorf("no look showed %s, of %v", want, seen)
			}
		}
	})
	t.Run("keep out", func(t *testing.T) { keepOut(t, source, c) })
	t.Run("keep out what waits", func(t *testing.T) {
		keepOutLater(t, source, "search threads", "read/search docs bool range(n) x100", func(ctx context.Context) (int, string) {
			return c.send(ctx, http.MethodPost, longSearch, c.long)
		})
	})
	t.Run("bulk", func(t *testing.T) { bulk(t, source, c) })
	t.Run("documents", func(t *testing.T) { documents(t, source, c) })
	if name == "opensearch" { // Elasticsearch shows its cache to no plugin
		t.Run("cache", func(t *testing.T) { cache(t, source, c) })
	}
}

// cache asks for an answer that is kept, and then for others that displace it: looks show whose bytes are in the cache, who has displaced what, and
// who computes again what was displaced.
func cache(t *testing.T, source search.Source, c *requester) {
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop()
	asking.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if s, answer := c.send(ctx, http.MethodPost, "/docs/_search?request_cache=true", `{"size":0,"track_total_hits":true,`+c.long[1:]); s != http.StatusOK && ctx.Err() == nil {
				t.Errorf("what is kept: status %d, %.300s", s, answer)
				return
			}
			var body strings.Builder
			for k := range 4 {
				fmt.Fprintf(&body, "{\"request_cache\":true}\n"+`{"size":0,"aggs":{"a":{"histogram":{"field":"n","interval":10,"offset":%d,"min_doc_count":1},"aggs":{"m":{"avg":{"field":"n"}}}}}}`+"\n", 4*i+k)
			}
			fmt.Fprintf(&body, "{\"request_cache\":false}\n%s\n", c.long)
			if s, answer := c.send(ctx, http.MethodPost, "/docs/_msearch?max_concurrent_searches=1", body.String()); (s != http.StatusOK || strings.Contains(answer, `"error"`)) && ctx.Err() == nil {
				t.Errorf("what displaces it: status %d, %.300s", s, answer)
				return
			}
		}
	})
	seen := map[string]bool{}
	for began := time.Now(); !seen["msearch fills"] || !seen["msearch displaces"] || !seen["search waits"]; time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > time.Minute || t.Failed() {
			t.Fatalf("in a minute looks showed %v of the cache", seen)
		}
		l, err := source.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range l.Sample.Holds {
			if r := &l.Sample.Resources[h.Resource]; r.Name != "request cache" {
				continue
			} else if r.Kind != culprit.Memory {
				t.Fatalf("%+v", r)
			}
			who := strings.TrimPrefix(l.Sessions[h.Task].State, "indices:data/read/")
			seen[who+" fills"] = seen[who+" fills"] || h.Gets > 1000 && h.Used > 1000
			seen[who+" displaces"] = seen[who+" displaces"] || h.Waits > 1000
			seen[who+" waits"] = seen[who+" waits"] || h.WaitingSince != culprit.Unset
		}
	}
	if seen["msearch waits"] {
		t.Error("what was never displaced counts as lost to the cache")
	}
}

// documents has updates of one document come while bulk requests change it: they wait, for the document too, and none fails for a
// conflict, however many have waited together.
func documents(t *testing.T, source search.Source, c *requester) {
	const updates, tries = 60, 3
	var body strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&body, "{\"index\":{\"_id\":\"same\"}}\n{\"n\":%d}\n", i)
	}
	if s, answer := c.send(t.Context(), http.MethodPut, "/docs/_doc/same", `{"n":0}`); s/100 != 2 {
		t.Fatalf("status %d, %.300s", s, answer)
	}
	var sending sync.WaitGroup
	for range 4 {
		sending.Go(func() {
			if s, answer := c.send(t.Context(), http.MethodPost, "/docs/_bulk?filter_path=errors", body.String()); s != http.StatusOK || strings.Contains(answer, "true") {
				t.Errorf("a bulk request: status %d, %.300s", s, answer)
			}
		})
	}
	for i := range updates {
		sending.Go(func() {
			time.Sleep(time.Duration(i) * 5 * time.Millisecond)
			if s, answer := c.send(t.Context(), http.MethodPost, fmt.Sprintf("/docs/_update/same?retry_on_conflict=%d", tries), fmt.Sprintf(`{"doc":{"n":%d}}`, -i)); s != http.StatusOK {
				t.Errorf("update %d: status %d, %.300s", i, s, answer)
			}
		})
	}
	done := make(chan struct{})
	go func() { sending.Wait(); close(done) }()
	held, awaited := false, false
	for looking := true; looking; {
		select {
		case <-done:
			looking = false
		case <-time.After(5 * time.Millisecond):
		}
		l, err := source.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range l.Sample.Holds {
			if l.Sample.Resources[h.Resource].Name == "documents" {
				held = held || h.Used > 0 && l.Sessions[h.Task].Statement.Text == "write/bulk docs x10000"
				awaited = awaited || h.WaitingSince != culprit.Unset && strings.HasPrefix(l.Sessions[h.Task].Statement.Text, "write/update docs")
			}
		}
	}
	if !held || !awaited {
		t.Errorf("looks showed bulk requests that keep the document %v, updates that wait for it %v", held, awaited)
	}
}

// bulk has a bulk request cancelled, and then one that has begun refused.
func bulk(t *testing.T, source search.Source, c *requester) {
	const kind = "write/bulk docs x10000"
	var body strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&body, "{\"index\":{\"_id\":\"hot\"}}\n{\"n\":%d}\n", i)
	}
	send := func(ctx context.Context) (int, string) {
		return c.send(ctx, http.MethodPost, "/docs/_bulk", body.String())
	}
	seen := seize(t, source, 4, kind, send)
	for _, want := range []string{"write threads held", "write threads awaited", "processor used"} {
		if !seen[want] {
			t.Errorf("no look showed %s, of %v", want, seen)
		}
	}
	keepOutLater(t, source, "write threads", kind, send)
	// The others go on without their clients. An operation that was given up and had a number would stay a gap.
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		s, answer := c.send(t.Context(), http.MethodGet, "/docs/_stats?level=shards&filter_path=indices.docs.shards.*.seq_no", "")
		if s == http.StatusOK && !gap(t, answer) {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("an operation is missing in a shard: status %d, %s", s, answer)
		}
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		s, answer := c.send(t.Context(), http.MethodPost, "/docs/_update/hot", `{"doc":{"n":1}}`)
		if s == http.StatusOK {
			break
		}
		if s != http.StatusConflict || time.Since(began) > time.Minute { // while the others go on it conflicts with them
			t.Fatalf("an update afterwards: status %d, %.300s", s, answer)
		}
	}
}

// keepOutLater has six clients send one request each, and keeps their kind out when one waits: it is refused all the same, and
// so is what has not begun of a bulk request.
func keepOutLater(t *testing.T, source search.Source, resource, kind string, send func(ctx context.Context) (int, string)) {
	keep := func(d time.Duration) {
		keeper := source.(interface {
			KeepOut(ctx context.Context, kind uint64, d time.Duration) error
		})
		if err := keeper.KeepOut(t.Context(), taskfile.Fingerprint(kind), d); err != nil {
			t.Fatal(err)
		}
	}
	defer keep(0)
	refused := 0
	for began := time.Now(); refused == 0; {
		if time.Since(began) > time.Minute {
			t.Fatal("in a minute no request was refused that had come before its kind was kept out")
		}
		keep(0)
		answers := make(chan string)
		for range 6 {
			go func() {
				_, answer := send(t.Context())
				answers <- answer
			}()
		}
		wait(t, source, resource, kind)
		keep(time.Minute)
		for range 6 {
			if strings.Contains(<-answers, "kept out") {
				refused++
			}
		}
	}
}

// wait looks until a request of a kind waits for a resource, for a few seconds: all may be through.
func wait(t *testing.T, source search.Source, resource, kind string) {
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(5 * time.Millisecond) {
		l, err := source.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range l.Sample.Holds {
			if h.WaitingSince != culprit.Unset && l.Sample.Resources[h.Resource].Name == resource && l.Sessions[h.Task].Statement.Text == kind {
				return
			}
		}
	}
}

// keepOut has the node refuse long searches, and no others, until the time is over.
func keepOut(t *testing.T, source search.Source, c *requester) {
	const long, d = "read/search docs bool range(n) x100", 2 * time.Second
	keeper := source.(interface {
		KeepOut(ctx context.Context, kind uint64, d time.Duration) error
	})
	if err := keeper.KeepOut(t.Context(), taskfile.Fingerprint(long), d); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if s, answer := c.send(t.Context(), http.MethodPost, longSearch, c.long); s != http.StatusTooManyRequests || !strings.Contains(answer, "kept out") {
		t.Errorf("a search of a kind that is kept out: status %d, %.300s", s, answer)
	}
	if s, answer := c.send(t.Context(), http.MethodPost, longSearch, `{"query":{"match_all":{}}}`); s != http.StatusOK {
		t.Errorf("a search of another kind: status %d, %.300s", s, answer)
	}
	time.Sleep(time.Until(began.Add(d)))
	if s, answer := c.send(t.Context(), http.MethodPost, longSearch, c.long); s != http.StatusOK {
		t.Errorf("a search of the kind afterwards: status %d, %.300s", s, answer)
	}
}

// gap reports whether a shard has given numbers to operations that it did not execute.
func gap(t *testing.T, answer string) bool {
	var v struct {
		Indices map[string]struct {
			Shards map[string][]struct {
				Numbers struct {
					Most  int64 `json:"max_seq_no"`
					Local int64 `json:"local_checkpoint"`
				} `json:"seq_no"`
			} `json:"shards"`
		} `json:"indices"`
	}
	if err := json.Unmarshal([]byte(answer), &v); err != nil {
		t.Fatal(err)
	}
	for _, shard := range v.Indices["docs"].Shards {
		if n := shard[0].Numbers; n.Most != n.Local {
			return true
		}
	}
	return len(v.Indices["docs"].Shards) == 0
}

// seize has clients send one request after the other, until one of a kind that holds a thread was cancelled and its client
// was told. It returns what the looks showed.
func seize(t *testing.T, source search.Source, clients int, kind string, send func(ctx context.Context) (int, string)) map[string]bool {
	ctx, stop := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	defer sending.Wait()
	defer stop()
	var told atomic.Int64
	for range clients {
		sending.Go(func() {
			for ctx.Err() == nil {
				if _, answer := send(ctx); strings.Contains(answer, "cancelled by a guard") {
					told.Add(1)
				}
			}
		})
	}
	seen := map[string]bool{}
	for began := time.Now(); told.Load() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("no client was told of a cancel in a minute; looks showed %v", seen)
		}
		l, err := source.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range l.Sample.Holds {
			name, s, task := l.Sample.Resources[h.Resource].Name, &l.Sessions[h.Task], &l.Sample.Tasks[h.Task]
			if s.Statement.Text != kind {
				continue // of the test before
			}
			if s.Application != "long" || s.Database != "docs" {
				t.Fatalf("session %+v", s)
			}
			held := h.HeldSince != culprit.Unset && h.Used > 0
			seen[name+" held"] = seen[name+" held"] || held
			seen[name+" awaited"] = seen[name+" awaited"] || h.WaitingSince != culprit.Unset
			seen[name+" used"] = seen[name+" used"] || h.Gets > 0
			if held && l.Sample.At.Sub(task.Started) > 200*time.Millisecond && strings.HasSuffix(name, "threads") && len(seen) >= 4 {
				if _, err := source.Act(t.Context(), task.ID, culprit.Statement); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return seen
}

// longSearch is the path of searches that take long, none of which is answered in part.
const longSearch = "/docs/_search?request_cache=false&allow_partial_search_results=false"

// requester sends requests to a node.
type requester struct {
	base string
	http http.Client
	long string // the body of a search that takes long
}

func client(t *testing.T, port int) *requester {
	c := &requester{base: fmt.Sprintf("http://127.0.0.1:%d", port), http: http.Client{Transport: &http.Transport{}}}
	t.Cleanup(c.http.CloseIdleConnections)
	var query strings.Builder
	for i := range 400 { // each counts twice, and a node takes 1,024
		fmt.Fprintf(&query, `,{"range":{"n":{"gte":%d,"lte":%d,"boost":%d}}}`, 20*i, 20*i+10_000, i+1)
	}
	c.long = `{"query":{"bool":{"should":[` + query.String()[1:] + `]}}}`
	return c
}

// send sends a request of the application "long", and returns 0 if it was not answered.
func (c *requester) send(ctx context.Context, method, path, body string) (int, string) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	if strings.HasSuffix(path, "_bulk") || strings.Contains(path, "_bulk?") {
		r.Header.Set("Content-Type", "application/x-ndjson")
	}
	r.Header.Set("X-Opaque-Id", "long")
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer)
}

// fill makes an index of documents.
func (c *requester) fill(t *testing.T) {
	t.Helper()
	if s, _ := c.send(t.Context(), http.MethodPut, "/docs", `{"settings":{"number_of_shards":2,"number_of_replicas":0},"mappings":{"properties":{"n":{"type":"integer"}}}}`); s != http.StatusOK {
		t.Fatalf("the index: status %d", s)
	}
	var bulk strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&bulk, "{\"index\":{}}\n{\"n\":%d}\n", i)
	}
	if s, _ := c.send(t.Context(), http.MethodPost, "/docs/_bulk?refresh=true", bulk.String()); s != http.StatusOK {
		t.Fatalf("documents: status %d", s)
	}
}

// cancelOne sends long searches until one of them is cancelled.
func cancelOne(t *testing.T, name string, port int) {
	c := client(t, port)
	c.fill(t)
	ctx, stop := context.WithCancel(t.Context())
	var searching sync.WaitGroup
	defer searching.Wait()
	defer stop()
	var failed atomic.Int64
	for range 2 {
		searching.Go(func() {
			for ctx.Err() == nil {
				// A search whose parts are cancelled fails, whatever its status is; of another failure the test is to hear.
				s, answer := c.send(ctx, http.MethodPost, longSearch, c.long)
				switch {
				case s == http.StatusOK || ctx.Err() != nil:
				case strings.Contains(answer, "cancelled"):
					failed.Add(1)
				default:
					t.Errorf("a search: status %d, %.300s", s, answer)
					return
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
