package culprits

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// searchScroll reads all documents, a large page after the other.
func searchScroll() *scene {
	s := &scene{name: "search-scroll", title: "OpenSearch: clients scroll through all documents", objective: searchObjective, rate: 60, lasts: 6 * time.Second, start: openSearch, application: searchOpaque, slow: true,
		about:       `Requests search for a word. From the onset on, four clients read all documents, ten thousand at a time, sorted by a number, again and again: each page is short.` + pluginAbout,
		nativeTitle: "search.default_search_timeout 1 s"}
	s.request = findWord
	s.culprits = repeated(s, func(ctx context.Context, c *searchClient, _ int) error { return c.scroll(ctx) })
	s.native = searchTimeout
	s.contenders, s.mend = searchContenders, s.calm
	return s
}

// searchMerge has the node merge segments, which is no request for data: nobody is to be cancelled.
func searchMerge() *scene {
	s := &scene{name: "search-merge", title: "OpenSearch: segments are merged by force", objective: searchObjective, rate: 60, lasts: 6 * time.Second, start: openSearch, application: searchOpaque, slow: true, nobody: true,
		about: `Requests search for a word. From the onset on, four clients write to another index and have it merged into one segment (_forcemerge), again and again. No request for data is to
blame; the merge itself is maintenance, which is never cancelled unless a rule allows it.` + pluginAbout,
		nativeTitle: "none"}
	s.request = findWord
	s.culprits = repeated(s, func(ctx context.Context, c *searchClient, seed int) error { return c.merge(ctx, seed) })
	s.native = func(context.Context, *bench, bool) error { return nil }
	s.contenders, s.mend = searchContenders, s.calm
	return s
}

// scroll reads all documents.
func (c *searchClient) scroll(ctx context.Context) error {
	var v struct {
		ID   string `json:"_scroll_id"`
		Hits struct {
			Hits []json.RawMessage `json:"hits"`
		} `json:"hits"`
	}
	answer, err := c.send(ctx, http.MethodPost, "/docs/_search?scroll=1m", asJSON, []byte(`{"size":10000,"query":{"match_all":{}},"sort":[{"n":"desc"}]}`))
	for err == nil {
		v.Hits.Hits = nil
		if err = json.Unmarshal(answer, &v); err != nil || len(v.Hits.Hits) == 0 {
			break
		}
		answer, err = c.send(ctx, http.MethodPost, "/_search/scroll", asJSON, fmt.Appendf(nil, `{"scroll":"1m","scroll_id":%q}`, v.ID))
	}
	if v.ID != "" {
		_, _ = c.send(context.WithoutCancel(ctx), http.MethodDelete, "/_search/scroll", asJSON, fmt.Appendf(nil, `{"scroll_id":%q}`, v.ID))
	}
	return err
}

// merge writes some documents and merges what is there.
func (c *searchClient) merge(ctx context.Context, seed int) error {
	var body bytes.Buffer
	for i := range 2000 {
		fmt.Fprintf(&body, `{"index":{}}`+"\n"+`{"body":"w%d w%d w%d w%d","n":%d}`+"\n", i%searchWords, seed, i*31%searchWords, i*7%searchWords, i)
	}
	if _, err := c.send(ctx, http.MethodPost, "/merged/_bulk?refresh=true", asLines, body.Bytes()); err != nil {
		return err
	}
	_, err := c.send(ctx, http.MethodPost, "/merged/_forcemerge?max_num_segments=1", asJSON, nil)
	return err
}

// solrFacet asks how many documents have each word.
func solrFacet() *scene {
	return solrScene("solr-facet", "Solr, few slots: how many documents have each word", `Requests search for a word, four at once. From the onset on, four clients ask for each of 5,000 words in how many documents of a range it is
(facet.method=enum), again and again.`, func(seed int) url.Values {
		return url.Values{"q": {fmt.Sprintf("n:[%d TO *]", seed)}, "facet": {"true"}, "facet.field": {"body"}, "facet.method": {"enum"}, "facet.enum.cache.minDf": {"1000000"}}
	})
}

// solrCommits has a core open a new searcher again and again, which is no query: nobody is to be cancelled.
func solrCommits() *scene {
	s := solrScene("solr-commits", "Solr: commits again and again", `Requests search for a word. From the onset on, four clients write a document and commit, again and again, so that the core opens
a new searcher each time. No query is to blame.`, nil)
	s.nobody, s.measured = true, false
	s.culprits = repeated(s, func(ctx context.Context, c *searchClient, seed int) error {
		_, err := c.send(ctx, http.MethodPost, "/update?commit=true", asJSON, fmt.Appendf(nil, `[{"id":"c%d","n":%d,"body":"w1"}]`, seed%100, seed))
		return err
	})
	return s
}
