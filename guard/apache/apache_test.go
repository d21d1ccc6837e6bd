package apache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/harness/looks"
	"github.com/spillgate/spillgate/internal/harness/servers"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// module is built once, and so is patient, which ends nothing by force before a minute is over.
var (
	module  = sync.OnceValues(func() (string, error) { return build() })
	patient = sync.OnceValues(func() (string, error) { return build("-DSPILLGATE_GRACE_MS=60000") })
)

// build builds a module in a directory of its own that a server of another user may read.
func build(flags ...string) (path string, err error) {
	dir, err := os.MkdirTemp("", "spillgate-module-")
	if err != nil {
		return "", err
	}
	mu.Lock()
	modules = append(modules, dir)
	mu.Unlock()
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	return servers.ApacheModule(context.Background(), dir, flags...)
}

var (
	mu      sync.Mutex
	modules []string // directories
)

func TestMain(m *testing.M) {
	leaks.Verify(m, goleak.Cleanup(func(code int) {
		for _, dir := range modules {
			os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

const patience = looks.Patience

// stage is an Apache with the module, and a source that looks at it.
type stage struct {
	*servers.Server
	source *Source
	client http.Client
}

// serve starts Apache with two workers.
func serve(t *testing.T, c servers.ApacheConfig) *stage {
	t.Helper()
	if c.Module == "" {
		c.Module = of(t, module)
	}
	c.Workers = 2
	s, err := servers.Apache(t.Context(), c)
	servers.SkipMissing(t, err)
	t.Cleanup(s.Stop)
	st := &stage{Server: s, client: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	st.attach(t)
	return st
}

// of returns the path of a module.
func of(t *testing.T, built func() (string, error)) string {
	t.Helper()
	path, err := built()
	servers.SkipMissing(t, err)
	return path
}

func (s *stage) url(path string) string {
	return "http://127.0.0.1:" + strconv.Itoa(s.Port) + path
}

// attach opens a source until the test ends, or detach is called.
func (s *stage) attach(t *testing.T) (detach func()) {
	t.Helper()
	source, err := Open(t.Context(), "apache://127.0.0.1:"+strconv.Itoa(s.Port)+s.TaskFile(), 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	s.source = source
	detach = sync.OnceFunc(source.Close)
	t.Cleanup(detach)
	return detach
}

// reply is what a client got.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

// get asks for a path and tells what came.
func (s *stage) get(path string) <-chan reply {
	ch := make(chan reply, 1)
	go func() {
		var r reply
		resp, err := s.client.Get(s.url(path))
		if r.err = err; err == nil {
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			r = reply{resp.StatusCode, resp.Header, string(body), err}
		}
		ch <- r
	}()
	return ch
}

func (s *stage) answered(t *testing.T, ch <-chan reply) reply {
	t.Helper()
	select {
	case r := <-ch:
		return r
	case <-time.After(patience):
		log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
		t.Fatalf("no answer within %v; the log ends with %s", patience, log[max(0, len(log)-2000):])
		return reply{}
	}
}

func (s *stage) until(t *testing.T, what string, want func(*track.Look) bool) *track.Look {
	t.Helper()
	return looks.Until(t, s.source, what, want)
}

// tasks returns the tasks of a path.
func tasks(l *track.Look, path string) (all []culprit.Task) {
	for i, s := range l.Sessions {
		if s.Application == path {
			all = append(all, l.Sample.Tasks[i])
		}
	}
	return all
}

// slow is a server behind Apache that answers when it is told to.
func slow(t *testing.T) (settings string, release func()) {
	t.Helper()
	ch := make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/begun") {
			_, _ = io.WriteString(w, strings.Repeat("begun ", 10_000))
			w.(http.Flusher).Flush()
		}
		if !strings.HasPrefix(r.URL.Path, "/fast") {
			select {
			case <-ch:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "done\n")
	}))
	release = sync.OnceFunc(func() { close(ch) })
	t.Cleanup(func() {
		release()
		h.Close()
	})
	return "ProxyPass / " + h.URL + "/\n", release
}

var proxied = []string{"proxy", "proxy_http"}

// A full server is seen, and its culprit's request is cancelled: with an answer that says so, in
// the same process, and no other request notices.
func TestCancel(t *testing.T) {
	t.Parallel()
	settings, release := slow(t)
	s := serve(t, servers.ApacheConfig{Module: of(t, patient), Modules: proxied, Settings: settings})
	if r := s.answered(t, s.get("/fast")); r.status != 200 {
		t.Fatalf("%+v", r)
	}
	a, b := s.get("/slow/17"), s.get("/other")
	s.until(t, "two requests", func(l *track.Look) bool { return len(tasks(l, "/slow/*")) == 1 && len(tasks(l, "/other")) == 1 })
	waiting := s.get("/later")
	l := s.until(t, "connection in the accept queue", func(l *track.Look) bool { return l.Sessions[len(l.Sessions)-1].State == "accept queue" })
	last := len(l.Sample.Tasks) - 1
	wait := l.Sample.Holds[len(l.Sample.Holds)-1]
	if int(wait.Task) != last || l.Sample.Resources[wait.Resource].Name != "workers (2)" || wait.WaitingSince == culprit.Unset {
		t.Errorf("the connection in the queue is %+v", wait)
	}
	for _, h := range l.Sample.Holds[:len(l.Sample.Holds)-1] {
		if h.Used != 1 || h.HeldSince == culprit.Unset || l.Sample.Resources[h.Resource].Kind != culprit.Queue {
			t.Errorf("a request holds %+v", h)
		}
	}
	if _, err := s.source.Act(t.Context(), l.Sample.Tasks[last].ID, culprit.Statement); err == nil {
		t.Error("what no worker has was cancelled")
	}
	time.Sleep(50 * time.Millisecond) // so that the wait is seen in the kernel's ticks
	victim := tasks(l, "/slow/*")[0]
	if !victim.Steps.Has(culprit.Statement) || victim.Steps.Has(culprit.Session) {
		t.Errorf("steps %b", victim.Steps)
	}
	if ok, err := s.source.Act(t.Context(), victim.ID, culprit.Statement); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if r := s.answered(t, a); r.status != 503 || r.header.Get("Retry-After") == "" || !strings.HasPrefix(r.body, "cancelled: ") || r.err != nil {
		t.Errorf("the culprit got %+v", r)
	}
	l = s.until(t, "request that waited", func(l *track.Look) bool { return len(tasks(l, "/later")) == 1 })
	for _, h := range l.Sample.Holds {
		if age := l.Sample.At.Sub(l.Sample.Tasks[h.Task].Started); l.Sessions[h.Task].Application == "/later" && (h.WaitTime < 30*time.Millisecond || age < h.WaitTime) {
			t.Errorf("what waited for 50 ms and more waited for %v, and is %v old", h.WaitTime, age)
		}
	}
	if ok, err := s.source.Act(t.Context(), victim.ID, culprit.Statement); ok || err != nil {
		t.Errorf("a request that has ended was cancelled again: %v, %v", ok, err)
	}
	release()
	for _, ch := range []<-chan reply{b, waiting} {
		if r := s.answered(t, ch); r.status != 200 {
			t.Errorf("another request got %+v", r)
		}
	}
	log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	if !strings.Contains(string(log), "cancelled as a culprit after") || strings.Contains(string(log), "did not end") {
		t.Errorf("the log is %s", log)
	}
}

// An answer that has begun is cut off, not followed by another.
func TestCancelOfWhatIsAnswered(t *testing.T) {
	t.Parallel()
	settings, _ := slow(t)
	s := serve(t, servers.ApacheConfig{Modules: proxied, Settings: settings})
	a := s.get("/begun")
	l := s.until(t, "request", func(l *track.Look) bool { return len(tasks(l, "/begun")) == 1 })
	time.Sleep(20 * time.Millisecond) // until the first bytes are most probably through
	if ok, err := s.source.Act(t.Context(), tasks(l, "/begun")[0].ID, culprit.Statement); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if r := s.answered(t, a); r.status == 200 && (r.err == nil || strings.Contains(r.body, "cancelled: ")) {
		t.Errorf("the culprit got %d, %v and %d bytes that end with %q", r.status, r.err, len(r.body), r.body[max(0, len(r.body)-80):])
	}
}

// Scripts that wait, compute or ignore their end are ended, and the server goes on.
func TestCancelPHP(t *testing.T) {
	t.Parallel()
	files := map[string]string{"sleep.php": "<?php sleep(60);", "spin.php": "<?php ini_set('max_execution_time', '0'); while (true) {}",
		"deaf.php": "<?php register_shutdown_function(function () { while (true) {} }); error_log('it is deaf'); while (true) {}", "fast.php": "<?php echo 'fast';"}
	s := serve(t, servers.ApacheConfig{Module: of(t, patient), PHP: true, Files: files})
	for _, path := range []string{"/sleep.php", "/spin.php"} {
		s.cancels(t, path, "/fast.php", func(*track.Look) bool { return true })
		s.endedByForce(t, path, false)
	}
	s = serve(t, servers.ApacheConfig{PHP: true, Files: files})
	s.cancels(t, "/deaf.php", "/fast.php", func(*track.Look) bool { return strings.Contains(s.log(), "it is deaf") })
	s.endedByForce(t, "/deaf.php", true)
}

// endedByForce checks whether a process was ended because its request did not end.
func (s *stage) endedByForce(t *testing.T, path string, want bool) {
	t.Helper()
	if log := s.log(); strings.Contains(log, "did not end") != want {
		t.Errorf("%s: the process was ended: %v; the log is %s", path, !want, log)
	}
}

func (s *stage) log() string {
	log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	return string(log)
}

// cancels cancels a request for a path that runs and is ready. It ends, by itself or with its process, and those for the path fast are answered.
func (s *stage) cancels(t *testing.T, path, fast string, ready func(*track.Look) bool) {
	t.Helper()
	a := s.get(path)
	l := s.until(t, path, func(l *track.Look) bool { return len(tasks(l, path)) == 1 && ready(l) })
	if ok, err := s.source.Act(t.Context(), tasks(l, path)[0].ID, culprit.Statement); !ok || err != nil {
		t.Fatal(path, ok, err)
	}
	if r := s.answered(t, a); r.status != 503 {
		t.Errorf("%s: %+v", path, r)
	}
	s.until(t, "end of "+path, func(l *track.Look) bool { return len(tasks(l, path)) == 0 })
	for range 3 {
		if r := s.answered(t, s.get(fast)); r.body != "fast" {
			t.Errorf("after %s: %+v", path, r)
		}
	}
}

// CGI programs that hang end with their requests, also one that ignores SIGTERM, and so does all that they have started, also what ignores SIGTERM
// and has lost its parent by then. The server goes on.
func TestCancelCGI(t *testing.T) {
	t.Parallel()
	const deaf = "trap '' TERM\nwhile :; do sleep 1; done\n"
	files := map[string]string{"hang.sh": "#!/bin/sh\nexec sleep 300\n", "pipe.sh": "#!/bin/sh\nsleep 300 | cat\necho\n", "deaf.sh": "#!/bin/sh\n" + deaf,
		"orphan.sh": "#!/bin/sh\n(" + deaf + ") >/dev/null 2>&1 &\nexec sleep 300\n", "fast.html": "fast"}
	for _, tt := range []struct {
		name     string
		programs int // at least
		deaf     int // of them
		module   func() (string, error)
	}{{"hang.sh", 1, 0, patient}, {"pipe.sh", 3, 0, patient}, {"orphan.sh", 2, 1, module}, {"deaf.sh", 1, 1, module}} {
		s := serve(t, servers.ApacheConfig{Module: of(t, tt.module), Modules: []string{"cgi"}, Settings: "AddHandler cgi-script .sh\n<Directory />\n  Options +ExecCGI\n</Directory>\n", Files: files})
		if err := os.Chmod(filepath.Join(s.Documents(), tt.name), 0o755); err != nil {
			t.Fatal(err)
		}
		path := "/" + tt.name
		var programs []string
		s.cancels(t, path, "/fast.html", func(l *track.Look) bool {
			for i := range l.Sessions {
				if l.Sessions[i].Application == path {
					programs = descendants(fmt.Sprint(l.Sessions[i].Process))
				}
			}
			hear := slices.DeleteFunc(slices.Clone(programs), ignoresTerm)
			return len(programs) >= tt.programs && len(programs)-len(hear) >= tt.deaf
		})
		if tt.name != "orphan.sh" { // whose request ends before its time is over, but for a busy machine
			s.endedByForce(t, path, tt.name == "deaf.sh")
		}
		s.until(t, "end of the programs of "+path, func(*track.Look) bool { return !slices.ContainsFunc(programs, runs) })
	}
}

// ignoresTerm reports whether a process ignores SIGTERM.
func ignoresTerm(pid string) bool {
	text, _ := os.ReadFile(filepath.Join("/proc", pid, "status"))
	_, after, _ := strings.Cut(string(text), "SigIgn:")
	set, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
	signals, _ := strconv.ParseUint(set, 16, 64)
	return signals&(1<<(syscall.SIGTERM-1)) != 0
}

// descendants returns the processes that one has started, and those that these have.
func descendants(pid string) (all []string) {
	text, _ := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	for _, child := range strings.Fields(string(text)) {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}

// runs reports whether a process is there, and not only its end.
func runs(pid string) bool {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// A request that httpd redirects within itself is one task all the way, with its first name, and is cancelled wherever it is.
func TestRedirected(t *testing.T) {
	t.Parallel()
	s := serve(t, servers.ApacheConfig{PHP: true, Files: map[string]string{"page.php": "<?php error_log('it runs'); sleep(60);"}, Settings: "ErrorDocument 404 /page.php\n"})
	a := s.get("/missing")
	l := s.until(t, "request whose script runs", func(l *track.Look) bool {
		return strings.Contains(s.log(), "it runs") && len(tasks(l, "/missing")) == 1
	})
	if n := len(tasks(l, "/page.php")); n != 0 {
		t.Errorf("%d further tasks of the same request", n)
	}
	if ok, err := s.source.Act(t.Context(), tasks(l, "/missing")[0].ID, culprit.Statement); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if r := s.answered(t, a); r.status != 503 {
		t.Errorf("%+v", r)
	}
	s.until(t, "end of the script", func(l *track.Look) bool { return len(tasks(l, "/missing")) == 0 && len(tasks(l, "/page.php")) == 0 })
}

// A script that answers in place of a request that httpd cannot read is a task, and is cancelled.
func TestErrorDocumentOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := serve(t, servers.ApacheConfig{PHP: true, Files: map[string]string{"page.php": "<?php error_log('it runs'); sleep(60);"}, Settings: "ErrorDocument 400 /page.php\n"})
	conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(s.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nno header\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	l := s.until(t, "script that runs", func(l *track.Look) bool {
		return strings.Contains(s.log(), "it runs") && len(tasks(l, "/page.php")) == 1
	})
	if ok, err := s.source.Act(t.Context(), tasks(l, "/page.php")[0].ID, culprit.Statement); !ok || err != nil {
		t.Fatal(ok, err)
	}
	s.until(t, "end of the script", func(l *track.Look) bool { return len(tasks(l, "/page.php")) == 0 })
}

// A request that is kept out takes no worker, even if a script is the document of its error.
func TestKeptOutBeforeErrorDocument(t *testing.T) {
	t.Parallel()
	s := serve(t, servers.ApacheConfig{PHP: true, Files: map[string]string{"page.php": "<?php sleep(60);", "fast.php": "<?php echo 'fast';"}, Settings: "ErrorDocument 503 /page.php\n"})
	s.until(t, "first request", func(*track.Look) bool { return s.answered(t, s.get("/fast.php")).body == "fast" })
	if err := s.source.KeepOut(t.Context(), taskfile.Fingerprint("GET /fast.php"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if r := s.answered(t, s.get("/fast.php")); r.status != 503 || r.header.Get("Spillgate-Cause") == "" || !strings.Contains(r.body, "kept others") {
		t.Errorf("%+v, expected 503 with the cause", r)
	}
}

// A worker that reads a request that does not come, or waits for the next one, is seen as such.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, servers.ApacheConfig{Files: map[string]string{"index.html": "hello"}, Settings: "KeepAliveTimeout 60\n"})
	conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(s.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n"); err != nil {
		t.Fatal(err)
	}
	state := func(l *track.Look, state string) int {
		for i, session := range l.Sessions {
			if session.State == state && session.Client == conn.LocalAddr().String() && l.Sample.Tasks[i].Background {
				return i
			}
		}
		return -1
	}
	l := s.until(t, "connection that is read", func(l *track.Look) bool { return state(l, "reading") >= 0 })
	if !l.Sample.Tasks[state(l, "reading")].Steps.Has(culprit.Statement) {
		t.Error("it cannot be cancelled")
	}
	if _, err := io.WriteString(conn, "\r\n"); err != nil {
		t.Fatal(err)
	}
	l = s.until(t, "connection without a request", func(l *track.Look) bool { return state(l, "keep-alive") >= 0 })
	if i := state(l, "keep-alive"); !l.Sample.Tasks[i].Idle {
		t.Error("it is not idle")
	}
	if ok, err := s.source.Act(t.Context(), l.Sample.Tasks[state(l, "keep-alive")].ID, culprit.Statement); !ok || err != nil {
		t.Fatal(ok, err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("its connection was not shut")
	}
}

// Requests in threads are seen, and have no step: a process serves many at once.
func TestThreads(t *testing.T) {
	t.Parallel()
	settings, release := slow(t)
	s := serve(t, servers.ApacheConfig{Event: true, Modules: proxied, Settings: settings})
	a, b := s.get("/slow"), s.get("/slow")
	l := s.until(t, "two requests", func(l *track.Look) bool { return len(tasks(l, "/slow")) == 2 })
	for _, task := range tasks(l, "/slow") {
		if task.Steps != 0 {
			t.Errorf("steps %b", task.Steps)
		}
	}
	if h := l.Sample.Holds; len(h) < 2 || h[0].Used != 1 || h[1].Used != 1 || l.Sample.Resources[h[0].Resource].Name != "worker threads (2)" {
		t.Errorf("they hold %+v", h)
	}
	release()
	for _, ch := range []<-chan reply{a, b} {
		if r := s.answered(t, ch); r.status != 200 {
			t.Errorf("%+v", r)
		}
	}
	s.until(t, "end of the requests", func(l *track.Look) bool { return len(l.Sample.Tasks) == 0 })
}

// Requests of a kind that is kept out are refused at once, in processes and in threads, others are served, and the kind is
// served again when the time is over or the guard has gone.
func TestKeepOut(t *testing.T) {
	t.Parallel()
	settings, release := slow(t)
	release()
	for name, event := range map[string]bool{"processes": false, "threads": true} {
		s := serve(t, servers.ApacheConfig{Event: event, Modules: proxied, Settings: settings})
		kind := taskfile.Fingerprint("GET /slow/*")
		if r := s.answered(t, s.get("/slow/17")); r.status != 200 {
			t.Errorf("%s: before: %+v", name, r)
		}
		if err := s.source.KeepOut(t.Context(), kind, time.Minute); err != nil {
			t.Fatal(err)
		}
		if r := s.answered(t, s.get("/slow/18")); r.status != 503 || r.header.Get("Retry-After") == "" || r.header.Get("Spillgate-Cause") == "" {
			t.Errorf("%s: of the kind that is kept out: %+v", name, r)
		}
		if r := s.answered(t, s.get("/fast")); r.status != 200 {
			t.Errorf("%s: of another kind: %+v", name, r)
		}
		if err := s.source.KeepOut(t.Context(), kind, 0); err != nil {
			t.Fatal(err)
		}
		if r := s.answered(t, s.get("/slow/19")); r.status != 200 {
			t.Errorf("%s: after the time: %+v", name, r)
		}
		if err := s.source.KeepOut(t.Context(), kind, time.Minute); err != nil {
			t.Fatal(err)
		}
		s.source.Close()
		if r := s.answered(t, s.get("/slow/20")); r.status != 200 {
			t.Errorf("%s: without the guard: %+v", name, r)
		}
	}
}

// Whatever becomes of the guard, the file and the configuration, requests are served, and a guard
// that comes again sees them.
func TestServesOn(t *testing.T) {
	t.Parallel()
	settings, release := slow(t)
	s := serve(t, servers.ApacheConfig{Modules: proxied, Settings: settings})
	fast := func(when string) {
		t.Helper()
		for range 5 {
			if r := s.answered(t, s.get("/fast")); r.status != 200 {
				t.Errorf("%s: %+v", when, r)
			}
		}
	}
	fast("with a guard")
	s.source.Close()
	fast("without")
	s.attach(t)
	old := s.get("/slow")
	s.until(t, "request after the guard was started again", func(l *track.Look) bool { return len(tasks(l, "/slow")) == 1 })
	if err := syscall.Kill(s.Pid(), syscall.SIGUSR1); err != nil { // a graceful restart, as after a change
		t.Fatal(err)
	}
	restarted := func() bool {
		log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
		return strings.Count(string(log), "resuming normal operations") >= 2
	}
	for began := time.Now(); !restarted() && time.Since(began) < patience; time.Sleep(5 * time.Millisecond) {
	}
	fast("after a graceful restart")
	release()
	if r := s.answered(t, old); r.status != 200 {
		t.Errorf("a request over a graceful restart: %+v", r)
	}
	if err := os.Truncate(s.TaskFile(), 0); err != nil {
		t.Fatal(err)
	}
	time.Sleep(150 * time.Millisecond) // the module has looked
	fast("with a file that is gone")
	if _, err := s.source.Look(context.Background()); err == nil {
		t.Error("a guard looks at a file that is gone")
	}
	if err := s.source.Alive(context.Background()); err != nil {
		t.Log(err)
	}
	log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	if strings.Contains(string(log), "exit signal") {
		t.Errorf("a process of Apache crashed: %s", log)
	}
}

// The module does the same under sanitizers, which end a process that errs.
func TestSanitized(t *testing.T) {
	t.Parallel()
	cc, err := exec.LookPath("cc")
	if err != nil {
		servers.SkipMissing(t, servers.ErrMissing)
	}
	runtime, err := exec.Command(cc, "-print-file-name=libasan.so").Output()
	if err != nil || !filepath.IsAbs(strings.TrimSpace(string(runtime))) {
		servers.SkipMissing(t, servers.ErrMissing)
	}
	dir := t.TempDir()
	for at := dir; len(at) > len(os.TempDir()); at = filepath.Dir(at) { // a server of another user reads it
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path, err := servers.ApacheModule(t.Context(), dir, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	servers.SkipMissing(t, err)
	settings, _ := slow(t)
	s := serve(t, servers.ApacheConfig{Module: path, Modules: proxied, Settings: settings,
		Env: []string{"LD_PRELOAD=" + strings.TrimSpace(string(runtime)), "ASAN_OPTIONS=detect_leaks=0:abort_on_error=1", "UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1"}})
	for i, path := range []string{"/slow", "/begun", "/slow/1/2/3/4/5/6/7/8/9", "/" + strings.Repeat("long", 1000), "/%ff%00/" + strings.Repeat("a/", 200)} {
		a := s.get(path)
		s.until(t, "answer", func(l *track.Look) bool {
			for k, session := range l.Sessions {
				if session.State == "request" {
					if _, err := s.source.Act(t.Context(), l.Sample.Tasks[k].ID, culprit.Statement); err != nil {
						t.Fatal(err)
					}
				}
			}
			return len(a) > 0
		})
		if r := s.answered(t, a); r.status == 0 && i < 3 {
			t.Errorf("%s: %+v", path, r)
		}
	}
	if err := s.source.KeepOut(t.Context(), taskfile.Fingerprint("GET /slow"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if r := s.answered(t, s.get("/slow")); r.status != 503 {
		t.Errorf("of a kind that is kept out: %+v", r)
	}
	if err := syscall.Kill(s.Pid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if r := s.answered(t, s.get("/fast")); r.status != 200 {
			t.Errorf("%+v", r)
		}
	}
	log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	for _, bad := range []string{"exit signal", "AddressSanitizer", "runtime error"} {
		if strings.Contains(string(log), bad) {
			t.Errorf("the log has %q: %s", bad, log)
		}
	}
}
