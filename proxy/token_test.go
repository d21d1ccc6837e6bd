package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/slots"
)

// TestATokenThroughAChain: a request goes through a proxy and the gate of a service to the
// gate of the service behind, which cancels it. Its client sees the token that this gate
// issued, and shows it at the front: neither gate on the way takes it, the last one lets
// the request in, once.
func TestATokenThroughAChain(t *testing.T) {
	var reads atomic.Int64
	found := make(chan struct{}) // a token: until then exports hang
	hangs := func() bool {
		select {
		case <-found:
			return false
		default:
			return true
		}
	}
	back := gated(t, live.GateConfig{
		Config:  admission.Config{Objective: 100 * time.Millisecond, Slots: slots.Config{Min: 2, Max: 2, Initial: 2}},
		Culprit: live.CulpritConfig{Mode: culprit.Enforce},
	}, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/read":
			time.Sleep(time.Millisecond)
		case hangs():
			select {
			case <-r.Context().Done():
			case <-found:
			}
		default:
			_, _ = io.WriteString(w, "done")
		}
	})
	calls := httpgate.Transport(&http.Transport{MaxIdleConnsPerHost: 32})
	middle := gated(t, live.GateConfig{Config: admission.Config{Objective: time.Second}}, relay(t, calls, back))
	front := start(t, Config{Objective: time.Second, Upstreams: []Upstream{{Name: "shop", URL: middle}}})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, Timeout: await.Patience}
	defer client.CloseIdleConnections()
	ctx, stop := context.WithCancel(t.Context())
	ask := func(path, token string) (int, string) { return askWith(ctx, client, front.url+path, token) }
	var callers sync.WaitGroup
	defer await.All(t, &callers, "the clients to end")
	defer stop()
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	for range 8 {
		callers.Go(func() { readOn(reading, ask, &reads) })
	}
	eventually(t, "reads", func() bool { return reads.Load() > 100 })
	tokens := make(chan string, 2)
	for range 2 {
		callers.Go(func() {
			for ctx.Err() == nil && hangs() {
				if _, token := ask("/export", ""); token != "" {
					tokens <- token
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	var token string
	eventually(t, "a token", func() bool {
		select {
		case token = <-tokens:
		default:
		}
		return token != ""
	})
	close(found)
	if code, _ := ask("/export", ""); code == http.StatusOK {
		t.Errorf("without the token the status is %d, expected that the kind is kept out", code)
	}
	// The token counts once the server has been well for a while, which with readers a busy
	// machine may never be.
	stopReading()
	eventually(t, "an answer with the token", func() bool {
		time.Sleep(50 * time.Millisecond)
		code, _ := ask("/export", token)
		return code == http.StatusOK
	})
	if code, _ := ask("/export", token); code == http.StatusOK {
		t.Errorf("with the token a second time the status is %d, expected that the kind is kept out", code)
	}
}

// relay returns a handler that passes requests on to a service behind, and its answers
// back.
func relay(t *testing.T, calls http.RoundTripper, back string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		call, err := http.NewRequestWithContext(r.Context(), http.MethodGet, back+r.URL.Path, nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := calls.RoundTrip(call)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		for _, name := range []string{"Spillgate-Resend", "Retry-After"} {
			if v := resp.Header.Get(name); v != "" {
				w.Header().Set(name, v)
			}
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}
}

// readOn reads until ctx ends and counts what is answered.
func readOn(ctx context.Context, ask func(path, token string) (int, string), reads *atomic.Int64) {
	for ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
		if code, _ := ask("/read", ""); code == http.StatusOK {
			reads.Add(1)
		}
	}
}

// askWith sends a request, with a token if there is one, and returns the status of its
// answer and the token in that; 0 if there is none.
func askWith(ctx context.Context, client *http.Client, url, token string) (int, string) {
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if token != "" {
		r.Header.Set("Spillgate", token)
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header.Get("Spillgate-Resend")
}

// gated starts a service behind a gate, and returns its address.
func gated(t *testing.T, cfg live.GateConfig, handle http.HandlerFunc) string {
	t.Helper()
	gate, err := live.NewGate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(httpgate.Handler(gate, handle))
	httpgate.Track(server.Config)
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		_ = gate.Close()
	})
	return server.URL
}
