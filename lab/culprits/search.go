package culprits

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/harness/servers"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The cluster of the scenes: one node with a small heap.
const (
	searchHeap      = 512 // MiB
	searchDocuments = 60_000
	searchShards    = 2
	searchObjective = 200 * ms
	searchClients   = 4 // that send the culprit at once
	// searchClauses is how many clauses the culprit of c12 has, as many as the largest of Atropos' case. The server takes
	// 1,024 unless it is told more.
	searchClauses = 4500
	// searchBulk is how many operations the bulk request of c13 has.
	searchBulk = 60_000
	// searchRetries is how often the server tries an update again whose document was changed meanwhile.
	searchRetries = 10
)

// searchCulprit and searchOthers stand for the processes of a scene: requests say by their
// X-Opaque-Id whose they are, which no contender is told.
const (
	searchCulprit = 1
	searchOthers  = 0
)

// searchExperiments are c10 to c13 on a real node.
func searchExperiments() []experiment.Experiment {
	return made(c10, c11, c12, c13, c13Again, c13Patient, c11Elastic, c12Elastic, searchScroll, searchMerge)
}

// made makes an experiment of each scene, and the scene anew for each run.
func made(scenes ...func() *scene) (all []experiment.Experiment) {
	for _, make := range scenes {
		s := make()
		all = append(all, experiment.Experiment{Name: "atropos/" + s.name, Title: s.title, About: s.about, Live: true,
			Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
				return run(ctx, o, make())
			}})
	}
	return all
}

// openSearch starts a node with the documents that the scenes share.
func openSearch(ctx context.Context) (*bench, error) {
	plugin, err := checkout(filepath.Join("tracer", "opensearch"), "build.sh")
	if err != nil {
		return nil, err
	}
	server, err := servers.OpenSearch(ctx, servers.SearchConfig{HeapMiB: searchHeap, Fetch: true, Plugin: plugin,
		Settings: map[string]string{"indices.query.bool.max_clause_count": strconv.Itoa(2 * searchClauses), "indices.requests.cache.size": "1mb"}})
	if err != nil {
		return nil, err
	}
	b, err := filled(ctx, server)
	if err != nil {
		return nil, err
	}
	b.asked = fmt.Sprintf("opensearch://127.0.0.1:%d", server.Port)
	b.url = b.asked + "?tasks=" + server.TaskFile()
	return b, nil
}

// filled puts the documents into a node.
func filled(ctx context.Context, server *servers.Server) (*bench, error) {
	c := newSearchClient(server.Port)
	stop := func() {
		c.close()
		server.Stop()
	}
	if err := c.fill(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("filling %s: %w", server.Name, err)
	}
	return &bench{search: c, stop: stop, ended: server.Exited(), used: server.CPU}, nil
}

// c11 is an aggregation in fifty others.
func c11() *scene {
	s := &scene{name: "c11", title: "OpenSearch, heap and processors: fifty aggregations in each other", objective: searchObjective, measured: true, rate: 60, lasts: 6 * time.Second, start: openSearch, application: searchOpaque, slow: true,
		about: `Requests search for a word. From the onset on, four clients ask for a histogram in fifty others, of a thousand
buckets each, over all documents, again and again, as in Atropos' case. The server's limit of buckets (search.max_buckets) stands.` + pluginAbout,
		nativeTitle: "search.default_search_timeout 1 s"}
	s.request = findWord
	s.culprits = repeated(s, func(ctx context.Context, c *searchClient, seed int) error { return c.find(ctx, histograms(seed)) })
	s.native = searchTimeout
	s.contenders, s.mend = searchContenders, s.calm
	return s
}

// histograms is the query of c11.
func histograms(seed int) string {
	const levels, buckets = 50, 1000
	open := fmt.Sprintf(`"aggs":{"a":{"histogram":{"field":"n","interval":%d,"offset":%d}`, searchDocuments/buckets, seed)
	return `{"size":0,` + strings.Repeat(open+",", levels-1) + open + strings.Repeat("}}", levels) + "}"
}

