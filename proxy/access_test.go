package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/culprit/audit"
	"github.com/spillgate/spillgate/internal/work"
)

// logged returns the lines of an access log once there are as many.
func logged(t testing.TB, path string, n int) (all []line) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d lines in the access log", n), func() bool {
		text, _ := os.ReadFile(path)
		return strings.Count(string(text), "\n") >= n
	})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(text)) {
		if !strings.HasSuffix(l, "\n") {
			break // it is being written
		}
		var one line
		if err := json.Unmarshal([]byte(l), &one); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		all = append(all, one)
	}
	return all
}

// Each request is a line that says what became of it, where, and how long that took.
func TestAccessLog(t *testing.T) {
	held, entered := make(chan struct{}), make(chan struct{}, 1)
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/held":
			entered <- struct{}{}
			<-held
		case "/bad":
			w.WriteHeader(500)
		}
		_, _ = w.Write([]byte("hello"))
	}))
	path := filepath.Join(t.TempDir(), "access.jsonl")
	cfg := to("http://" + addr)
	cfg.Access.Path = path
	cfg.Groups = []Group{{Name: "down", Paths: []string{"/down/"}, Upstreams: []Upstream{{URL: "http://" + closedPort(t)}}}}
	cfg.Workflows = map[string]Workflow{"one": {}}
	cfg.Rules = []classify.Rule{{Match: classify.Match{Path: []string{"/held"}}, Set: classify.Set{Workflow: "one", Use: classify.Use{AtOnce: 1}}}}
	p := start(t, cfg)
	c := client(t, 1, nil)
	ask := func(path string) {
		r, _ := http.NewRequest("GET", p.url+path, nil)
		r.Header.Set("Traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00")
		resp, err := c.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		read(t, resp)
	}
	ask("/ok?secret=1")
	ask("/bad")
	ask("/healthz")
	ask("/down/x")
	done := make(chan struct{})
	go func() { defer close(done); ask("/held") }()
	await.Value(t, entered, "a request to reach the handler")
	ask("/held") // one too many
	close(held)
	await.Value(t, done, "the request to end")
	want := map[string]string{
		"/ok": "200 admit none default", "/bad": "500 admit none default", "/healthz": "200 exempt none default", "/down/x": "502 fail connect default",
		"/held": "200 admit none one, 429 refuse share one",
	}
	got := map[string]string{}
	for _, l := range logged(t, path, 6) {
		said := fmt.Sprintf("%d %s %s %s", l.Status, l.Decision, l.Reason, l.Workflow)
		if have := got[l.Path]; have != "" {
			if said = have + ", " + said; have > said[len(have)+2:] {
				said = said[len(have)+2:] + ", " + have
			}
		}
		got[l.Path] = said
		if l.Method != "GET" || l.Protocol != "HTTP/1.1" || l.Trace != "0123456789abcdef0123456789abcdef" || !strings.HasPrefix(l.Client, "127.0.0.1:") || l.Total <= 0 || l.Host == "" {
			t.Errorf("the line of %s is %+v", l.Path, l)
		}
		if _, err := time.Parse(time.RFC3339Nano, l.Time); err != nil {
			t.Error(err)
		}
		upstream, route := addr, "default"
		if l.Path == "/down/x" {
			upstream, route = cfg.Groups[0].Upstreams[0].label(), "down"
		}
		if l.Status != 429 && (l.Upstream != upstream || l.Route != route) {
			t.Errorf("the line of %s is %+v", l.Path, l)
		}
		if l.Path == "/ok" && (l.Bytes != 5 || l.Service <= 0 || l.Service > l.Total) {
			t.Errorf("the line of %s is %+v", l.Path, l)
		}
	}
	for path, want := range want {
		if got[path] != want {
			t.Errorf("%s: %s, expected %s", path, got[path], want)
		}
	}
	if got := metrics(t, p); !strings.Contains(got, `spillgate_access_log_lines_total{fate="written"} 6`) {
		t.Errorf("not in the metrics:\n%s", got)
	}
}

// Reload opens the file again, so that it may have been renamed before, and takes new rates.
func TestAccessLogIsOpenedAgainAndSampled(t *testing.T) {
	_, addr := serve(t, named("x"))
	dir := t.TempDir()
	path, rotated := filepath.Join(dir, "access.jsonl"), filepath.Join(dir, "old.jsonl")
	cfg := to("http://" + addr)
	cfg.Access.Path = path
	p := start(t, cfg)
	c := client(t, 1, nil)
	get(t, c, p.url+"/1")
	logged(t, path, 1)
	if err := os.Rename(path, rotated); err != nil {
		t.Fatal(err)
	}
	next := p.state.Load().cfg
	// A reload opens the log again, or says that it did not, as where writing takes too long.
	reload := func() {
		eventually(t, "the log to be opened again", func() bool {
			failed := strings.Count(p.log.String(), "not opened again")
			if _, err := p.Reload(next); err != nil {
				t.Fatal(err)
			}
			return strings.Count(p.log.String(), "not opened again") == failed
		})
	}
	next.Access.Served = -1
	reload()
	for range 20 {
		get(t, c, p.url+"/2")
	}
	eventually(t, "the requests to leave", func() bool { return p.active.Load() == 0 }) // clients have their answers before
	next.Access.Served = 1
	reload()
	get(t, c, p.url+"/3")
	if all := logged(t, path, 1); len(all) != 1 || all[0].Path != "/3" {
		t.Errorf("lines %+v, expected that of /3 alone", all)
	}
	if all := logged(t, rotated, 1); len(all) != 1 || all[0].Path != "/1" {
		t.Errorf("lines %+v in the file that was renamed", all)
	}
}

