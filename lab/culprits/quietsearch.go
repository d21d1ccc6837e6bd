package culprits

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/lab/experiment"
)

// quietSearch guards each search server in mode enforce while nothing is wrong.
func quietSearch() experiment.Experiment {
	return quietly("atropos/quiet-search", "Guards in mode enforce beside healthy search servers: no request may be cancelled",
		"A load with bursts and idle spells, and beside it, in turn, reports, large pages, bulk requests, work by query, refreshes, merges and commits. No cancel is right.", searchServers)
}

// searchServers are the search servers with a load, and what goes on beside it. Nothing of it is a culprit.
func searchServers() []quietServer {
	node, elastic, core := c12(), c12Elastic(), c14()
	node.name, elastic.name, core.name = "OpenSearch", "Elasticsearch", "Solr"
	for _, s := range []*scene{node, elastic, core} {
		s.culprits = nil
	}
	node.request = findOrWrite
	elastic.request = findOrWrite
	// The distributions for tests have no work by query.
	some := slices.DeleteFunc(nodeChores(), func(c chore) bool { return strings.HasSuffix(c.name, "by query") })
	return []quietServer{{scene: *node, chores: some}, {scene: *elastic, chores: some}, {scene: *core, chores: coreChores()}}
}

// findOrWrite is nine searches of ten, and else an update of one of many documents.
func findOrWrite(ctx context.Context, b *bench, i int) error {
	if i%10 == 0 {
		return b.search.update(ctx, fmt.Sprint(i*7919%searchDocuments), i, searchRetries)
	}
	return findWord(ctx, b, i)
}

// nodeChores are those of a node of OpenSearch or Elasticsearch.
func nodeChores() []chore {
	send := func(path, kind, body string) func(context.Context, *bench) error {
		return func(ctx context.Context, b *bench) error {
			_, err := b.search.as("chore").send(ctx, http.MethodPost, path, kind, []byte(body))
			return err
		}
	}
	const all = `{"query":{"match_all":{}}}`
	return []chore{
		{"report", send("/docs/_search?request_cache=false", asJSON, `{"size":0,"aggs":{"a":{"histogram":{"field":"n","interval":500},"aggs":{"m":{"stats":{"field":"n"}}}}}}`)},
		{"bulk request", send("/other/_bulk", asLines, strings.Repeat("{\"index\":{}}\n{\"body\":\"w1 w2 w3\",\"n\":1}\n", 2000))},
		{"refresh", send("/docs,other/_refresh", asJSON, "")},
		{"large page", send("/docs/_search?request_cache=false", asJSON, `{"size":5000,"query":{"match_all":{}},"sort":["n"]}`)},
		{"update by query", send("/other/_update_by_query?conflicts=proceed", asJSON, all)},
		{"hundred ranges", func(ctx context.Context, b *bench) error {
			var clauses []string
			for i := range 100 {
				clauses = append(clauses, fmt.Sprintf(`{"range":{"n":{"gte":%d,"lte":%d}}}`, i*500, i*500+200))
			}
			return b.search.as("chore").find(ctx, `{"query":{"bool":{"should":[`+strings.Join(clauses, ",")+`]}}}`)
		}},
		{"delete by query", send("/other/_delete_by_query?conflicts=proceed&refresh=true", asJSON, all)},
		{"merge", send("/docs,other/_forcemerge?max_num_segments=1", asJSON, "")},
	}
}

// coreChores are those of a core of Solr.
func coreChores() []chore {
	ask := func(form url.Values) func(context.Context, *bench) error {
		return func(ctx context.Context, b *bench) error {
			form.Set("wt", "json")
			_, err := b.search.as("chore").send(ctx, http.MethodPost, "/select", "application/x-www-form-urlencoded", []byte(form.Encode()))
			return err
		}
	}
	update := func(path, body string) func(context.Context, *bench) error {
		return func(ctx context.Context, b *bench) error {
			_, err := b.search.as("chore").send(ctx, http.MethodPost, path, asJSON, []byte(body))
			return err
		}
	}
	report := url.Values{"q": {"*:*"}, "rows": {"0"}, "stats": {"true"}, "cache": {"false"}}
	for i := range 20 {
		report.Add("stats.field", fmt.Sprintf("s_%d", i))
	}
	return []chore{
		{"report", ask(report)},
		{"documents", update("/update", `[{"id":"a","n":1},{"id":"b","n":2}]`)}, {"commit", update("/update?commit=true", "[]")},
		{"large page", ask(url.Values{"q": {"*:*"}, "rows": {"5000"}, "sort": {"n desc"}, "cache": {"false"}})},
		{"hundred ranges", ask(url.Values{"q": {strings.Repeat("n:[1 TO 300] OR ", 100) + "n:7"}, "cache": {"false"}})},
		{"merge", update("/update?optimize=true", "[]")},
	}
}
