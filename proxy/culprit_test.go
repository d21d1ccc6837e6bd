package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/culprit"
)

// TestWhatWaitsUpstreamIsCancelled: requests that wait in the upstream hold its only
// slots. They are broken off, their clients learn why, and the others go on; metrics and
// audit log tell of it.
func TestWhatWaitsUpstreamIsCancelled(t *testing.T) {
	var gone, began atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/export" {
			time.Sleep(time.Millisecond)
			return
		}
		began.Add(1)
		<-r.Context().Done()
		gone.Add(1)
	}))
	defer upstream.Close()
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	p := start(t, Config{
		Objective: 100 * time.Millisecond, Upstreams: []Upstream{{Name: "shop", URL: upstream.URL}}, Slots: Slots{Min: 2, Max: 2},
		Culprit: Culprit{Mode: culprit.Enforce, Audit: log},
	})
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("the gate: %+v\nthe audit log's end:\n%s\nthe log:\n%s", p.Status().Upstreams[0], text[max(len(text)-4000, 0):], p.log)
		}
	})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: await.Patience}
	defer client.CloseIdleConnections()
	ctx, stop := context.WithCancel(t.Context())
	ask := func(path string) (int, http.Header) {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
		resp, err := client.Do(r)
		if err != nil {
			return 0, nil
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.Header
	}
	var reads atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
				if code, _ := ask("/read"); code == http.StatusOK {
					reads.Add(1)
				}
			}
		})
	}
	defer await.All(t, &callers, "the clients to end")
	defer stop()
	eventually(t, "reads", func() bool { return reads.Load() > 100 })
	var cancelled atomic.Int64
	for range 2 {
		callers.Go(func() {
			for ctx.Err() == nil && cancelled.Load() == 0 {
				if code, h := ask("/export"); code == http.StatusServiceUnavailable && h.Get("Spillgate-Resend") != "" {
					cancelled.Add(1)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	eventually(t, "a cancel", func() bool { return cancelled.Load() > 0 && gone.Load() > 0 })
	was := reads.Load()
	eventually(t, "reads after it", func() bool { return reads.Load() > was+100 })
	eventually(t, "the metrics", func() bool {
		_, metrics := get(t, client, p.admin+"/metrics")
		_, n, told := strings.Cut(string(metrics), `spillgate_culprit_cancels_total{action="cancel",gate="shop"} `)
		return told && n[0] >= '1' && n[0] <= '9'
	})
	says(t, p, "culprit cancelled")
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"source":"shop"`) {
		t.Errorf("the audit log has %d bytes, %v, expected lines of shop", len(text), err)
	}
}
