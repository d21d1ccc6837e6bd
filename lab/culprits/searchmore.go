package culprits

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/harness/servers"
)

// c10 is a cache of answers that is too small for what is asked.
func c10() *scene {
	s := &scene{name: "c10", title: "OpenSearch, cache of answers: aggregations that fill it", objective: searchObjective, measured: true, rate: 60, lasts: 6 * time.Second, start: openSearch, application: searchOpaque, slow: true,
		about: `Requests ask for one of twenty small aggregations, whose answers the node keeps in a cache of 1 MB, as in Atropos'
case. From the onset on, four clients send eight large aggregations at once (_msearch), whose answers fill the cache, again and
again. The plugin sees whose bytes are in the cache, who displaces others there and who computes again what was displaced.` + pluginAbout,
		nativeTitle: "search.default_search_timeout 1 s"}
	s.request = func(ctx context.Context, b *bench, i int) error { return b.search.cached(ctx, smallAggregation(i)) }
	s.culprits = repeated(s, func(ctx context.Context, c *searchClient, seed int) error { return c.cachedAtOnce(ctx, seed) })
	s.native = searchTimeout
	s.contenders, s.mend = searchContenders, s.calm
	return s
}

// smallAggregation is one of twenty whose answers are small.
func smallAggregation(i int) string {
	return fmt.Sprintf(`{"size":0,"aggs":{"a":{"histogram":{"field":"n","interval":%d}}}}`, searchDocuments/20+i%20)
}

// c13Again is c13 with clients that send one bulk request after the other.
func c13Again() *scene {
	s := c13()
	s.measured = false // the proxy holds its requests to the objective, too
	s.name, s.title = "c13-again", "OpenSearch, document lock: bulk requests of one document, again and again"
	s.about = `As c13, but each client of a bulk request sends the next when it has an answer, or 25 ms after it was refused. "Proxy in front" is
Spillgate's proxy in front of the server, in culprit mode enforce, which is told of the guard by one line (culprit.guard): it
refuses bulk requests before their bodies are read. "Over HTTP" the guard cannot cancel those that have begun.` + pluginAbout
	s.culprits = repeated(s, func(ctx context.Context, c *searchClient, seed int) error {
		return c.bulkOne(ctx, "hot", searchBulk, seed)
	})
	s.contenders = func() []contender {
		all := overHTTP(contenders(), naming)
		all[len(all)-1].name += ", no proxy"
		return append(all, contender{name: ours + ", over HTTP, proxy in front", run: inFront(asked)}, contender{name: ours, run: inFront(watched)})
	}
	return s
}

// c13Patient is c13 with updates that are tried again until they are through.
func c13Patient() *scene {
	const retries = 1000
	s := c13()
	s.name, s.title = "c13-patient", "OpenSearch, document lock: updates that are tried again until they are through"
	s.about = `As c13, but the server tries an update again up to 1,000 times whose document was changed meanwhile, and not ten times. Of updates that have waited together for
a thread, all read the same version of the document, one writes it and the others try again: of so many more than ten, some fail, whoever kept them waiting and however that was
ended.` + pluginAbout
	s.request = func(ctx context.Context, b *bench, i int) error { return b.search.update(ctx, "hot", i, retries) }
	return s
}

// watched is the URL of a guard that reads a task file, where there is one.
func watched(b *bench) string { return b.url }

// inFront runs a guard of a URL with a proxy in front of the server, which the application and the culprits ask. A task that
// cannot be cancelled counts when it is named.
func inFront(url func(b *bench) string) runner {
	return func(ctx context.Context, s *scene, b *bench, cancelled func(int64, string)) (func(), error) {
		direct := b.search
		server := guarded{url: url(b), root: direct.base}
		if server.url == b.asked {
			server.watch = func(ctx context.Context, g *guard.Guard) { names(ctx, s, g, cancelled) }
		}
		address, wait, err := guardedFront(ctx, s, &server, cancelled)
		if err != nil {
			return nil, err
		}
		front := *direct
		front.base = address
		b.search = &front
		return func() {
			wait()
			b.search = direct
		}, nil
	}
}

// elasticThreads is how many threads for searches the node has, as many as it would make on two processors.
const elasticThreads = 4

// openElastic starts a node of Elasticsearch with the same documents. It takes as many clauses as its heap allows.
func openElastic(ctx context.Context) (*bench, error) {
	plugin, err := checkout(filepath.Join("tracer", "elasticsearch"), "build.sh")
	if err != nil {
		return nil, err
	}
	server, err := servers.Elasticsearch(ctx, servers.SearchConfig{HeapMiB: searchHeap, Fetch: true, Plugin: plugin,
		Settings: map[string]string{"thread_pool.search.size": strconv.Itoa(elasticThreads)}})
	if err != nil {
		return nil, err
	}
	b, err := filled(ctx, server)
	if err != nil {
		return nil, err
	}
	b.asked = fmt.Sprintf("elasticsearch://127.0.0.1:%d", server.Port)
	b.url = b.asked + "?tasks=" + server.TaskFile()
	return b, nil
}

// elastic is a case of OpenSearch on Elasticsearch, which has no search backpressure.
func elastic(s *scene) *scene {
	s.name += "-elastic"
	s.title = strings.Replace(s.title, "OpenSearch", "Elasticsearch", 1)
	s.about = strings.Replace(s.about, "tracer/opensearch", "tracer/elasticsearch", 1)
	s.start, s.contenders = openElastic, func() []contender { return overHTTP(contenders(), guardOf(asked)) }
	return s
}

func c11Elastic() *scene { return elastic(c11()) }

// c12Elastic has as many clauses as a node of Elasticsearch with this heap takes: 64 a MiB, shared by its search threads, and each range
// counts twice. It refuses more by itself.
func c12Elastic() *scene {
	const clauses = searchHeap*64/elasticThreads/2 - 1
	s := elastic(c12())
	s.about = strings.Replace(s.about, "4,500", fmt.Sprint(clauses), 1)
	s.culprits = repeated(s, func(ctx context.Context, c *searchClient, seed int) error {
		return c.find(ctx, ranges(seed, clauses))
	})
	return s
}
