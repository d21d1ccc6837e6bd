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

// The core of c15.
const (
	solrSlots     = 4
	solrDocuments = 60_000
	// solrClauses is how many ranges the culprit asks for. Solr takes 1,024 unless it is told more.
	solrClauses = 3_000
)

// solrExperiments is c15 on a real Solr.
func solrExperiments() []experiment.Experiment {
	s := c15()
	return []experiment.Experiment{{Name: "atropos/" + s.name, Title: s.title, About: s.about, Live: true,
		Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) { return run(ctx, o, c15()) }}}
}

// startSolr starts a Solr with the documents of c15.
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
	return &bench{url: fmt.Sprintf("solr://127.0.0.1:%d/solr/docs", server.Port), search: c, stop: stop, used: server.CPU}, nil
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

// c15 is a query with many ranges where few queries run at once.
func c15() *scene {
	s := &scene{name: "c15", title: "Solr, few slots: queries with thousands of ranges", objective: searchObjective, rate: 60, lasts: 6 * time.Second, start: startSolr, byOpaque: true,
		about: `Requests search for a word, four at once. From the onset on, four clients send a query with 3,000 ranges, again
and again, as those of Atropos' case have nested ranges or 80,000 terms. Switched off to allow for it: Solr's limit of 1,024
clauses (maxBooleanClauses). The handlers of tracer/solr are in the core in every run; the experiment builds them and needs a checkout of the
sources and a JDK.`,
		nativeTitle: "timeAllowed 1 s in each request"}
	var limited atomic.Bool
	s.request = func(ctx context.Context, b *bench, i int) error {
		return b.search.query(ctx, fmt.Sprintf("body:w%d", i*7919%searchWords), limited.Load())
	}
	for k := range searchClients {
		s.culprits = append(s.culprits, func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
			mark(searchCulprit)
			ctx, cancel := context.WithTimeout(ctx, time.Duration(float64(s.lasts)*size))
			defer cancel()
			for i := 0; ctx.Err() == nil; i++ {
				if err := b.search.as(searchOpaque).query(ctx, solrRanges(k+i*searchClients), limited.Load()); err != nil {
					_ = pause(ctx, 25*ms) // as a client that tries again
				}
			}
			return nil
		})
	}
	s.native = func(_ context.Context, _ *bench, on bool) error {
		limited.Store(on)
		return nil
	}
	s.mend = s.calm
	return s
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
func (c *searchClient) query(ctx context.Context, q string, limited bool) error {
	form := url.Values{"q": {q}, "rows": {"10"}, "wt": {"json"}, "cache": {"false"}}
	if limited {
		form.Set("timeAllowed", "1000")
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
	type document struct {
		ID   string `json:"id"`
		Body string `json:"body"`
		N    int    `json:"n"`
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const most = 10_000
	for from := 0; from < solrDocuments; from += most {
		var all []document
		for i := from; i < from+most; i++ {
			var text strings.Builder
			for range 10 {
				fmt.Fprintf(&text, "w%d ", rng.IntN(searchWords))
			}
			all = append(all, document{strconv.Itoa(i), text.String(), i})
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
