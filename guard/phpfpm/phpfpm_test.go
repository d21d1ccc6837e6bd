package phpfpm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/harness/looks"
	"github.com/spillgate/spillgate/internal/harness/servers"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/mono"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func TestURL(t *testing.T) {
	for text, want := range map[string]location{
		"php-fpm://127.0.0.1:9001/status?listen=127.0.0.1:9000": {"tcp", "127.0.0.1:9001", "/status", 9000, ""},
		"php-fpm://127.0.0.1:9000":                              {"tcp", "127.0.0.1:9000", "/status", 9000, ""},
		"php-fpm:///run/s.sock?page=/p&listen=/run/pool.sock":   {"unix", "/run/s.sock", "/p", 0, "/run/pool.sock"},
		"php-fpm://127.0.0.1:9001/?listen=/run/pool.sock":       {"tcp", "127.0.0.1:9001", "/status", 0, "/run/pool.sock"},
		"php-fpm:///run/pool.sock":                              {"unix", "/run/pool.sock", "/status", 0, "/run/pool.sock"},
		"php-fpm://":                                            {},
		"php-fpm://host":                                        {},
		"php-fpm://h:1/s?listen=h:0":                            {},
		"php-fpm://h:1/s?page=/x":                               {},
		"php-fpm://h:1/s?user=x":                                {},
		"php-fpm:///run/s.sock?page=p":                          {},
		"http://127.0.0.1:9000":                                 {},
		"php-fpm://[":                                           {},
	} {
		got, err := parse(text)
		if (err == nil) != (want != location{}) || err == nil && got != want {
			t.Errorf("%s: %+v, %v; expected %+v", text, got, err, want)
		}
	}
}

// page is an answer with some workers.
func page(accepted uint64, workers ...process) *status {
	s := &status{Pool: "www", Accepted: accepted, Workers: workers}
	for _, w := range workers {
		if w.State != idle {
			s.Active++
		}
	}
	return s
}

func TestBuild(t *testing.T) {
	at, err := parse("php-fpm://127.0.0.1:9001/status?listen=/none")
	if err != nil {
		t.Fatal(err)
	}
	s := &Source{at: at, tracker: track.New([]culprit.Resource{{Name: "workers", Kind: culprit.Queue}}), queue: queue{at: at}, targets: map[uint64]process{}}
	busy := process{PID: 70_000_000, State: "Running", Started: 5, Requests: 3, Duration: 250_000, Method: "GET", URI: "/list/17?secret=1", User: "-"}
	now := mono.Time(time.Hour)
	l := s.build(page(10, busy, process{PID: 70_000_001, State: idle, URI: "/x"}, process{PID: 70_000_002, State: "Running", Method: "GET", URI: "/status?json&full"}), now)
	if len(l.Sample.Tasks) != 1 || l.Sample.Tasks[0].Started != now.Add(-250*time.Millisecond) || l.Sample.Tasks[0].Steps != 0 || len(l.Notes) != 1 {
		t.Fatalf("%+v %q", l.Sample.Tasks, l.Notes)
	}
	if session := l.Sessions[0]; session.Application != "/list/*" || session.Statement.Text != "GET /list/*" || session.User != "" {
		t.Errorf("%+v", session)
	}
	id := l.Sample.Tasks[0].ID
	l = s.build(page(14, busy, process{PID: 70_000_001, State: "Reading headers", URI: "/x"}), now.Add(time.Second))
	if l.Sample.Tasks[0].ID != id || l.Sample.Finished.Count != 4 || l.Sample.Tasks[1].Kind != 0 {
		t.Errorf("%+v, %d ended", l.Sample.Tasks, l.Sample.Finished.Count)
	}
	busy.Requests++
	if l = s.build(page(14, busy), now.Add(2*time.Second)); l.Sample.Tasks[0].ID == id {
		t.Error("the next request of the worker is the same task")
	}
	if l = s.build(page(3), now.Add(3*time.Second)); l.Sample.Finished.Count != 0 {
		t.Errorf("%d ended as FPM was started again", l.Sample.Finished.Count)
	}
}

