package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/proxy"
)

var rewriteTop = flag.Bool("rewrite-top", false, "rewrite the screens under testdata/top")

// recorded serves what real programs answered: a status, and metrics if there is a
// file of them.
func recorded(t *testing.T, name string) *topAdmin {
	t.Helper()
	mux := http.NewServeMux()
	for path, file := range map[string]string{"/.spillgate/status": name + ".status.json", "/metrics": name + ".metrics"} {
		text, err := os.ReadFile(filepath.Join("testdata", "top", file))
		if err == nil {
			mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) })
		}
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	r, err := openTop(s.URL, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	a := r.(*topAdmin)
	a.name = name
	return a
}

// recordedView is a proxy, a guard while a table is locked and after the cancel, a
// broker with a flooded topic, and an address that nobody listens at.
func recordedView(t *testing.T) *topView {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	v := &topView{At: at}
	for _, name := range []string{"proxy", "held", "after", "broker"} {
		v.Sources = append(v.Sources, recorded(t, name).Read(context.Background()))
	}
	v.Sources = append(v.Sources, topSource{Name: "127.0.0.1:1", Error: "connection refused"})
	then := *v.Sources[3].Broker
	then.Topics = slices.Clone(then.Topics)
	for i := range then.Topics {
		t := &then.Topics[i]
		t.Released -= min(t.Released, uint64(2*t.Rate))
		t.Refused = map[string]uint64{"over_rate": t.Refused["over_rate"] - min(t.Refused["over_rate"], 180)}
	}
	before := topView{At: at.Add(-2 * time.Second), Sources: []topSource{{Name: "proxy", Gates: []topGate{v.Sources[0].Gates[0]}}, {Name: "broker", Broker: &then}}}
	total := &before.Sources[0].Gates[0].Total
	total.Load, total.Good, total.Sheds = total.Load-400, total.Good-300, nil
	v.Sources[0].Gates[0].Total.Sheds = map[string]float64{"delay": 40, "queue_full": 60}
	v.rates(&before)
	return v
}

func TestTopScreens(t *testing.T) {
	v := recordedView(t)
	for _, size := range []struct {
		file  string
		width int
	}{{"screen80.txt", 80}, {"screen120.txt", 120}} {
		got := newTopLook(io.Discard).screen(v, size.width)
		for line := range strings.SplitSeq(got, "\n") {
			if ansi.StringWidth(line) > size.width {
				t.Errorf("wider than %d columns: %q", size.width, line)
			}
		}
		path := filepath.Join("testdata", "top", size.file)
		if *rewriteTop {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs (go test ./cmd/spillgate -run TestTopScreens -rewrite-top rewrites it):\n%s", path, got)
		}
	}
}

func TestTopReadsWhoHoldsWhat(t *testing.T) {
	v := recordedView(t)
	held, after := v.Sources[1].Apps[0], v.Sources[2].Apps[0]
	if len(held.Candidates) != 1 || len(held.Waiting) == 0 || held.Waiting[0].Behind != held.Candidates[0].Process {
		t.Errorf("a locked table: candidates %+v, waiting %+v; expected that they wait behind the candidate", held.Candidates, held.Waiting)
	}
	if len(after.Cancels) != 1 || after.Cancels[0].Process != held.Candidates[0].Process || after.Cancels[0].Verdict != "relieved" {
		t.Errorf("after: %+v, expected that the candidate was cancelled and the others relieved", after.Cancels)
	}
	g := v.Sources[0].Gates[0]
	if g.Rate == nil || g.Rate.Load != 200 || g.Rate.Good != 150 || g.Rate.Sheds["queue_full"] != 30 || g.Limit == 0 || g.Mode != "enforce" {
		t.Errorf("gate %+v, rates %+v", g, g.Rate)
	}
}

func TestTopShowsTopics(t *testing.T) {
	b := recordedView(t).Sources[3].Broker
	if b == nil || len(b.Topics) < 3 || b.Topics[0].Filter != "plant/+/telemetry" || b.Topics[0].Backlog == 0 || b.Topics[0].Access.P99 <= b.Topics[0].Processing.P99 {
		t.Fatalf("the broker is %+v, expected the topic first on which messages wait", b)
	}
	for _, l := range b.Topics {
		if l.Flow == nil || (l.Filter == "debug/#") != (l.Flow.Sheds["over_rate"] > 0) {
			t.Errorf("%s: per second %+v", l.Filter, l.Flow)
		}
	}
	again := &topBroker{Topics: []topTopic{{LimitStatus: broker.LimitStatus{Filter: "debug/#", Released: 1}}}}
	again.since(b, time.Second)
	if again.Topics[0].Flow != nil {
		t.Errorf("a counter that went back: %+v, expected no rate", again.Topics[0].Flow)
	}
}

func TestTopRatesAfterARestart(t *testing.T) {
	if r := (topFlow{Load: 5}).since(topFlow{Load: 50}, time.Second); r != nil {
		t.Errorf("a counter that went back: %+v, expected no rate", r)
	}
}