// pluginAbout is what the cases of OpenSearch share.
const pluginAbout = `
The plugin tracer/opensearch is in the node in every run, and records while a guard reads its task file; the experiment builds it and needs a checkout of
the sources. The guard "over HTTP" asks the node instead.`

// findWord is a request that searches for a word.
func findWord(ctx context.Context, b *bench, i int) error {
	return b.search.find(ctx, fmt.Sprintf(`{"query":{"match":{"body":"w%d"}}}`, i*7919%searchWords))
}

// searchTimeout sets the server's own limit.
func searchTimeout(ctx context.Context, b *bench, on bool) error {
	return b.search.settings(ctx, on, map[string]string{"search.default_search_timeout": "1s"})
}

// c12 is a query with many clauses over all documents.
func c12() *scene {
	s := &scene{name: "c12", title: "OpenSearch, processors: queries with thousands of ranges", objective: searchObjective, measured: true, rate: 60, lasts: 6 * time.Second, start: openSearch, application: searchOpaque, slow: true,
		about: `Requests search for a word. From the onset on, four clients send a query with 4,500 overlapping ranges over
all documents, again and again: each takes seconds, and two of them all four search threads. Switched off to allow for
it, as in Atropos' case of 1,500 to 4,500 terms: the server's limit of 1,024 clauses.` + pluginAbout,
		nativeTitle: "search.default_search_timeout 1 s"}
	s.request = findWord
	s.culprits = repeated(s, func(ctx context.Context, c *searchClient, seed int) error {
		return c.find(ctx, ranges(seed, searchClauses))
	})
	s.native = searchTimeout
	s.contenders, s.mend = searchContenders, s.calm
	return s
}

// repeated are clients of which each sends one request after the other while the culprit lasts, each with another seed.
func repeated(s *scene, send func(ctx context.Context, c *searchClient, seed int) error) (all []func(context.Context, *bench, float64, func(int64)) error) {
	for k := range searchClients {
		all = append(all, func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
			mark(searchCulprit)
			ctx, cancel := context.WithTimeout(ctx, time.Duration(float64(s.lasts)*size))
			defer cancel()
			for i := 0; ctx.Err() == nil; i++ {
				if err := send(ctx, b.search.as(searchOpaque), k+i*searchClients); err != nil {
					_ = pause(ctx, 25*ms) // as a client that tries again
				}
			}
			return nil
		})
	}
	return all
}

// ranges is the query of c12.
func ranges(seed, clauses int) string {
	var text strings.Builder
	text.WriteString(`{"size":10,"track_total_hits":true,"query":{"bool":{"should":[`)
	for i := range clauses {
		if i > 0 {
			text.WriteByte(',')
		}
		from := (i*97 + seed*13) % (searchDocuments * 3 / 4)
		fmt.Fprintf(&text, `{"range":{"n":{"gte":%d,"lte":%d,"boost":%d}}}`, from, from+searchDocuments/4, i+1)
	}
	text.WriteString("]}}}")
	return text.String()
}

// c13 is a bulk request with many operations on one document.
func c13() *scene {
	s := &scene{name: "c13", title: "OpenSearch, document lock: a bulk request of one document", objective: searchObjective, measured: true, rate: 60, lasts: 6 * time.Second, start: openSearch, application: searchOpaque, slow: true,
		about: `Requests update a document. At the onset four clients send one bulk request each with 60,000 operations on
the same document, which hold the threads for writes, and the document's lock in turn. The server cannot cancel a
bulk request (its task says cancellable: false): over HTTP it is named, and its kind is to be kept out in front of the
server. The plugin gives up what is left of one. Updates are of fields, not by a script: the distribution for tests has no script language.` + pluginAbout,
		nativeTitle: "index.refresh_interval as it is: the server has no limit for this"}
	s.request = func(ctx context.Context, b *bench, i int) error { return b.search.update(ctx, "hot", i, searchRetries) }
	for k := range searchClients {
		s.culprits = append(s.culprits, func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
			mark(searchCulprit)
			return b.search.as(searchOpaque).bulkOne(ctx, "hot", int(searchBulk*size), k)
		})
	}
	s.native, s.mend = func(context.Context, *bench, bool) error { return nil }, s.calm
	s.contenders = func() []contender { return overHTTP(contenders(), naming) }
	return s
}