// A number that the page tells may be that of a worker of another FPM here, as of one in another container: that one is not ended.
func TestWorkersOfAnotherFPM(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "php-fpm-other")
	text, err := os.ReadFile(sleep)
	if err == nil {
		err = os.WriteFile(program, text, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	worker := exec.Command(program, "60")
	worker.Args[0] = "sleep" // of several programs in one, the name says which
	if err := worker.Start(); err != nil {
		t.Skip(err)
	}
	defer func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	}()
	s := &Source{tracker: track.New([]culprit.Resource{{Name: "workers", Kind: culprit.Queue}}), targets: map[uint64]process{}, at: location{socket: "/none"}, queue: queue{at: location{socket: "/none"}}}
	for i, tt := range []struct {
		began time.Time
		here  bool
	}{{time.Now(), true}, {time.Now().Add(-time.Minute), false}, {time.Now().Add(time.Minute), false}} {
		was := process{PID: int64(worker.Process.Pid), State: "Running", Started: tt.began.Unix(), Requests: uint64(i), Method: "GET", URI: "/x"}
		l := s.build(page(1, was), mono.Time(time.Hour).Add(time.Duration(i)*time.Second))
		if got := l.Sample.Tasks[0].Steps.Has(culprit.Statement); got != tt.here || (len(l.Notes) == 0) != tt.here {
			t.Errorf("a worker that began at %v by the page: it may be ended: %v, notes %q", tt.began, got, l.Notes)
		}
	}
}

// A worker that was ended has no process on the page until there is another; the page tells of the others all the same.
func TestEndedWorker(t *testing.T) {
	const body = `{"pool":"www","processes":[{"pid":0,"request duration":58572229309,"state":"Idle"},{"pid":7,"state":"Running"}]}`
	s, err := decode([]byte("Content-type: application/json\r\n\r\n" + body))
	if err != nil || len(s.Workers) != 1 || s.Workers[0].PID != 7 {
		t.Errorf("%+v, %v", s, err)
	}
}

