package catalogue

import (
	"bytes"
	"errors"
	"flag"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/needs"
	"github.com/spillgate/spillgate/proxy"
	"github.com/spillgate/spillgate/telemetry"
)

var rewrite = flag.Bool("rewrite", false, "write the files that are made from the catalogue; read the difference")

var root = filepath.Join("..", "..")

func all(t *testing.T) []Metric {
	t.Helper()
	metrics, err := Metrics(root)
	if err != nil {
		t.Fatal(err)
	}
	return metrics
}

// Every way in which the source makes instruments is read, and what cannot be read is an
// error.
func TestScan(t *testing.T) {
	dir := t.TempDir()
	write := func(body string) ([]Instrument, error) {
		text := "package p\nconst name = \"by_constant\"\nfunc f(meter m, x string) {\n" + body + "\n}\n"
		if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return scan(dir, ".")
	}
	found, err := write(`
	meter.Int64ObservableGauge("plain", metric.WithUnit("s"), metric.WithDescription("what " + "it is"))
	meter.Float64Histogram(name, metric.WithDescription("d"))
	gauge := func(n, about string) { meter.Float64ObservableGauge("pre_"+n, metric.WithDescription(about)) }
	gauge("helped", "h")
	for _, c := range [...]struct{ to *int; name, meaning string }{{&a, "first", "1"}, {&b, "second", "2"}} {
		meter.Int64Counter(c.name, metric.WithDescription(c.meaning))
	}
	t.Timer("with.dots", "w", "gate")`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range found {
		got = append(got, i.Prometheus()+": "+string(i.Kind)+" "+i.Meaning)
	}
	want := []string{"by_constant: histogram d", "first_total: counter 1", "plain_seconds: gauge what it is", "pre_helped: gauge h", "second_total: counter 2", "with_dots_seconds: histogram w"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, expected %q", got, want)
	}
	if found, err := write(`meter.Int64Counter(x)`); err == nil {
		t.Errorf("an instrument whose name is not known: %v", found)
	}
}

// The files in the repository are what the source says.
func TestFiles(t *testing.T) {
	for path, want := range map[string][]byte{
		"docs/metrics.md":               Page(all(t)),
		"deploy/prometheus/alerts.yaml": Rules(),
		"deploy/grafana/spillgate.json": Dashboard(),
	} {
		full := filepath.Join(root, filepath.FromSlash(path))
		if *rewrite {
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(full); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the source says (%v); run go test ./internal/catalogue -rewrite, and read the difference", path, err)
		}
	}
}

var (
	selector = regexp.MustCompile(`(spillgate_\w+?)(_bucket|_sum|_count)?(?:\{([^}]*)\}|[^\w{]|$)`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`(?:by|on) \(([^)]*)\)`)
	legend   = regexp.MustCompile(`\{\{ ?(?:\$labels\.)?(\w+) ?\}\}`)
)

// Expressions of the dashboard and the alerts name metrics and labels that exist, and
// legends and texts labels that their expressions keep.
func TestExpressions(t *testing.T) {
	metrics := map[string]Metric{}
	for _, m := range all(t) {
		metrics[m.Prometheus()] = m
	}
	check := func(expr, text string) {
		t.Helper()
		labels := map[string]bool{"job": true, "instance": true, "le": true}
		names := 0
		for _, found := range selector.FindAllStringSubmatch(expr, -1) {
			m, ok := metrics[found[1]]
			if !ok || (found[2] != "") != (m.Kind == Histogram) {
				t.Errorf("%s: there is no metric %s%s", expr, found[1], found[2])
				continue
			}
			names++
			own := map[string]Label{}
			for _, l := range m.Labels {
				labels[l.Name], own[l.Name] = true, l
			}
			for _, match := range matcher.FindAllStringSubmatch(found[3], -1) {
				l, known := own[match[1]]
				if !known && match[1] != "job" {
					t.Errorf("%s: %s has no label %s", expr, found[1], match[1])
				}
				for value := range strings.SplitSeq(match[2], "|") {
					if strings.HasPrefix(l.Values, "`") && !strings.Contains(l.Values, "`"+value+"`") {
						t.Errorf("%s: %s is never %q", expr, match[1], value)
					}
				}
			}
		}
		if names == 0 {
			t.Errorf("%s names no metric", expr)
		}
		kept := labels
		for i, found := range grouping.FindAllStringSubmatch(expr, -1) {
			if i == 0 {
				kept = map[string]bool{}
			}
			for name := range strings.SplitSeq(found[1], ",") {
				if name = strings.TrimSpace(name); !labels[name] {
					t.Errorf("%s: no metric in it has a label %s", expr, name)
				}
				kept[name] = true
			}
		}
		if strings.Contains(expr, " on (") {
			kept = labels
		}
		for _, found := range legend.FindAllStringSubmatch(text, -1) {
			if !kept[found[1]] {
				t.Errorf("%q shows the label %s, which %s does not keep", text, found[1], expr)
			}
		}
	}
	for _, a := range alerts() {
		check(a.Expr, a.Summary+a.About)
	}
	for _, row := range rows() {
		for _, p := range row.Panels {
			for _, q := range p.Queries {
				check(q.Expr, q.Legend)
			}
		}
	}
}

// Every metric is in some panel of the dashboard.
func TestEveryMetricIsShown(t *testing.T) {
	var shown strings.Builder
	for _, row := range rows() {
		for _, p := range row.Panels {
			for _, q := range p.Queries {
				for _, found := range selector.FindAllStringSubmatch(q.Expr, -1) {
					shown.WriteString(found[1] + " ")
				}
			}
		}
	}
	for _, m := range all(t) {
		if !strings.Contains(shown.String(), m.Prometheus()+" ") {
			t.Errorf("no panel shows %s", m.Prometheus())
		}
	}
}

// Prometheus's own tool takes the rules, and they fire when they should.
func TestPromtool(t *testing.T) {
	promtool := needs.Program(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", filepath.Join(root, "deploy", "prometheus", "alerts.yaml")},
		{"test", "rules", filepath.Join("testdata", "alerts_test.yaml")},
	} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// What programs serve is in the catalogue, with its kind and labels.
func TestServedMetrics(t *testing.T) {
	metrics := map[string]Metric{}
	for _, m := range all(t) {
		metrics[m.Prometheus()] = m
	}
	series := regexp.MustCompile(`(?m)^(spillgate_\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? \S+$`)
	kinds := regexp.MustCompile(`(?m)^# TYPE (spillgate_\w+) (\w+)$`)
	served := map[string]bool{}
	for name, text := range map[string]string{"a gate": gateMetrics(t), "the proxy": proxyMetrics(t), "the broker": brokerMetrics(t)} {
		for _, found := range kinds.FindAllStringSubmatch(text, -1) {
			if m, ok := metrics[found[1]]; !ok || string(m.Kind) != found[2] {
				t.Errorf("%s serves %s, a %s; the catalogue has %q", name, found[1], found[2], m.Kind)
			}
			served[found[1]] = true
		}
		for _, found := range series.FindAllStringSubmatch(text, -1) {
			for _, label := range matcher.FindAllStringSubmatch(found[2], -1) {
				if label[1] != "le" && !slices.ContainsFunc(metrics[found[1]].Labels, func(l Label) bool { return l.Name == label[1] }) {
					t.Errorf("%s serves %s with the label %s, which the catalogue does not have", name, found[1], label[1])
				}
			}
		}
	}
	if len(served) < len(metrics)/2 {
		t.Errorf("%d of %d metrics were served", len(served), len(metrics))
	}
}

// gateMetrics is what a gate of a Go service serves that had a request.
func gateMetrics(t *testing.T) string {
	metrics, err := telemetry.New()
	if err != nil {
		t.Fatal(err)
	}
	instruments, err := metrics.NewGate("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: time.Minute}, Observe: instruments.Observe})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := instruments.Watch(gate)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := gate.Enter(t.Context(), live.Request{})
	if err != nil {
		t.Fatal(err)
	}
	ticket.Leave(0)
	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if err := errors.Join(stop(), gate.Close(), metrics.Shutdown(t.Context())); err != nil {
		t.Fatal(err)
	}
	return w.Body.String()
}

func proxyMetrics(t *testing.T) string {
	p, err := proxy.New(proxy.Config{Objective: time.Second, Listen: []proxy.Listener{{Address: "127.0.0.1:0"}},
		Upstreams: []proxy.Upstream{{URL: "http://127.0.0.1:9"}}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	w := httptest.NewRecorder()
	p.Admin().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func brokerMetrics(t *testing.T) string {
	b, err := broker.New(broker.Config{Listen: []string{"127.0.0.1:0"}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	b.Admin().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}
