package telemetry_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/telemetry"
)

// One line shows what a gate admits and refuses, and what its handlers' clients send: what
// their wallets refuse as well as what servers do.
func TestOneLineOfMetrics(t *testing.T) {
	gate := newGate(t, admission.Config{Objective: time.Minute})
	metrics, err := telemetry.Prometheus(gate, "shop")
	if err != nil {
		t.Fatal(err)
	}
	scrape := func() string {
		w := httptest.NewRecorder()
		metrics.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	held, entered := make(chan struct{}), make(chan struct{}, 1)
	store := newGate(t, admission.Config{Objective: time.Minute, Slots: slots.Config{Min: 1, Max: 1}})
	below := httptest.NewUnstartedServer(httpgate.Handler(store, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			entered <- struct{}{}
			<-held
		}
	})))
	httpgate.Track(below.Config)
	below.Start()
	defer below.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: httpgate.Transport(base, httpgate.CountCalls(gate.Calls()))}
	defer client.CloseIdleConnections()
	call := func(r *http.Request, url string) {
		out, _ := http.NewRequestWithContext(r.Context(), "GET", url, nil)
		if resp, err := client.Do(out); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	front := httpgate.Handler(gate, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		call(r, below.URL+r.URL.Path)
	}))
	ask := func(path string) { front.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)) }
	ask("/")
	store.Drain()
	ask("/refused")
	call(httptest.NewRequest("GET", "/", nil), "http://127.0.0.1:1/")

	host := strings.TrimPrefix(below.URL, "http://")
	got := scrape()
	for _, want := range []string{
		`spillgate_requests_total{class="default",decision="admit",gate="shop",outcome="done",reason="none"} 1`,
		`spillgate_client_requests_total{decision="answered",gate="shop",reason="none",target="` + host + `"} 1`,
		`spillgate_client_requests_total{decision="refused",gate="shop",reason="draining",target="` + host + `"} 1`,
		`spillgate_client_requests_total{decision="failed",gate="shop",reason="none",target="127.0.0.1:1"} 1`,
		`spillgate_client_window{gate="shop",target="` + host + `"} `,
		`spillgate_client_waiting{gate="shop",target="` + host + `"} 0`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, `spillgate_client_window{gate="shop",target="127.0.0.1:1"}`) {
		t.Error("a window of a server that granted none")
	}
	close(held)
	select {
	case <-entered:
	default:
	}
}

// A service that serves a registry of its own finds the metrics of all its gates there, beside
// its own metrics.
func TestInARegistryOfTheService(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "orders_total"}))
	for _, name := range []string{"shop", "store"} {
		gate := newGate(t, admission.Config{Objective: time.Minute})
		if err := telemetry.Register(registry, gate, name); err != nil {
			t.Fatal(err)
		}
		httpgate.Handler(gate, http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		"orders_total 0",
		`spillgate_requests_total{class="default",decision="admit",gate="shop",outcome="done",reason="none"} 1`,
		`spillgate_requests_total{class="default",decision="admit",gate="store",outcome="done",reason="none"} 1`,
		`spillgate_service_seconds_count{gate="shop"} 1`,
		`spillgate_service_seconds_count{gate="store"} 1`,
		`spillgate_slots_limit{gate="store"} `,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s in\n%s", want, w.Body)
		}
	}
	err := telemetry.Register(registry, newGate(t, admission.Config{Objective: time.Minute}), "shop")
	if err == nil || !strings.Contains(err.Error(), `a gate "shop" already`) {
		t.Errorf("a second gate of the name shop: %v, want an error that says so", err)
	}
	if _, err := registry.Gather(); err != nil {
		t.Errorf("after that the registry serves nothing: %v", err)
	}
	if telemetry.Register(nil, newGate(t, admission.Config{Objective: time.Minute}), "shop") == nil {
		t.Error("no registry, and no error")
	}
	if telemetry.Register(prometheus.NewRegistry(), nil, "shop") == nil {
		t.Error("no gate, and no error")
	}
	if _, err := telemetry.Prometheus(nil, "shop"); err == nil {
		t.Error("no gate, and no error")
	}
}

// moody takes some collectors, and no more.
type moody struct {
	*prometheus.Registry
	takes int
}

func (m *moody) Register(c prometheus.Collector) error {
	if m.takes--; m.takes < 0 {
		return errors.New("moody")
	}
	return m.Registry.Register(c)
}

// A registration that fails leaves the name free for one that does not.
func TestAFailedRegistrationKeepsNoName(t *testing.T) {
	registry := &moody{Registry: prometheus.NewRegistry()}
	gate := newGate(t, admission.Config{Objective: time.Minute})
	for registry.takes = range 4 { // the name, two histograms, the exporter
		if err := telemetry.Register(registry, gate, "shop"); err == nil {
			t.Fatalf("the registry took %d collectors; expected an error", registry.takes)
		}
	}
	registry.takes = 4
	if err := telemetry.Register(registry, gate, "shop"); err != nil {
		t.Errorf("after the mistake is gone: %v", err)
	}
	if _, err := registry.Gather(); err != nil {
		t.Errorf("the registry serves nothing: %v", err)
	}
}

