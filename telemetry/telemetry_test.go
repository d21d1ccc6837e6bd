package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// scrape returns the metrics as Prometheus would read them.
func scrape(t *testing.T, telemetry *Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	telemetry.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("scrape: status %d, %v", w.Code, err)
	}
	return string(body)
}

func newGate(t *testing.T, telemetry *Telemetry, name string, log *slog.Logger, mode live.Mode) (*live.Gate, *Gate, func() error) {
	t.Helper()
	metrics, err := telemetry.NewGate(name, log)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: time.Second}, Mode: mode, Observe: metrics.Observe})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := metrics.Watch(gate)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	return gate, metrics, stop
}

func newTelemetry(t *testing.T) *Telemetry {
	t.Helper()
	telemetry, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { telemetry.Shutdown(context.Background()) })
	return telemetry
}

func TestWhatPrometheusReads(t *testing.T) {
	telemetry := newTelemetry(t)
	gate, metrics, stop := newGate(t, telemetry, "orders", nil, live.Enforce)
	newGate(t, telemetry, "stock", nil, live.Monitor)

	ticket, err := gate.Enter(t.Context(), live.Request{Request: work.Request{Class: work.Interactive}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := scrape(t, telemetry), `spillgate_slots_in_use{gate="orders"} 1`; !strings.Contains(got, want) {
		t.Errorf("no %s in\n%s", want, got)
	}
	ticket.Leave(work.Done)
	gate.Drain()
	if _, err := gate.Enter(t.Context(), live.Request{}); err == nil {
		t.Fatal("a draining gate admitted a request")
	}
	metrics.Observe(live.Event{Reason: work.Culprit, Enforced: true, Outcome: work.Cancelled})
	got := scrape(t, telemetry)
	for _, want := range []string{
		`spillgate_requests_total{class="default",decision="cancel",gate="orders",outcome="cancelled",reason="culprit"} 1`,
		`spillgate_culprit_state{gate="orders",state="named"} 0`,
		`spillgate_culprit_cancels_total{action="would_cancel",gate="stock"} 0`,
		`spillgate_culprit_outcomes_total{gate="orders",verdict="relieved"} 0`,
		`spillgate_requests_total{class="interactive",decision="admit",gate="orders",outcome="done",reason="none"} 1`,
		`spillgate_requests_total{class="default",decision="refuse",gate="orders",reason="draining"} 1`,
		`spillgate_service_seconds_count{gate="orders"} 1`,
		`spillgate_queue_delay_seconds_bucket{gate="orders",le="0.0001"} `,
		`spillgate_slots_in_use{gate="orders"} 0`,
		`spillgate_slots_limit{gate="stock"} `,
		`spillgate_delay_seconds{gate="orders"} `,
		`spillgate_credits{gate="orders"} `,
		`spillgate_mode{gate="stock"} 1`,
		`spillgate_mode{gate="orders"} 0`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := scrape(t, telemetry); strings.Contains(got, `slots_limit{gate="orders"}`) {
		t.Errorf("a stopped gate is still reported:\n%s", got)
	}
}

// What a client sends never becomes a label.
func TestLabelsAreBounded(t *testing.T) {
	telemetry := newTelemetry(t)
	_, metrics, _ := newGate(t, telemetry, "orders", nil, live.Enforce)
	for i := range 1000 {
		metrics.Observe(live.Event{Workflow: strings.Repeat("x", i), Priority: work.Priority(i), Class: work.Class(i), Reason: work.Reason(i), Enforced: true})
		metrics.Observe(live.Event{Class: work.Class(i % 2), Outcome: work.Outcome(i / 2 % 200)})
	}
	if got := strings.Count(scrape(t, telemetry), "spillgate_requests_total{"); got > 2*(work.NumReasons+work.NumOutcomes) {
		t.Errorf("%d series of requests, expected at most one a reason or outcome and class", got)
	}
}

// One line says that overload began; the flood that follows is one more, also if it ends
// before that is due, and after a calm the next refusal is a line at once.
func TestOverloadNoticesAreRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedText
		n := notice{log: slog.New(slog.NewTextHandler(&out, nil)), gate: "orders"}
		lines := func(want ...string) {
			t.Helper()
			got := strings.SplitAfter(out.take(), "\n")
			if len(got) != len(want)+1 {
				t.Fatalf("%d lines, want %d: %q", len(got)-1, len(want), got)
			}
			for i, w := range want {
				if !strings.Contains(got[i], w) {
					t.Errorf("no %q in %q", w, got[i])
				}
			}
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 1000 {
					n.refused(work.Delay)
				}
			})
		}
		wg.Wait()
		n.refused(work.Share)
		first := out.take()
		if strings.Count(first, "\n") != 1 || !strings.Contains(first, "gate=orders delay=") {
			t.Fatalf("lines at once: %q, want one", first)
		}
		var said int
		if _, err := fmt.Sscanf(first[strings.Index(first, "refused="):], "refused=%d", &said); err != nil {
			t.Fatal(err)
		}
		time.Sleep(Notice + time.Second)
		lines(fmt.Sprintf("share=1 refused=%d since=10s", 4001-said))
		time.Sleep(Notice - 2*time.Second)
		n.refused(work.Delay)
		lines()
		time.Sleep(2 * time.Second)
		lines("gate=orders delay=1 refused=1 since=10s")
		time.Sleep(2 * Notice)
		lines()
		n.refused(work.Delay)
		lines("gate=orders delay=1 refused=1\n")
		time.Sleep(2 * Notice) // the timer ends with the calm
	})
}

