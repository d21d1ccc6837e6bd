package solr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/harness/servers"
)

// On a real Solr with the handlers of tracer/solr, a query is seen and ends with status 503 when it is
// cancelled, another is seen to wait for its slot, and their kind can be kept out: through the handler, and through the
// task file. Solr is used where it is in the
// cache, and not by continuous integration; SPILLGATE_FETCH=1 fetches it.
func TestNode(t *testing.T) {
	fetch := os.Getenv("SPILLGATE_FETCH") == "1"
	if os.Getenv("CI") == "true" && !fetch {
		t.Skip("continuous integration does not fetch 83 MB")
	}
	handlers, err := filepath.Abs(filepath.Join("..", "..", "tracer", "solr"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := servers.Solr(t.Context(), servers.SolrConfig{Handlers: handlers, Slots: 1, Fetch: fetch})
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	base := fmt.Sprintf("http://127.0.0.1:%d/solr/docs", server.Port)
	send := func(ctx context.Context, path, kind, body string) int {
		return post(ctx, client, base+path, kind, body)
	}
	var documents strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&documents, `,{"id":"%d","n":%d}`, i, i)
	}
	if s := send(t.Context(), "/update?commit=true", "application/json", "["+documents.String()[1:]+"]"); s != http.StatusOK {
		t.Fatalf("documents: status %d", s)
	}
	t.Run("distributed", func(t *testing.T) {
		// It has the only slot, and its part on this core must not wait for it.
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		form := url.Values{"q": {"n:7"}, "shards": {fmt.Sprintf("127.0.0.1:%d/solr/docs", server.Port)}}.Encode()
		if s := send(ctx, "/select", "application/x-www-form-urlencoded", form); s != http.StatusOK {
			t.Errorf("a distributed query: status %d", s)
		}
	})
	t.Run("rights", func(t *testing.T) {
		// The right to list and the right to change are told apart by the parameters of the request. Solr adds those of a parameter
		// "json" after it has checked the rights.
		for _, hidden := range []string{`{"params":{"boot":"1","cancel":"1"}}`, `{"params":{"keep_out":"1","millis":"10"}}`} {
			resp, err := client.Post(base+"/spillgate?wt=json&json="+url.QueryEscape(hidden), "application/x-www-form-urlencoded", nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if !strings.Contains(string(body), `"queries"`) {
				t.Errorf("%s: status %d, %s: expected the list, for which the rights were checked", hidden, resp.StatusCode, body)
			}
		}
	})
	url := fmt.Sprintf("solr://127.0.0.1:%d/solr/docs", server.Port)
	t.Run("handler", func(t *testing.T) { cancelOne(t, url, send) })
	t.Run("task file", func(t *testing.T) { cancelOne(t, url+"?tasks="+server.TaskFile(), send) })
	for _, lock := range []string{"lock.concurrent=false", "lock.concurrent=true"} {
		t.Run(lock, func(t *testing.T) { lockSeen(t, url+"?tasks="+server.TaskFile(), lock, send) })
	}
}

// lockSeen has queries come that want a lock inside Solr, of which one keeps it for long: looks show who has it, and who waits.
func lockSeen(t *testing.T, url, lock string, send func(ctx context.Context, path, kind, body string) int) {
	ctx, stop := context.WithCancel(t.Context())
	var querying sync.WaitGroup
	defer querying.Wait()
	defer stop()
	source, err := Open(t.Context(), url, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for _, millis := range []string{"700", "0", "0"} {
		querying.Go(func() {
			for ctx.Err() == nil {
				send(ctx, "/locking", "application/x-www-form-urlencoded", "q=n:7&lock.millis="+millis+"&"+lock)
			}
		})
	}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("in a minute no look showed one query that has the lock and two that wait for it")
		}
		l, err := source.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held, awaited := 0, 0
		for _, h := range l.Sample.Holds {
			if l.Sample.Resources[h.Resource].Name != "locks" {
				continue
			}
			if h.HeldSince != culprit.Unset {
				held++
			}
			if h.WaitingSince != culprit.Unset {
				awaited++
			}
		}
		if held == 1 && awaited == 2 {
			return
		}
	}
}

// post sends a request of the client "long", and returns 0 if it was not answered.
func post(ctx context.Context, client *http.Client, url, kind, body string) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("X-Opaque-Id", "long")
	resp, err := client.Do(r)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// longQuery takes seconds.
func longQuery() string {
	var query strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&query, " OR n:[%d TO %d]^%d", 5*i, 5*i+10_000, i+1)
	}
	return url.Values{"q": {query.String()[4:]}, "cache": {"false"}}.Encode()
}

// cancelOne has two clients send long queries until one of them was cancelled and one was seen to wait, and keeps them out then.
func cancelOne(t *testing.T, url string, send func(ctx context.Context, path, kind, body string) int) {
	const asForm = "application/x-www-form-urlencoded"
	form := longQuery()
	ctx, stop := context.WithCancel(t.Context())
	var searching sync.WaitGroup
	defer searching.Wait()
	defer stop()
	var refused atomic.Int64
	for range 2 {
		searching.Go(func() {
			for ctx.Err() == nil {
				if s := send(ctx, "/select", asForm, form); s == http.StatusServiceUnavailable {
					refused.Add(1)
				}
			}
		})
	}
	source, err := Open(t.Context(), url, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	kind, seen := uint64(0), map[string]bool{}
	for began := time.Now(); refused.Load() == 0 || !seen["query slots awaited"] || !seen["processor used"]; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("in a minute %d queries ended with 503, and looks showed %v", refused.Load(), seen)
		}
		l, err := source.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range l.Sample.Tasks {
			kind = l.Sample.Tasks[i].Kind
			if s := l.Sessions[i]; s.Application != "long" || s.Database != "docs" || !strings.Contains(s.Statement.Text, "q(n)") {
				t.Fatalf("session %+v", s)
			}
		}
		for _, h := range l.Sample.Holds {
			name := l.Sample.Resources[h.Resource].Name
			seen[name+" awaited"] = seen[name+" awaited"] || h.WaitingSince != culprit.Unset
			seen[name+" used"] = seen[name+" used"] || h.Gets > 0
			if name == "query slots" && h.HeldSince != culprit.Unset && seen[name+" awaited"] && seen["processor used"] {
				if _, err := source.Act(t.Context(), l.Sample.Tasks[h.Task].ID, culprit.Statement); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	stop()
	searching.Wait()
	const d = 2 * time.Second
	if err := source.KeepOut(t.Context(), kind, d); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if s := send(t.Context(), "/select", asForm, form); s != http.StatusTooManyRequests {
		t.Errorf("a query of a kind that is kept out: status %d, expected 429", s)
	}
	if s := send(t.Context(), "/select", asForm, "q=n:7"); s != http.StatusOK {
		t.Errorf("a query of another kind: status %d, expected 200", s)
	}
	time.Sleep(time.Until(began.Add(d)))
	if s := send(t.Context(), "/select", asForm, form); s != http.StatusOK {
		t.Errorf("a query of the kind after the time: status %d, expected 200", s)
	}
}