// overHTTP adds a guard that asks the server, in front of ours, and a second run without a culprit.
func overHTTP(all []contender, run runner) []contender {
	all = again(all)
	last := len(all) - 1
	return append(all[:last:last], contender{name: ours + ", over HTTP", run: run}, all[last])
}

// searchContenders are those of databases and the server's own backpressure.
func searchContenders() []contender {
	all := contenders()
	last := len(all) - 1
	own := contender{name: "search backpressure", run: backpressure}
	return overHTTP(append(all[:last:last], own, all[last]), guardOf(asked))
}

// asked is the URL of a guard that asks the server.
func asked(b *bench) string { return b.asked }

// backpressure lets the server cancel by itself, as an operator who knows the objective would set it. By
// default it only watches, and looks for tasks that use a processor for 15 s or 30 s.
func backpressure(ctx context.Context, _ *scene, b *bench, _ func(int64, string)) (func(), error) {
	set := func(ctx context.Context, on bool) error {
		return b.search.settings(ctx, on, map[string]string{"search_backpressure.mode": "enforced", "search_backpressure.node_duress.cpu_threshold": "0.7",
			"search_backpressure.search_task.cpu_time_millis_threshold": "500", "search_backpressure.search_task.elapsed_time_millis_threshold": "1000",
			"search_backpressure.search_shard_task.cpu_time_millis_threshold": "250", "search_backpressure.search_shard_task.elapsed_time_millis_threshold": "1000"})
	}
	return func() { _ = set(context.WithoutCancel(ctx), false) }, set(ctx, true)
}

// naming runs the guard, and takes the naming of a task that cannot be cancelled for its cancel.
func naming(ctx context.Context, s *scene, b *bench, cancelled func(int64, string)) (func(), error) {
	g, err := guard.New(guard.Config{URL: b.asked, Objective: s.watched(), Mode: culprit.Enforce, Rules: s.rules}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, err
	}
	g.OnCancel = func(c guard.Cancel) { cancelled(s.whose(c.Process, c.Application), c.Step) }
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx) })
	running.Go(func() { names(ctx, s, g, cancelled) })
	return running.Wait, nil
}

// names tells of each task that a guard names.
func names(ctx context.Context, s *scene, g *guard.Guard, cancelled func(int64, string)) {
	told := map[uint64]bool{}
	for pause(ctx, 20*ms) == nil {
		status := g.Status()
		if status.State != culprit.Named.String() || len(status.Candidates) == 0 || told[status.Candidates[0].ID] {
			continue
		}
		first := status.Candidates[0]
		told[first.ID] = true
		cancelled(s.whose(first.Process, first.Application), status.State)
	}
}

// calm waits until requests are answered again about in time, or for calmWithin: a server goes on for a while with
// what its clients have left.
func (s *scene) calm(ctx context.Context, b *bench) error {
	const enough = 3
	began := time.Now()
	for inTime, i := 0, 0; inTime < enough && time.Since(began) < calmWithin && ctx.Err() == nil; i++ {
		sent := time.Now()
		err := s.request(ctx, b, i)
		if inTime++; err != nil || time.Since(sent) > 2*s.objective {
			inTime = 0
			_ = pause(ctx, 25*ms)
		}
	}
	return ctx.Err()
}

// calmWithin is how long that is waited for.
const calmWithin = 20 * time.Second

// searchOpaque is the X-Opaque-Id of culprits.
const searchOpaque = "culprit"

// whose says which process a session of a contender counts as: in a scene of a server whose
// numbers of tasks are known only when they run, that which its application tells, the X-Opaque-Id of a search, the path of a page.
func (s *scene) whose(process int64, application string) int64 {
	switch {
	case s.application == "":
		return process
	case application == s.application:
		return searchCulprit
	}
	return searchOthers
}