// lockedText is what a log wrote, from any goroutine.
type lockedText struct {
	mu   sync.Mutex
	text []byte
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// take returns what was written since the last call.
func (l *lockedText) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := string(l.text)
	l.text = nil
	return s
}

// At debug level every request is a line, at others none.
func TestRequestsAreLoggedForDebugging(t *testing.T) {
	telemetry := newTelemetry(t)
	var out bytes.Buffer
	level := new(slog.LevelVar)
	g, err := NewGate(telemetry.Meter(), "orders", slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})))
	if err != nil {
		t.Fatal(err)
	}
	ran := live.Event{Class: work.Interactive, Workflow: "a b", Enforced: true, Queued: 2 * time.Millisecond, Service: 3 * time.Millisecond, Outcome: work.Done}
	g.Observe(ran)
	if out.Len() > 0 {
		t.Errorf("logged at level info: %s", out.String())
	}
	level.Set(slog.LevelDebug)
	g.Observe(ran)
	g.Observe(live.Event{Reason: work.Delay, Enforced: true, Queued: time.Millisecond})
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{
		`msg=request gate=orders decision=admit reason=none class=interactive workflow="a b" queued=2ms service=3ms outcome=done`,
		`msg=request gate=orders decision=refuse reason=delay class=default workflow="" queued=1ms`,
	} {
		if i >= len(lines) || !strings.HasSuffix(lines[i], want) {
			t.Errorf("line %d of %q, expected %s", i, lines, want)
		}
	}
}

// What names no request is for debugging; a request to blame, and the end of it, is news.
func TestCulpritStatesThatNameNothingAreForDebugging(t *testing.T) {
	var out bytes.Buffer
	g, err := NewGate(newTelemetry(t).Meter(), "orders", slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []culprit.State{culprit.Normal, culprit.Suspect, culprit.Overload, culprit.Normal, culprit.Named, culprit.Normal, culprit.Overload} {
		g.Culprit(live.CulpritNotice{State: s})
	}
	g.Culprit(live.CulpritNotice{State: culprit.Normal, Step: culprit.Throttle, Would: true})
	var got []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), "level=")
		got = append(got, text)
	}
	want := []string{
		`INFO msg="culprit state" gate=orders state=named`,
		`INFO msg="culprit state" gate=orders state=normal`,
		`WARN msg="culprit would be cancelled" gate=orders state=normal`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("logged %q, expected %q", got, want)
	}
}

