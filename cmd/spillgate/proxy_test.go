package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/config"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/proxy"
)

func proxyCommands() []func() *cobra.Command {
	return []func() *cobra.Command{newProxy, newCheck}
}

// Every mistake in flags and file is reported at once, and nothing starts.
func TestProxyMistakes(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("slo: fast\nport: 1\nlisten: :0\nupstreams: http://x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	classes := filepath.Join(t.TempDir(), "classes.yaml")
	if err := os.WriteFile(classes, []byte(`slo: 1s
listen: 127.0.0.1:0
upstreams: http://127.0.0.1:1
slots: 8
share:
  order: share
  classes: [{caller: web, method: GET /orders, class: interactive}]
egress: [{address: 127.0.0.1:15001, url: "http://10.0.0.2:8080"}]
groups: [{name: reports, path: [/reports/], slo: 2s, upstreams: ["unix:/run/reports.sock"]}]
access_log: {path: stderr, served: 0.07}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		code int
		want []string // in this order
	}{
		{"check " + classes, exitOK, []string{"classes.yaml: ok", "group reports: path /reports/: slo 2s, upstreams: 1", "other requests: slo 1s, upstreams: 1", "access log stderr: 7 % of served, 100 % of refused", "slots: 8", "share: interactive requests have up to 0.95 of the slots", "25 % longer",
			"class 1: caller web, method GET /orders: interactive", "egress 127.0.0.1:15001: calls of the upstreams to http://10.0.0.2:8080"}},
		{"proxy", exitUsage, []string{"3 mistakes", "--slo is missing", "--listen is missing", "--upstream is missing"}},
		{"proxy --slo fast --listen 80 --upstream ftp://x --mode maybe --trust x --cert a --log-level loud --log-format xml --drain-timeout -1s --exempt x", exitUsage, []string{
			"10 mistakes", `--slo "fast"`, `--drain-timeout "-1s"`, `--mode "maybe"`, `--trust "x"`, `--log-level "loud"`, `--log-format "xml"`,
			`--listen "80"`, "--key is missing", `--upstream "ftp://x"`, `--exempt "x"`}},
		{"proxy --config " + bad + " --mode maybe", exitUsage, []string{"3 mistakes", "bad.yaml:1:6: slo", "bad.yaml:2:1: port: unknown key", `--mode "maybe"`}},
		{"proxy --config no-such-file", exitUsage, []string{"no-such-file"}},
		{"proxy --slo 1s --listen 127.0.0.1:0 --upstream http://x --upstream-insecure", exitUsage, []string{"--upstream-insecure true: expected an https:// url"}},
		{"proxy --slo 1s --listen 127.0.0.1:99999 --upstream http://x", exitUsage, []string{`--listen "127.0.0.1:99999"`}},
		{"check", exitUsage, []string{"no file named, expected one such as spillgate.yaml"}},
		{"check " + bad + " ../../examples/http/spillgate.yaml", exitFailure, []string{"bad.yaml:1:6: slo", "bad.yaml:2:1: port", "spillgate.yaml: ok", "proxy ", "mode enforce, slo ", "in front of http://", "2 mistakes"}},
		{"proxy --slo 1s --listen :8123 --upstream http://localhost:8123", exitUsage, []string{`--upstream "http://localhost:8123": expected the address of a server: this is listen[0], the proxy's own`}},
		{"guard postgres://u@h/d mariadb://u@h", exitUsage, []string{"guard: --slo is missing, expected a duration"}},
	} {
		t.Run(test.args, func(t *testing.T) {
			var out bytes.Buffer
			if code := run(t.Context(), subcommands(), strings.Fields(test.args), &out, &out); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			rest := out.String()
			for _, want := range test.want {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("no %q, in this order, in\n%s", want, out.String())
				}
				rest = after
			}
		})
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The command serves, takes a changed file, refuses a bad one, and ends well.
func TestProxyRuns(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	defer upstream.Close()
	path := filepath.Join(t.TempDir(), "c.yaml")
	write := func(mode string) {
		t.Helper()
		text := "mode: " + mode + "\nslo: 1s\nlisten: 127.0.0.1:0\nupstreams: " + upstream.URL + "\n"
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write("enforce")
	var log lockedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, proxyCommands(), []string{"proxy", "--config", path}, &log, &log) }()
	waitFor := func(pattern string) []string {
		t.Helper()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if m := regexp.MustCompile(pattern).FindStringSubmatch(log.String()); m != nil {
				return m
			}
		}
		t.Fatalf("no %s in the log:\n%s", pattern, log.String())
		return nil
	}
	addr := waitFor(`listen=(127\S+)`)[1]
	resp, err := http.Get("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != "hello" {
		t.Errorf("body %q", body)
	}
	write("monitor")
	waitFor("from=enforce to=monitor")
	write("maybe")
	waitFor("configuration not taken")
	cancel()
	select {
	case code := <-ended:
		if code != exitOK {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(time.Minute):
		t.Error("the command did not end")
	}
}

// The second signal ends the way out, and only that.
func TestSecondSignal(t *testing.T) {
	own := make(chan os.Signal, 8) // so that a signal never ends the test
	signal.Notify(own, syscall.SIGTERM)
	defer signal.Stop(own)
	hurried, ended := make(chan struct{}), make(chan struct{})
	s := serving{hurry: func() { close(hurried) }}
	returned := make(chan struct{})
	go func() { defer close(returned); s.again(func() {}, ended) }()
	for again := true; again; {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-own // it has come to all that listened, and none is left for what follows
		select {
		case <-hurried:
			again = false
		case <-time.After(10 * time.Millisecond): // it may not listen yet
		}
	}
	<-returned
	close(ended)
	s.hurry = func() { t.Error("hurried although the program had ended") }
	s.again(func() {}, ended)
}

// A program that is told a second time to stop says what it cuts off, and where, and ends well.
func TestSecondSignalSaysWhatItCutsOff(t *testing.T) {
	entered := make(chan struct{}, 2)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" { // a stream, which has no slot
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		entered <- struct{}{}
		<-r.Context().Done()
	}))
	defer upstream.Close()
	program := exec.Command(os.Args[0], "proxy", "--listen", "127.0.0.1:0", "--upstream", upstream.URL, "--slo", "1m", "--drain-timeout", "1h")
	program.Env = append(os.Environ(), asProgram+"=1")
	log := &lockedBuffer{}
	program.Stderr = log
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer program.Process.Kill()
	says := func(pattern string) []string {
		t.Helper()
		for end := time.Now().Add(await.Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if m := regexp.MustCompile(pattern).FindStringSubmatch(log.String()); m != nil {
				return m
			}
		}
		t.Fatalf("no %q in\n%s", pattern, log.String())
		return nil
	}
	addr := says(`listen=(127\S+)`)[1]
	var clients sync.WaitGroup
	for _, path := range []string{"/", "/events"} {
		clients.Go(func() {
			if resp, err := http.Get("http://" + addr + path); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
		await.Value(t, entered, "a request to reach the server")
	}
	for _, line := range []string{"msg=leaving", "msg=stopped"} {
		if err := program.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		says(line)
	}
	says(`requests are cut off" requests=2 because="the proxy was told again to stop" upstreams="` + regexp.QuoteMeta(strings.TrimPrefix(upstream.URL, "http://")) + `: 2"`)
	if err := program.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	clients.Wait()
}

// The flags that say how to reach upstreams count for those of groups as well.
func TestFlagsReachGroups(t *testing.T) {
	file := &config.File{Proxy: proxy.Config{Groups: []proxy.Group{{Upstreams: []proxy.Upstream{{URL: "https://a"}}}}}}
	f := proxyFlags{upstreamCA: "ca", upstreamCert: "cert", upstreamKey: "key", insecure: true}
	if mistakes := f.override(file); len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	if got, want := file.Proxy.Groups[0].Upstreams[0], (proxy.Upstream{URL: "https://a", CA: "ca", Cert: "cert", Key: "key", Insecure: true}); got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
}
