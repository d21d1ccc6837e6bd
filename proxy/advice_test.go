package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/live"
)

// What a guard keeps out is refused with its cause, for as long as the guard says so.
func TestGuardKeepsOut(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	defer upstream.Close()
	var status atomic.Pointer[string]
	none := `{"guards":[{"server":"apache://h/tasks"}]}`
	status.Store(&none)
	guard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != PathStatus {
			t.Errorf("asked for %s", r.URL.Path)
		}
		_, _ = io.WriteString(w, *status.Load())
	}))
	defer guard.Close()
	cfg := to(upstream.URL)
	cfg.Culprit.Guard = guard.URL
	p := start(t, cfg)
	c := client(t, 1, nil)
	get := func(path string) (*http.Response, string) {
		t.Helper()
		resp, err := c.Get("http://" + p.addr + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp, string(body)
	}
	until := func(path string, code int) *http.Response {
		t.Helper()
		for range 500 {
			if resp, _ := get(path); resp.StatusCode == code {
				return resp
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Fatalf("%s was not answered %d", path, code)
		return nil
	}
	until("/slow/17", 200)
	says := `{"guards":[{"server":"apache://h/tasks","kept_out":[{"route":"GET /slow/*","resource":"workers","for_seconds":30}]}]}`
	status.Store(&says)
	resp := until("/slow/18?x=1", 503)
	if got := resp.Header.Get(adviceField); got != "GET /slow/* took workers of apache://h/tasks from others" {
		t.Errorf("the cause is %q", got)
	}
	if resp.Header.Get("Retry-After") != "30" {
		t.Errorf("Retry-After is %q, expected 30", resp.Header.Get("Retry-After"))
	}
	if resp, body := get("/other"); resp.StatusCode != 200 || body != "served" {
		t.Errorf("another kind got %d %q", resp.StatusCode, body)
	}
	if s := p.Status(); len(s.KeptOut) != 1 || s.KeptOut[0].Route != "GET /slow/*" {
		t.Errorf("the status keeps out %+v", s.KeptOut)
	}
	status.Store(&none)
	until("/slow/19", 200)
	status.Store(&says)
	until("/slow/20", 503)
	guard.Close() // and with the guard its advice goes
	until("/slow/21", 200)
}

func TestGuardInModeMonitor(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	defer upstream.Close()
	cfg := to(upstream.URL)
	cfg.Mode, cfg.Culprit.Guard = live.Monitor, "http://127.0.0.1:1" // where none answers
	said := map[string]KeptOut{"GET /slow": {Route: "GET /slow", For: 30}}
	p := startWith(t, cfg, func(p *Proxy) {
		p.advice.last = time.Now().Add(time.Hour)
		p.advice.said.Store(&said)
	})
	resp, err := client(t, 1, nil).Get("http://" + p.addr + "/slow")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("refused with %d", resp.StatusCode)
	}
}

func TestReadAdvice(t *testing.T) {
	var many []string
	for i := range adviceRoutes + 10 {
		many = append(many, fmt.Sprintf(`{"route":"GET /%d/x","for_seconds":1}`, i))
	}
	for text, want := range map[string]int{
		`{"guards":[{"kept_out":[{"route":"GET /a","for_seconds":1},{"route":"","for_seconds":1},{"route":"GET /b","for_seconds":0},{"route":"GET /c","for_seconds":1e300}]}]}`: 1,
		`{"guards":[{"kept_out":[` + strings.Join(many, ",") + `]}]}`: adviceRoutes,
		`{"phase":"serving"}`: 0,
		`{"guards":3}`:        -1,
		`x`:                   -1,
	} {
		got, err := readAdvice([]byte(text))
		if (err != nil) != (want < 0) || err == nil && len(got) != want {
			t.Errorf("%.60s: %d routes, %v; expected %d", text, len(got), err, want)
		}
	}
}

func FuzzReadAdvice(f *testing.F) {
	f.Add([]byte(`{"guards":[{"server":"s\n","kept_out":[{"route":"GET /a","resource":"w","for_seconds":1}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		said, err := readAdvice(text)
		if err != nil {
			return
		}
		for _, k := range said {
			if len(k.Cause) > adviceCause || strings.ContainsAny(k.Cause, "\r\n") || k.For <= 0 {
				t.Fatalf("%+v", k)
			}
		}
		if _, err := json.Marshal(said); err != nil {
			t.Fatal(err)
		}
	})
}