// What waits in a Unix socket's queue leaves in the order in which it came.
func TestQueue(t *testing.T) {
	var q queue
	for i, step := range []struct {
		n        int
		accepted uint64
		want     []mono.Time
	}{{2, 10, []mono.Time{1, 1}}, {3, 11, []mono.Time{1, 2, 2}}, {3, 11, []mono.Time{1, 2, 2}}, {1, 20, []mono.Time{4}}, {0, 20, nil}, {2, 3, []mono.Time{6, 6}}, {1, 3, []mono.Time{6}}, {-1, 3, nil}} {
		q.count(step.n, step.accepted, mono.Time(i+1))
		if !slices.Equal(q.since, step.want) && len(q.since)+len(step.want) > 0 {
			t.Errorf("step %d: since %v, expected %v", i, q.since, step.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	body, _ := json.Marshal(map[string]any{"pool": "www", "processes": []map[string]any{{"pid": 5, "state": "Running"}}})
	f.Add(append([]byte("X: y\r\n\r\n"), body...))
	f.Add([]byte("Status: 404 Not Found\r\n\r\nFile not found."))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := decode(text); err == nil && (s.Pool == "" || len(s.Workers) > mostWorkers) {
			t.Fatalf("%+v", s)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add(record(record(nil, stdout, []byte("a")), endRequest, make([]byte, 8)))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if all, err := answer(bytes.NewReader(text)); err == nil && len(all) > len(text) {
			t.Fatalf("%d bytes of %d", len(all), len(text))
		}
	})
}

// pool is a PHP-FPM with two workers, and a source that looks at it.
type pool struct {
	*servers.Server
	source *Source
	at     string // where requests go
}

func serve(t *testing.T, unix bool) *pool {
	t.Helper()
	s, err := servers.PHPFPM(t.Context(), servers.PHPFPMConfig{Workers: 2, Unix: unix, Files: map[string]string{"slow.php": "<?php sleep(60);", "fast.php": "<?php echo 'fast';"}})
	servers.SkipMissing(t, err)
	t.Cleanup(s.Stop)
	p := &pool{Server: s, at: fmt.Sprintf("127.0.0.1:%d", s.Port)}
	if unix {
		p.at = s.Socket()
	}
	for began := time.Now(); time.Since(began) < patience; { // until the page is served
		if p.source, err = Open(t.Context(), fmt.Sprintf("php-fpm://127.0.0.1:%d/status?listen=%s", s.ExtraPort, p.at), 100*time.Millisecond); err == nil {
			return p
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal(err)
	return nil
}

// get asks for a script.
func (p *pool) get(script string) <-chan string {
	ch := make(chan string, 1)
	network := "tcp"
	if strings.HasPrefix(p.at, "/") {
		network = "unix"
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		text, err := ask(ctx, network, p.at, [][2]string{{"REQUEST_METHOD", "GET"}, {"SCRIPT_NAME", script}, {"SCRIPT_FILENAME", filepath.Join(p.Documents(), script)}, {"REQUEST_URI", script}})
		if err != nil {
			ch <- err.Error()
			return
		}
		ch <- string(text)
	}()
	return ch
}

const patience = looks.Patience

func (p *pool) until(t *testing.T, what string, want func(*track.Look) bool) *track.Look {
	t.Helper()
	return looks.Until(t, p.source, what, want)
}

// count returns how many sessions are of a script, or in a state.
func count(l *track.Look, what string) (n int) {
	for _, s := range l.Sessions {
		if s.Application == what || s.State == what {
			n++
		}
	}
	return n
}

// A full pool is seen, its queue too; the request that is named ends, and what waited is served.
func TestCancel(t *testing.T) {
	for _, unix := range []bool{false, true} {
		t.Run(fmt.Sprintf("unix=%v", unix), func(t *testing.T) {
			t.Parallel()
			p := serve(t, unix)
			a, b := p.get("/slow.php"), p.get("/slow.php")
			p.until(t, "two scripts", func(l *track.Look) bool { return count(l, "/slow.php") == 2 })
			waiting := p.get("/fast.php")
			l := p.until(t, "queue", func(l *track.Look) bool { return count(l, "accept queue") == 1 })
			task := l.Sample.Tasks[0]
			if !task.Steps.Has(culprit.Statement) {
				t.Skip("the workers are not seen in /proc")
			}
			if ok, err := p.source.Act(t.Context(), task.ID, culprit.Statement); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if text := <-waiting; !strings.HasSuffix(text, "fast") {
				t.Errorf("what waited got %q", text)
			}
			p.until(t, "end of the script", func(l *track.Look) bool { return count(l, "/slow.php") == 1 })
			if ok, err := p.source.Act(t.Context(), task.ID, culprit.Statement); ok || err != nil {
				t.Errorf("what has ended was ended again: %v, %v", ok, err)
			}
			l = p.until(t, "other script", func(l *track.Look) bool { return count(l, "/slow.php") == 1 })
			for i, s := range l.Sessions {
				if s.Application == "/slow.php" {
					if ok, err := p.source.Act(t.Context(), l.Sample.Tasks[i].ID, culprit.Session); !ok || err != nil {
						t.Fatal(ok, err)
					}
				}
			}
			for _, ch := range []<-chan string{a, b} {
				if text := <-ch; !strings.Contains(text, "EOF") && !strings.Contains(text, "reset") {
					t.Errorf("a script that was ended got %q", text)
				}
			}
		})
	}
}

// A process that is held stands still, and goes on afterwards, with the signal that it got meanwhile.
func TestHold(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	pid := int64(sleep.Process.Pid)
	state := func() string {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, after, _ := strings.Cut(string(text), ") ")
		return after[:min(1, len(after))]
	}
	held := ""
	ok, err := end(pid, false, func() (bool, error) {
		held = state()
		return false, nil
	})
	if ok || err != nil {
		t.Fatal(ok, err)
	}
	if held != "t" {
		t.Logf("held, its state was %q: this kernel does not let it be held", held)
	}
	for began := time.Now(); state() != "S" && time.Since(began) < patience; {
		time.Sleep(time.Millisecond)
	}
	if state() != "S" {
		t.Errorf("its state is %q, expected that it sleeps again", state())
	}
	if ok, err := end(pid, false, func() (bool, error) { return true, nil }); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := sleep.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("it ended with %v", err)
	}
	if ok, err := end(pid, false, func() (bool, error) { return true, nil }); ok || err != nil {
		t.Errorf("a process that is gone was signalled: %v, %v", ok, err)
	}
}
