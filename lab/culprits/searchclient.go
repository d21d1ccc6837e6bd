package culprits

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
)

// searchWords is how many words the documents are made of.
const searchWords = 5_000

// searchClient speaks what the scenes need of OpenSearch's interface, and sends nothing twice.
type searchClient struct {
	base   string
	opaque string
	http   *http.Client
}

func newSearchClient(port int) *searchClient {
	return &searchClient{fmt.Sprintf("http://127.0.0.1:%d", port), "application", &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}}}
}

func (c *searchClient) close() { c.http.CloseIdleConnections() }

// as returns the client of another application.
func (c *searchClient) as(opaque string) *searchClient {
	other := *c
	other.opaque = opaque
	return &other
}

// send sends a request, and returns an error for anything but success.
func (c *searchClient) send(ctx context.Context, method, path, kind string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.GetBody = nil // or the transport would send it again where a connection was closed
	r.Header.Set("Content-Type", kind)
	r.Header.Set("X-Opaque-Id", c.opaque)
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: status %d: %.300s", method, path, resp.StatusCode, answer)
	}
	return answer, err
}

const (
	asJSON  = "application/json"
	asLines = "application/x-ndjson"
)

// find searches. An answer that lacks a shard, or ended early, is a failure.
func (c *searchClient) find(ctx context.Context, query string) error {
	answer, err := c.send(ctx, http.MethodPost, "/docs/_search?request_cache=false", asJSON, []byte(query))
	if err != nil {
		return err
	}
	var v struct {
		TimedOut bool `json:"timed_out"`
		Shards   struct {
			Failed int `json:"failed"`
		} `json:"_shards"`
	}
	if err := json.Unmarshal(answer, &v); err != nil {
		return err
	}
	if v.TimedOut || v.Shards.Failed > 0 {
		return fmt.Errorf("timed out %v, %d shards failed, expected the whole answer", v.TimedOut, v.Shards.Failed)
	}
	return nil
}

// cached searches, and takes an answer from the cache.
func (c *searchClient) cached(ctx context.Context, query string) error {
	_, err := c.send(ctx, http.MethodPost, "/docs/_search?request_cache=true&allow_partial_search_results=false", asJSON, []byte(query))
	return err
}

// cachedAtOnce sends eight aggregations in one request, whose answers have some hundred kilobytes each.
func (c *searchClient) cachedAtOnce(ctx context.Context, seed int) error {
	const at, buckets = 8, 5000
	var body strings.Builder
	for i := range at {
		fmt.Fprintf(&body, "{\"request_cache\":true}\n"+`{"size":0,"aggs":{"a":{"histogram":{"field":"n","interval":%d,"offset":%d},"aggs":{"m":{"avg":{"field":"n"}}}}}}`+"\n", searchDocuments/buckets, seed*at+i)
	}
	_, err := c.send(ctx, http.MethodPost, "/docs/_msearch", asLines, []byte(body.String()))
	return err
}

// update changes a field of a document, and has the server try again so often if it was changed meanwhile.
func (c *searchClient) update(ctx context.Context, id string, value, retries int) error {
	path := fmt.Sprintf("/docs/_update/%s?retry_on_conflict=%d", id, retries)
	_, err := c.send(ctx, http.MethodPost, path, asJSON, fmt.Appendf(nil, `{"doc":{"n":%d}}`, value))
	return err
}

// bulkOne writes one document many times.
func (c *searchClient) bulkOne(ctx context.Context, id string, times, seed int) error {
	var body bytes.Buffer
	for i := range times {
		fmt.Fprintf(&body, `{"index":{"_id":%q}}`+"\n"+`{"body":"w%d","n":%d}`+"\n", id, seed, i)
	}
	_, err := c.send(ctx, http.MethodPost, "/docs/_bulk", asLines, body.Bytes())
	return err
}

// settings sets some of the cluster, or takes them back.
func (c *searchClient) settings(ctx context.Context, on bool, values map[string]string) error {
	all := map[string]any{}
	for name, value := range values {
		if all[name] = any(nil); on {
			all[name] = value
		}
	}
	body, err := json.Marshal(map[string]any{"transient": all})
	if err != nil {
		return err
	}
	_, err = c.send(ctx, http.MethodPut, "/_cluster/settings", asJSON, body)
	return err
}

// fill makes the index of the scenes.
func (c *searchClient) fill(ctx context.Context) error {
	index := fmt.Sprintf(`{"settings":{"number_of_shards":%d,"number_of_replicas":0,"refresh_interval":"-1"},"mappings":{"properties":{"body":{"type":"text"},"n":{"type":"integer"}}}}`, searchShards)
	if _, err := c.send(ctx, http.MethodPut, "/docs", asJSON, []byte(index)); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const most = 5_000
	for from := 0; from < searchDocuments; from += most {
		var body bytes.Buffer
		for i := from; i < from+most; i++ {
			var text strings.Builder
			for range 10 {
				fmt.Fprintf(&text, "w%d ", rng.IntN(searchWords))
			}
			fmt.Fprintf(&body, `{"index":{"_id":%q}}`+"\n"+`{"body":%q,"n":%d}`+"\n", strconv.Itoa(i), text.String(), i)
		}
		if _, err := c.send(ctx, http.MethodPost, "/docs/_bulk", asLines, body.Bytes()); err != nil {
			return err
		}
	}
	if err := c.bulkOne(ctx, "hot", 1, 0); err != nil {
		return err
	}
	_, err := c.send(ctx, http.MethodPost, "/docs/_refresh", asJSON, nil)
	return err
}
