package telemetry_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/telemetry"
)

// A handler that calls without the context of its request, and one that does not:
// the metrics of the gate in front of them show the former's calls, with nothing set
// up but what every program with metrics sets up.
func TestUntaggedCalls(t *testing.T) {
	below := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer below.Close()
	metrics, err := telemetry.New()
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Shutdown(context.Background())
	instruments, err := telemetry.NewGate(metrics.Meter(), "shop", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: time.Minute}, Observe: instruments.Observe})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	stop, err := instruments.Watch(gate)
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: httpgate.Transport(base, httpgate.CountUntagged(gate.Untagged()))}
	server := httptest.NewServer(httpgate.Handler(gate, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if r.URL.Path == "/careless" {
			ctx = context.TODO()
		}
		out, _ := http.NewRequestWithContext(ctx, "POST", below.URL, nil)
		resp, err := client.Do(out)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
	}), httpgate.Trust(httpgate.Everyone)))
	defer server.Close()
	for _, path := range []string{"/careful", "/careless", "/careless", "/careful"} {
		r, _ := http.NewRequest("GET", server.URL+path, nil)
		r.Header.Set(wire.HeaderName, wire.Header(wire.Tags{Workflow: "w"}.Append(nil)))
		resp, err := base.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	scrape := func() string {
		w := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		text, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	want := `spillgate_untagged_total{gate="shop",method="POST ` + strings.TrimPrefix(below.URL, "http://") + `"} 2`
	if got := scrape(); !strings.Contains(got, want) {
		t.Errorf("no %s in\n%s", want, got)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(scrape(), "spillgate_untagged_total{") {
		t.Error("reported after stop")
	}
}
