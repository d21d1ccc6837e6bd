package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/work"
)

// exporter is a server with a table that an export keeps from all reads, also when whoever
// asked for it is gone.
type exporter struct {
	table   sync.RWMutex
	exports atomic.Int64 // that ran to their end
}

func (s *exporter) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/export" {
		s.table.Lock()
		defer s.table.Unlock()
		time.Sleep(300 * time.Millisecond)
		s.exports.Add(1)
		return
	}
	s.table.RLock()
	defer s.table.RUnlock()
}

// TestWhatCannotBeCancelledIsKeptOut: a rule says that exports hold the table and go on
// without their caller. They are named, none is broken off, and no more of the kind begin
// while reads go on.
func TestWhatCannotBeCancelledIsKeptOut(t *testing.T) {
	var s exporter
	upstream := httptest.NewServer(&s)
	defer upstream.Close()
	last := work.MaxPriority
	p := start(t, Config{
		Objective: 50 * time.Millisecond, Upstreams: []Upstream{{Name: "shop", URL: upstream.URL}}, Culprit: Culprit{Mode: culprit.Enforce},
		Rules: []classify.Rule{
			{Match: classify.Match{Path: []string{"/export"}}, Set: classify.Set{Priority: &last, Use: classify.Use{Kind: "exports", Holds: "table", NoCancel: true}}},
			{Set: classify.Set{Use: classify.Use{Needs: "table"}}},
		},
	})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: await.Patience}
	defer client.CloseIdleConnections()
	stop := make(chan struct{})
	ask := func(path string) int {
		resp, err := client.Get(p.url + path)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	loop := func(pause time.Duration, do func()) func() {
		return func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(pause):
					do()
				}
			}
		}
	}
	var reads, refused, answered atomic.Int64
	var callers sync.WaitGroup
	defer await.All(t, &callers, "the clients to end")
	defer close(stop)
	for range 32 {
		callers.Go(loop(20*time.Millisecond, func() {
			if ask("/read") == http.StatusOK {
				reads.Add(1)
			}
		}))
	}
	eventually(t, "reads", func() bool { return reads.Load() > 500 })
	for range 2 {
		callers.Go(loop(10*time.Millisecond, func() {
			switch ask("/export") {
			case http.StatusOK:
				answered.Add(1)
			case http.StatusServiceUnavailable:
				refused.Add(1)
			}
		}))
	}
	eventually(t, "a culprit", func() bool {
		return strings.Contains(p.log.String(), "kind=exports") && strings.Contains(p.log.String(), "state=named")
	})
	eventually(t, "a limit", func() bool {
		_, metrics := get(t, client, p.admin+"/metrics")
		return strings.Contains(string(metrics), `spillgate_culprit_limits{gate="shop"} 1`)
	})
	ran, was := s.exports.Load(), reads.Load()
	eventually(t, "reads after it", func() bool { return reads.Load() > was+500 && refused.Load() > 0 })
	if now := s.exports.Load(); now > ran+2 {
		t.Errorf("%d exports ran after their kind was limited, expected those that were inside, at most 2", now-ran)
	}
	if strings.Contains(p.log.String(), "culprit cancelled") {
		t.Errorf("an export was cancelled:\n%s", p.log)
	}
}

// TestAtOnce: of a rule with a bound, one more is refused at once, and others are not.
func TestAtOnce(t *testing.T) {
	release, inside := make(chan struct{}), make(chan struct{}, 8)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/export" {
			inside <- struct{}{}
			<-release
		}
	}))
	defer upstream.Close()
	last := work.MaxPriority
	p := start(t, Config{Upstreams: []Upstream{{URL: upstream.URL}}, Rules: []classify.Rule{
		{Match: classify.Match{Path: []string{"/export"}}, Set: classify.Set{Use: classify.Use{AtOnce: 2}}},
		{Match: classify.Match{Path: []string{"/bulk/"}}, Set: classify.Set{Priority: &last}}}})
	client := &http.Client{Transport: &http.Transport{}, Timeout: await.Patience}
	defer client.CloseIdleConnections()
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			if resp, _ := get(t, client, p.url+"/export"); resp.StatusCode != http.StatusOK {
				t.Errorf("an export within the bound: %s", resp.Status)
			}
		})
		await.Value(t, inside, "a request to reach the handler")
	}
	if resp, _ := get(t, client, p.url+"/export"); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %s, expected 429 and when to come again", resp.Status)
	}
	if resp, _ := get(t, client, p.url+"/bulk/..%2fexport"); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more that may be of a rule without a bound: %s, expected 429", resp.Status)
	}
	if resp, _ := get(t, client, p.url+"/other"); resp.StatusCode != http.StatusOK {
		t.Errorf("another request: %s", resp.Status)
	}
	close(release)
	await.All(t, &callers, "the clients to end")
	if resp, _ := get(t, client, p.url+"/export"); resp.StatusCode != http.StatusOK {
		t.Errorf("an export after the others: %s", resp.Status)
	}
	if _, metrics := get(t, client, p.admin+"/metrics"); !strings.Contains(string(metrics), `spillgate_rule_refusals_total{rule="1"} 2`) {
		t.Error("the metrics do not count the refusals")
	}
}