// Both kinds of gates say the same of the same requests, one beside the other.
func TestHistogramsOfBothKinds(t *testing.T) {
	telemetry := newTelemetry(t)
	both := map[string]*Gate{}
	for name, of := range map[string]func(string, *slog.Logger) (*Gate, error){
		"own":   telemetry.NewGate,
		"meter": func(name string, log *slog.Logger) (*Gate, error) { return NewGate(telemetry.Meter(), name, log) },
	} {
		g, err := of(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		both[name] = g
	}
	for _, g := range both {
		for i := range 100 {
			g.Observe(live.Event{Queued: time.Duration(i) * 10 * time.Microsecond, Service: time.Duration(i*i) * time.Millisecond})
		}
	}
	lines := map[string][]string{}
	for line := range strings.Lines(scrape(t, telemetry)) {
		for name := range both {
			if label := `gate="` + name + `"`; strings.Contains(line, label) {
				if at := strings.LastIndexByte(line, ' '); strings.Contains(line, "_sum{") { // of floats, or of nanoseconds
					sum, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
					if err != nil {
						t.Fatal(err)
					}
					line = line[:at] + strconv.FormatFloat(sum, 'g', 12, 64) + "\n"
				}
				lines[name] = append(lines[name], strings.Replace(line, label, "", 1))
			}
		}
	}
	if own, meter := strings.Join(lines["own"], ""), strings.Join(lines["meter"], ""); own != meter || len(lines["own"]) < 2*len(buckets) {
		t.Errorf("of Telemetry.NewGate\n%sof NewGate\n%s", own, meter)
	}
}

func TestAGateWithAnImpossibleName(t *testing.T) {
	if _, err := newTelemetry(t).NewGate("\xff", nil); err == nil {
		t.Error("a label that is not UTF-8 was taken")
	}
}

func BenchmarkObserve(b *testing.B) {
	telemetry, err := New()
	if err != nil {
		b.Fatal(err)
	}
	e := live.Event{Queued: time.Millisecond, Service: 3 * time.Millisecond}
	for name, of := range map[string]func() (*Gate, error){
		"prometheus":    func() (*Gate, error) { return telemetry.NewGate("orders", nil) },
		"opentelemetry": func() (*Gate, error) { return NewGate(telemetry.Meter(), "stock", nil) },
	} {
		g, err := of()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g.Observe(e)
			}
		})
	}
}

// That an objective cannot be met is said once, with the time that was measured, and so
// is the end of it; the metrics say it for as long as it is so.
func TestObjectiveOutOfReach(t *testing.T) {
	const objective = 2 * time.Millisecond
	var lines bytes.Buffer
	telemetry := newTelemetry(t)
	metrics, err := telemetry.NewGate("orders", slog.New(slog.NewTextHandler(&lines, nil)))
	if err != nil {
		t.Fatal(err)
	}
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: objective}, Observe: metrics.Observe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	if _, err := metrics.Watch(gate); err != nil {
		t.Fatal(err)
	}
	serve := func(took time.Duration, until string) {
		for range 2000 {
			ticket, err := gate.Enter(t.Context(), live.Request{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(took)
			ticket.Leave(work.Done)
			if strings.Contains(lines.String(), until) {
				return
			}
		}
		t.Fatalf("not logged: %s\n%s", until, lines.String())
	}
	serve(3*objective, "objective out of reach")
	for range 40 {
		serve(3*objective, "objective out of reach")
	}
	if log := lines.String(); strings.Count(log, "out of reach") != 1 || !strings.Contains(log, "gate=orders objective=2ms service=") {
		t.Errorf("expected one line with the objective and the time:\n%s", log)
	}
	got := scrape(t, telemetry)
	for _, want := range []string{
		`spillgate_objective_unreachable{gate="orders"} 1`, `spillgate_objective_seconds{gate="orders"} 0.002`, `spillgate_service_estimate_seconds{gate="orders"} 0.0`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	serve(0, "objective within reach again")
	if got, want := scrape(t, telemetry), `spillgate_objective_unreachable{gate="orders"} 0`; !strings.Contains(got, want) {
		t.Errorf("no %s in\n%s", want, got)
	}
}

// A provider of its own shows the process that it is in, and what that was built from.
func TestTheProcessIsShown(t *testing.T) {
	telemetry, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer telemetry.Shutdown(context.Background())
	w := httptest.NewRecorder()
	telemetry.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{"\ngo_goroutines ", "spillgate_build_info{go=\"" + runtime.Version() + "\",version="} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	for want, info := range map[string]*debug.BuildInfo{
		"v1.2.3":  {Main: debug.Module{Path: Scope, Version: "v1.2.3"}},
		"v0.9.0":  {Main: debug.Module{Path: "example.com/shop", Version: "v3.0.0"}, Deps: []*debug.Module{{Path: Scope, Version: "v0.9.0"}}},
		"unknown": {Main: debug.Module{Path: "example.com/shop"}},
	} {
		if got := builtAs(info); got != want {
			t.Errorf("built as %q, expected %q", got, want)
		}
	}
}

// Who does not know the paths of an admin address asks it.
func TestTheAdminAddressListsItsPaths(t *testing.T) {
	telemetry, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer telemetry.Shutdown(context.Background())
	admin := telemetry.Admin(func() any { return nil }, func() (string, bool) { return "serving", true }, "/more")
	for path, want := range map[string]string{"/": PathMetrics + "\n" + PathStatus + "\n" + PathLive + "\n" + PathReady + "\n/more\n", PathReady: "serving\n", "/unknown": "404 page not found\n"} {
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if got := w.Body.String(); got != want {
			t.Errorf("%s: %q, expected %q", path, got, want)
		}
	}
}