// A gate is reported once: what two reports of a name count would be added up.
func TestAGateIsReportedOnce(t *testing.T) {
	provider := sdkmetric.NewMeterProvider()
	defer provider.Shutdown(t.Context())
	gate := newGate(t, admission.Config{Objective: time.Minute})
	for range 2 {
		stop, err := telemetry.ReportTo(provider, gate, "shop")
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []*live.Gate{gate, newGate(t, admission.Config{Objective: time.Minute})} {
			if _, err := telemetry.ReportTo(provider, other, "shop"); err == nil {
				t.Error("two are reported by one name")
			}
		}
		other, err := telemetry.ReportTo(provider, gate, "other")
		if err != nil {
			t.Error(err)
		}
		for _, stop := range []func() error{stop, stop, other} {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
		if _, err := telemetry.ReportTo(provider, nil, "shop"); err == nil {
			t.Error("no gate is reported")
		}
	}
}

// A provider that cannot be told from others is taken as it is.
func TestReportsToAProviderThatCannotBeCompared(t *testing.T) {
	provider := struct {
		metric.MeterProvider
		more any
	}{sdkmetric.NewMeterProvider(), []int{1}}
	gate := newGate(t, admission.Config{Objective: time.Minute})
	stop, err := telemetry.ReportTo(provider, gate, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// What a wallet refuses is counted by its reason, also where the program has no gate.
func TestCallsWithoutAGate(t *testing.T) {
	provider, err := telemetry.New()
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Shutdown(t.Context())
	sent := new(live.Calls)
	stop, err := telemetry.WatchCalls(provider.Meter(), sent)
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: httpgate.Transport(base, httpgate.CountCalls(sent), httpgate.Wallet(credit.WalletConfig{MaxWait: time.Millisecond}))}
	held := make(chan struct{})
	store := newGate(t, admission.Config{Objective: time.Minute})
	below := httptest.NewUnstartedServer(httpgate.Handler(store, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held })))
	httpgate.Track(below.Config)
	below.Start()
	defer below.Close()
	done := make(chan struct{}, 64)
	for range cap(done) {
		go func() { // more than a first flight
			if resp, err := client.Get(below.URL); err == nil {
				resp.Body.Close()
			}
			done <- struct{}{}
		}()
	}
	scrape := func() string {
		w := httptest.NewRecorder()
		provider.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	want := `spillgate_client_requests_total{decision="unsent",reason="wallet_expired",target="` + strings.TrimPrefix(below.URL, "http://") + `"} `
	end := time.Now().Add(time.Minute)
	for !strings.Contains(scrape(), want) && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
	if got := scrape(); !strings.Contains(got, want) {
		t.Errorf("no %s in\n%s", want, got)
	}
	close(held)
	for range cap(done) {
		<-done
	}
	client.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(scrape(), "spillgate_client_requests_total{") {
		t.Error("reported after stop")
	}
}

func newGate(t *testing.T, cfg admission.Config) *live.Gate {
	t.Helper()
	g, err := live.NewGate(live.GateConfig{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// A gate that Register shows tells its log of culprits too.
func TestRegisteredGateTellsOfCulprits(t *testing.T) {
	named := make(chan string, 1)
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(watch{"kind=report", named}, nil)))
	defer slog.SetDefault(was)
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: 20 * time.Millisecond, Slots: slots.Config{Min: 1, Max: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	if err := telemetry.Register(prometheus.NewRegistry(), gate, "shop"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() {
		_ = gate.Do(ctx, "report", func(ctx context.Context) error { <-ctx.Done(); return nil })
	})
	for range 8 { // who waits for the slot that the report has
		all.Go(func() {
			for ctx.Err() == nil {
				_ = gate.Do(ctx, "look", func(context.Context) error { return nil })
				time.Sleep(time.Millisecond)
			}
		})
	}
	await.Value(t, named, "a culprit in the log")
}

// watch is a log that passes on the first line with a text.
type watch struct {
	text string
	line chan string
}

func (w watch) Write(line []byte) (int, error) {
	if strings.Contains(string(line), w.text) {
		select {
		case w.line <- string(line):
		default:
		}
	}
	return len(line), nil
}

// A server that drains is not overloaded, and its log does not say so.
func TestDrainIsNoOverload(t *testing.T) {
	lines := make(chan string, 1)
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(watch{"requests refused", lines}, nil)))
	defer slog.SetDefault(was)
	gate := newGate(t, admission.Config{Objective: time.Minute})
	if err := telemetry.Register(prometheus.NewRegistry(), gate, "shop"); err != nil {
		t.Fatal(err)
	}
	gate.Drain()
	if gate.Do(t.Context(), "job", func(context.Context) error { return nil }) == nil {
		t.Fatal("a gate that drains let a job in")
	}
	line := await.Value(t, lines, "the refusal in the log")
	if !strings.Contains(line, "level=INFO") || strings.Contains(line, "overload") {
		t.Errorf("the log says %s", line)
	}
	// Nor is a reader left to guess how full the gate is.
	if want := " slots=64 running=0 waiting=0 service=0s objective=1m0s"; !strings.Contains(line, want) {
		t.Errorf("the log says %s, want%s in it", line, want)
	}
}
