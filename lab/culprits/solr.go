package culprits

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/harness/servers"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The core of c14 and c15.
const (
	solrSlots     = 4
	solrDocuments = 60_000
	// solrClauses is how many ranges the culprit of c15 asks for. Solr takes 1,024 unless it is told more.
	solrClauses = 3_000
	// solrFields is how many fields of strings there are, of which solrWide documents have solrEach each.
	solrFields, solrWide, solrEach = 2_000, 10_000, 20
)

// solrExperiments are c14, c15 and more on a real Solr.
func solrExperiments() []experiment.Experiment { return made(c14, c15, solrFacet, solrCommits) }

// startSolr starts a Solr with the documents of the scenes.
func startSolr(ctx context.Context) (*bench, error) {
	handlers, err := checkout(filepath.Join("tracer", "solr"), "build.sh")
	if err != nil {
		return nil, err
	}
	server, err := servers.Solr(ctx, servers.SolrConfig{Handlers: handlers, Slots: solrSlots, Fetch: true})
	if err != nil {
		return nil, err
	}
	c := newSearchClient(server.Port)
	c.base += "/solr/docs"
	stop := func() {
		c.close()
		server.Stop()
	}
	if err := c.fillSolr(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("filling Solr: %w", err)
	}
	asked := fmt.Sprintf("solr://127.0.0.1:%d/solr/docs", server.Port)
	return &bench{url: asked + "?tasks=" + server.TaskFile(), asked: asked, search: c, stop: stop, ended: server.Exited(), used: server.CPU}, nil
}

// checkout returns a directory of the sources that has a file, which it looks for upwards from here.
func checkout(source, file string) (string, error) {
	from, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for root := from; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, source, file)); err == nil {
			return filepath.Join(root, source), nil
		}
		if root == filepath.Dir(root) {
			return "", fmt.Errorf("%w: %s is not above %s; run this in a checkout", servers.ErrMissing, source, from)
		}
	}
}

// c14 asks for statistics of many fields.
func c14() *scene {
	return solrScene("c14", "Solr, few slots: statistics of thousands of fields", `Requests search for a word, four at once. From the onset on, four clients ask for statistics of 2,000 fields of
strings, again and again, as in Atropos' case. There the requests wait for a lock of the index; Solr 9.9 reads such fields from columns, without
a lock, so here they wait for a slot and a processor.`, solrStats)
}

// c15 is a query with many ranges where few queries run at once.
func c15() *scene {
	return solrScene("c15", "Solr, few slots: queries with thousands of ranges", `Requests search for a word, four at once. From the onset on, four clients send a query with 3,000 ranges, again
and again, as those of Atropos' case have nested ranges or 80,000 terms. Switched off to allow for it: Solr's limit of 1,024
clauses (maxBooleanClauses).`, func(seed int) url.Values { return url.Values{"q": {solrRanges(seed)}} })
}

// solrScene is a case of a core with few slots, whose culprits send one query after the other.
func solrScene(name, title, about string, culprit func(seed int) url.Values) *scene {
	s := &scene{name: name, title: title, objective: searchObjective, measured: true, rate: 60, lasts: 6 * time.Second, start: startSolr, application: searchOpaque, slow: true,
		about: about + `
The handlers of tracer/solr are in the core in every run, and write a task file while a guard reads it; the experiment builds them and needs a checkout of the
sources and a JDK. The guard "over HTTP" asks the handler instead.`,
		nativeTitle: "timeAllowed 1 s and cpuAllowed 0.5 s in each request"}
	var limited atomic.Bool
	s.request = func(ctx context.Context, b *bench, i int) error {
		return b.search.query(ctx, url.Values{"q": {fmt.Sprintf("body:w%d", i*7919%searchWords)}}, limited.Load())
	}
	s.culprits = repeated(s, func(ctx context.Context, c *searchClient, seed int) error {
		return c.query(ctx, culprit(seed), limited.Load())
	})
	s.native = func(_ context.Context, _ *bench, on bool) error {
		limited.Store(on)
		return nil
	}
	s.contenders = func() []contender { return overHTTP(contenders(), guardOf(asked)) }
	s.mend = s.calm
	return s
}

// solrStats asks for the statistics of all fields of strings.
func solrStats(seed int) url.Values {
	form := url.Values{"q": {fmt.Sprintf("n:[%d TO *]", seed)}, "stats": {"true"}}
	for i := range solrFields {
		form.Add("stats.field", fmt.Sprintf("s_%d", i))
	}
	return form
}

// solrRanges is the query of c15.
func solrRanges(seed int) string {
	var text strings.Builder
	for i := range solrClauses {
		if i > 0 {
			text.WriteString(" OR ")
		}
		from := (i*97 + seed*13) % (solrDocuments * 3 / 4)
		fmt.Fprintf(&text, "n:[%d TO %d]^%d", from, from+solrDocuments/4, i+1)
	}
	return text.String()
}

// query searches a core of Solr. An answer with partial results is a failure.
func (c *searchClient) query(ctx context.Context, form url.Values, limited bool) error {
	form.Set("rows", "10")
	form.Set("wt", "json")
	form.Set("cache", "false")
	if limited {
		form.Set("timeAllowed", "1000")
		form.Set("cpuAllowed", "500")
	}
	answer, err := c.send(ctx, http.MethodPost, "/select", "application/x-www-form-urlencoded", []byte(form.Encode()))
	if err != nil {
		return err
	}
	var v struct {
		Header struct {
			Partial any `json:"partialResults"`
		} `json:"responseHeader"`
	}
	if err := json.Unmarshal(answer, &v); err != nil {
		return err
	}
	if v.Header.Partial != nil {
		return fmt.Errorf("partialResults is %v, expected the whole answer", v.Header.Partial)
	}
	return nil
}

// fillSolr puts the documents into the core.
func (c *searchClient) fillSolr(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(1, 2))
	const most = 10_000
	for from := 0; from < solrDocuments; from += most {
		var all []map[string]any
		for i := from; i < from+most; i++ {
			var text strings.Builder
			for range 10 {
				fmt.Fprintf(&text, "w%d ", rng.IntN(searchWords))
			}
			document := map[string]any{"id": strconv.Itoa(i), "body": text.String(), "n": i}
			for k := range solrEach {
				if i < solrWide {
					document[fmt.Sprintf("s_%d", (i*solrEach+k)%solrFields)] = fmt.Sprintf("%x", rng.Uint64())
				}
			}
			all = append(all, document)
		}
		var body bytes.Buffer
		if err := json.NewEncoder(&body).Encode(all); err != nil {
			return err
		}
		if _, err := c.send(ctx, http.MethodPost, "/update?commit=true", asJSON, body.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