// TestAtOnceOverReloads: requests that were let in under one configuration count under the next,
// also where their rule has another place or another bound. Else each reload, and each change of
// an upstream's addresses, would let in as many again.
func TestAtOnceOverReloads(t *testing.T) {
	release, inside := make(chan struct{}), make(chan struct{}, 8)
	_, addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/export" {
			inside <- struct{}{}
			<-release
		}
	}))
	export := func(most int) classify.Rule {
		return classify.Rule{Match: classify.Match{Path: []string{"/export"}}, Set: classify.Set{Use: classify.Use{AtOnce: most}}}
	}
	cfg := to("http://" + addr)
	cfg.Rules = []classify.Rule{export(1)}
	p := start(t, cfg)
	c := client(t, 1, nil)
	var callers sync.WaitGroup
	callers.Go(func() {
		if resp, _ := get(t, c, p.url+"/export"); resp.StatusCode != http.StatusOK {
			t.Errorf("the first export: %s", resp.Status)
		}
	})
	await.Value(t, inside, "a request to reach the handler")
	for _, rules := range [][]classify.Rule{
		{export(1)},
		{{Match: classify.Match{Path: []string{"/other"}}, Set: classify.Set{Use: classify.Use{AtOnce: 1}}}, export(1)},
	} {
		next := p.state.Load().cfg
		next.Rules = rules
		if _, err := p.Reload(next); err != nil {
			t.Fatal(err)
		}
		if resp, _ := get(t, c, p.url+"/export"); resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("one more export after a reload with %d rules: %s, expected 429", len(rules), resp.Status)
		}
		if resp, _ := get(t, c, p.url+"/other"); resp.StatusCode != http.StatusOK {
			t.Errorf("another request: %s", resp.Status)
		}
	}
	close(release)
	await.All(t, &callers, "the client to end")
	if resp, _ := get(t, c, p.url+"/export"); resp.StatusCode != http.StatusOK {
		t.Errorf("an export after the other: %s", resp.Status)
	}
}

// A request whose path servers read in several ways counts with the bound of each reading.
func TestAtOnceOfEachReading(t *testing.T) {
	entered, leave := make(chan struct{}, 4), make(chan struct{})
	_, addr := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	}))
	atOnce := func(path string, n int) classify.Rule {
		return classify.Rule{Match: classify.Match{Path: []string{path}}, Set: classify.Set{Use: classify.Use{AtOnce: n}}}
	}
	cfg := to("http://" + addr)
	cfg.Rules = []classify.Rule{atOnce("/a/", 2), atOnce("/b/", 1)}
	p := start(t, cfg)
	var inside sync.WaitGroup
	defer inside.Wait()
	defer close(leave)
	for _, path := range []string{"/a/..%2fb/x", "/a/x"} {
		inside.Go(func() {
			resp, err := client(t, 1, nil).Get(p.url + path)
			if err != nil {
				t.Error(err)
				return
			}
			if resp.Body.Close(); resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", path, resp.Status)
			}
		})
		await.Value(t, entered, path+" to reach the handler")
	}
	c := client(t, 1, nil)
	for _, path := range []string{"/a/x", "/b/x", "/b/..%2fa/x"} {
		if resp, _ := get(t, c, p.url+path); resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%s: %s, expected that it is one too many", path, resp.Status)
		}
	}
	if counts := p.state.Load().inside; counts[0].Load() != 2 || counts[1].Load() != 1 {
		t.Errorf("%d and %d count with the rules, expected 2 and 1", counts[0].Load(), counts[1].Load())
	}
}