// In mode monitor the line says what enforce would have done.
func TestAccessLogOfMonitor(t *testing.T) {
	a := &access{ends: 1}
	a.end.Admitted, a.end.Reason = true, work.Delay
	if decision, reason := a.decided(); decision != "would_refuse" || reason != work.Delay.String() {
		t.Errorf("%s %s", decision, reason)
	}
}

// A log that is not read holds up no request: lines are dropped, and counted.
func TestAccessLogNeverBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0) // or opening it for writing would wait
	if err != nil {
		t.Fatal(err)
	}
	l := newAccessLog(discard())
	l.aim(path)
	text := append([]byte(strings.Repeat("x", 4096)), '\n')
	for range 10 * accessQueue {
		l.put(text)
	}
	if l.dropped.Load() == 0 {
		t.Error("nothing was dropped although nobody reads")
	}
	ended := make(chan struct{})
	go func() { // so that the goroutine of the log ends
		defer close(ended)
		buf := make([]byte, 1<<20)
		for {
			if _, err := reader.Read(buf); err != nil {
				return
			}
		}
	}()
	l.close()
	await.Value(t, l.done, "the log to be written")
	reader.Close()
	await.Value(t, ended, "the reader to end")
}

// A line that a full disk has cut off does not join the next one: neither in the open file nor in one that is
// opened again.
func TestAccessLogCutOff(t *testing.T) {
	var out bytes.Buffer
	l := &accessLog{log: discard()}
	room := 6
	f := &accessFile{l: l, file: os.Stderr, whole: audit.NewLines(writerFunc(func(b []byte) (int, error) {
		n := min(len(b), room)
		out.Write(b[:n])
		if n < len(b) {
			return n, syscall.ENOSPC
		}
		return n, nil
	}))}
	for _, line := range []string{"first\n", "second\n", "third\n"} {
		f.write([]byte(line))
		f.flush()
		if room = 2; line == "second\n" {
			room = 100
		}
	}
	if want := "first\nse\nthird\n"; out.String() != want || l.written.Load() != 2 || l.dropped.Load() != 1 {
		t.Errorf("%q, %d lines written and %d dropped, expected %q, 2 and 1", out.String(), l.written.Load(), l.dropped.Load(), want)
	}

	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := openAccess(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if text, _ := os.ReadFile(path); string(text) != "half\n" {
		t.Errorf("%q, expected the end of the line", text)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestMistakesInAccessLog(t *testing.T) {
	var got []string
	Access{Served: 2, Refused: 1.5}.check(func(field, _, _ string) { got = append(got, field) })
	if want := "access_log.served access_log.refused access_log.path"; strings.Join(got, " ") != want {
		t.Errorf("mistakes in %v, expected %s", got, want)
	}
}

// Lines that the file does not take are dropped, and none of them counts as written.
func TestAccessLogOnFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	_, addr := serve(t, http.NotFoundHandler())
	cfg := to("http://" + addr)
	cfg.Access.Path = "/dev/full"
	p := start(t, cfg)
	c := client(t, 1, nil)
	for range 20 {
		get(t, c, p.url)
	}
	l := p.access.Load()
	eventually(t, "20 lines to be counted", func() bool { return l.dropped.Load()+l.written.Load() == 20 })
	if n := l.written.Load(); n != 0 {
		t.Errorf("%d lines count as written, expected none", n)
	}
	says(t, p, "access log is not written")
}

// What the proxy answers by itself is logged too: requests beyond the limit of one client, and
// requests for a tunnel.
func TestAccessLogOfRefusedClients(t *testing.T) {
	addr, entered, leave := waits(t, "/held", "ok")
	cfg := to("http://" + addr)
	cfg.Access.Path = filepath.Join(t.TempDir(), "log")
	cfg.Limits.ClientRequests = 1
	p := start(t, cfg)
	done := make(chan struct{})
	one, two := dialFrom(t, "127.0.0.2", p.addr), dialFrom(t, "127.0.0.2", p.addr)
	go func() { defer close(done); askBy(one, "/held") }()
	await.Value(t, entered, "a request to reach the handler")
	if status := askBy(two, "/more"); status != 429 {
		t.Errorf("status %d of one request too many, expected 429", status)
	}
	close(leave)
	await.Value(t, done, "the request to end")
	r, _ := http.NewRequest("CONNECT", p.url, nil)
	if resp, err := client(t, 1, nil).Transport.RoundTrip(r); err != nil {
		t.Error(err)
	} else if resp.Body.Close(); resp.StatusCode != 405 || resp.Header.Get("Allow") == "" {
		t.Errorf("CONNECT: %s, Allow %q", resp.Status, resp.Header.Get("Allow"))
	}
	var refused, tunnel bool
	for _, l := range logged(t, cfg.Access.Path, 3) {
		refused = refused || l.Path == "/more" && l.Status == 429 && l.Decision == "refuse" && l.Reason == "share"
		tunnel = tunnel || l.Method == "CONNECT" && l.Status == 405 && l.Decision == broken && l.Reason == "connect"
	}
	if !refused || !tunnel {
		t.Errorf("logged: a request beyond the limit %v, CONNECT %v, expected both", refused, tunnel)
	}
}