func TestTopRefusesWhatIsNoSource(t *testing.T) {
	for _, source := range []string{"postgres://u:secret@db/app", "nowhere", "no/such/file", "http://", "127.0.0.1:"} {
		r, err := openTop(source, time.Second)
		if err == nil {
			t.Errorf("%q is taken as %T", source, r)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is shown: %v", err)
		}
	}
	for body, want := range map[string]string{"{}": "another program", "<html>": "not the JSON"} {
		var s topSource
		if _, err := s.topStatus([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", body, err, want)
		}
	}
	var s topSource
	if err := s.topMetrics([]byte("up 1\n")); err == nil {
		t.Error("metrics without a gate are taken")
	}
}

// A service may serve its metrics at every path, as with http.Serve(listener, promhttp.Handler()).
func TestTopReadsMetricsAtEveryPath(t *testing.T) {
	metrics, err := os.ReadFile(filepath.Join("testdata", "top", "proxy.metrics"))
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{string(metrics): "", "up 1\n": "not the JSON of a guard or proxy"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		defer server.Close()
		r, err := openTop(server.Listener.Addr().String(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		s := r.Read(t.Context())
		if want == "" && (s.Error != "" || s.Kind != "service" || len(s.Gates) == 0) || !strings.Contains(s.Error, want) {
			t.Errorf("%.20q: %+v, want the error %q", body, s, want)
		}
		var out bytes.Buffer
		if code := run(t.Context(), subcommands(), []string{"explain", server.Listener.Addr().String()}, &out, &out); code != exitFailure || !strings.Contains(out.String(), "serves telemetry.Refusals") {
			t.Errorf("explain: %d %s", code, out.String())
		}
	}
}

func TestTopShowsNothingThatSteersTheTerminal(t *testing.T) {
	hostile := "a\x1b[2Jb\nc"
	task := guard.Task{User: hostile, Kind: hostile, Fingerprint: hostile, Statement: hostile}
	app := guard.Status{Server: hostile, State: hostile, Blind: hostile, Notes: []string{hostile}, Lost: map[string]float64{hostile: 2},
		Waiting: []guard.Present{{Task: task, Resource: hostile}}, Candidates: []guard.CandidateStatus{{Task: task, Resource: hostile, Why: hostile}},
		Cancels: []guard.Cancel{{Task: task, Error: hostile, Step: hostile}}, KeptOut: []guard.KeptOut{{Route: hostile, Resource: hostile, Fingerprint: hostile}}}
	topics := topTopic{LimitStatus: broker.LimitStatus{Filter: hostile}, Flow: &topRelease{Sheds: map[string]float64{hostile: 1}}}
	v := &topView{Sources: []topSource{{Name: hostile, Phase: hostile, Error: hostile, Apps: []guard.Status{app}, KeptOut: []proxy.KeptOut{{Route: hostile, Cause: hostile}},
		Broker: &topBroker{Connections: map[string]int{hostile: 1}, Dropped: map[string]uint64{hostile: 1}, Topics: []topTopic{topics}},
		Gates:  []topGate{{Name: hostile, Culprit: hostile, Mode: hostile, Total: topFlow{Sheds: map[string]float64{hostile: 1}}, Notes: []string{hostile}}}}}}
	if text := newTopLook(io.Discard).screen(v, 80); strings.ContainsRune(text, '\x1b') {
		t.Errorf("an escape went through: %q", text)
	}
}

// What a guard keeps out is seen at the guard and at the proxy that refuses it, with the cause.
func TestTopShowsWhatIsKeptOut(t *testing.T) {
	var s, p topSource
	if _, err := s.topStatus([]byte(`{"guards":[{"server":"apache://h/tasks","kept_out":[{"route":"GET /slow","fingerprint":"0123456789abcdef","resource":"workers","for_seconds":30}]}]}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.topStatus([]byte(`{"phase":"serving","kept_out":[{"route":"GET /slow","cause":"GET /slow took workers of h from others","for_seconds":30}]}`)); err != nil {
		t.Fatal(err)
	}
	text := newTopLook(io.Discard).screen(&topView{Sources: []topSource{s, p}}, 80)
	for _, want := range []string{"kept out", "workers", "30.0s", "kept out: GET /slow for 30.0s, because GET /slow took workers of h from others"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestTopOnceIsJSON(t *testing.T) {
	var out bytes.Buffer
	if err := topOnce(context.Background(), &out, []topReader{recorded(t, "held"), recorded(t, "proxy")}, topFlags{once: true, json: true, every: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	var v topView
	if err := json.Unmarshal(out.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Sources) != 2 || v.Sources[0].Kind != "guard" || v.Sources[1].Kind != "proxy" || v.Sources[1].Gates[0].Rate == nil {
		t.Errorf("%+v", v.Sources)
	}
}

func FuzzTopSource(f *testing.F) {
	for _, name := range []string{"proxy.status.json", "held.status.json", "proxy.metrics", "broker.status.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", "top", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, status, metrics []byte) {
		var s topSource
		_, _ = s.topStatus(status)
		_ = s.topMetrics(metrics)
		newTopLook(io.Discard).screen(&topView{Sources: []topSource{s}}, 80)
	})
}
