package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/culprit/audit"
	"github.com/spillgate/spillgate/internal/harness/servers"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/live"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// lines is a log that tests read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// watched is a guard that runs.
type watched struct {
	*Guard
	log, audit lines
	stop       func()
}

func watch(t *testing.T, cfg Config) *watched {
	t.Helper()
	w := &watched{}
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	g, err := New(cfg, log, NewAudit(&w.audit, log))
	if err != nil {
		t.Fatal(err)
	}
	w.Guard = g
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx) })
	w.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(w.stop)
	return w
}

// eventually waits until a guard's status is as wanted.
func (w *watched) eventually(t *testing.T, what string, want func(Status) bool) Status {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // which only ends a hang
		if s := w.Status(); want(s) {
			return s
		}
	}
	t.Fatalf("no %s; the status is %+v, the log\n%s", what, w.Status(), w.log.String())
	return Status{}
}

// blocked is a PostgreSQL whose table is locked by an idle transaction, with clients
// that want to write to it.
func blocked(t *testing.T) (url string, holder *pgx.Conn, victims *sync.WaitGroup) {
	t.Helper()
	s, err := servers.Postgres(t.Context(), servers.PostgresConfig{})
	servers.SkipMissing(t, err)
	t.Cleanup(s.Stop)
	url = s.PostgresURL("postgres")
	connect := func() *pgx.Conn {
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		return c
	}
	holder = connect()
	for _, sql := range []string{"CREATE TABLE t (a text)", "BEGIN; LOCK TABLE t IN EXCLUSIVE MODE"} {
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	victims = &sync.WaitGroup{}
	for range 5 {
		c := connect()
		victims.Go(func() {
			if _, err := c.Exec(context.Background(), "INSERT INTO t VALUES ('a secret')"); err != nil {
				t.Error(err)
			}
		})
	}
	return url, holder, victims
}

// Enforce: the holder is named and its session ended; the victims go on.
func TestEnforce(t *testing.T) {
	url, holder, victims := blocked(t)
	w := watch(t, Config{URL: url, Objective: 200 * time.Millisecond, Mode: culprit.Enforce, ShowStatements: true})
	victims.Wait()
	s := w.eventually(t, "verified cancel", func(s Status) bool { return len(s.Cancels) > 0 && s.Cancels[0].Verdict != "" })
	c := s.Cancels[0]
	if c.Step != "session" || c.Verdict != "relieved" || !c.Met || c.Process != int64(holder.PgConn().PID()) {
		t.Errorf("cancelled %+v", c)
	}
	if text := w.log.String() + w.audit.String(); strings.Contains(text, "a secret") || !strings.Contains(text, "lock table t in exclusive mode") {
		t.Errorf("texts: %s", text)
	}
	// Every decision can be computed again.
	looks := 0
	err := audit.Replay(strings.NewReader(w.audit.String()), func(l *audit.Look) error {
		if looks++; !l.Same() {
			t.Errorf("line %d says %s, computed %s", l.Line, l.Logged, l.Replayed)
		}
		return nil
	})
	if err != nil || looks == 0 {
		t.Errorf("replay of %d looks: %v", looks, err)
	}
	if len(s.Cancels) != 1 {
		t.Errorf("%d cancels", len(s.Cancels))
	}
}

// Monitor: the same is said, and nothing is done.
func TestMonitor(t *testing.T) {
	url, holder, victims := blocked(t)
	w := watch(t, Config{URL: url, Objective: 200 * time.Millisecond})
	s := w.eventually(t, "would-be cancel", func(s Status) bool { return len(s.Cancels) > 0 })
	if c := s.Cancels[0]; !c.Would || c.Process != int64(holder.PgConn().PID()) || c.Statement != "" {
		t.Errorf("would cancel %+v", c)
	}
	if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
		t.Errorf("the holder was cancelled: %v", err)
	}
	victims.Wait()
	w.eventually(t, "normal state", func(s Status) bool { return s.State == "normal" || s.State == "idle" })
	if text := w.log.String() + w.audit.String(); strings.Contains(text, "lock table") || !strings.Contains(text, "would cancel") {
		t.Errorf("texts: %s", text)
	}
}

// A set guards several servers in one process, says which it cannot see, and is
// disarmed through its admin address and by the kill switch.
func TestSet(t *testing.T) {
	s, err := servers.Postgres(t.Context(), servers.PostgresConfig{})
	servers.SkipMissing(t, err)
	defer s.Stop()
	kill := filepath.Join(t.TempDir(), "kill")
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	var log lines
	set, err := NewSet(SetConfig{Audit: audit, Servers: []Config{
		{Name: "there", URL: s.PostgresURL("postgres"), Objective: time.Second, Mode: culprit.Enforce, KillSwitch: kill},
		{Name: "gone", URL: "postgres://u:s3cret@127.0.0.1:1/d", Objective: time.Second},
	}}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := set.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	ask := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		set.Admin().ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	until := func(what string, want func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if want() {
				return
			}
		}
		_, status := ask("GET", PathStatus)
		t.Fatalf("no %s; status %s, log\n%s", what, status, log.String())
	}
	until("one seen and one not", func() bool {
		_, text := ask("GET", PathMetrics)
		return strings.Contains(text, `spillgate_guard_connected{server="there"} 1`) && strings.Contains(text, `spillgate_guard_connected{server="gone"} 0`) &&
			strings.Contains(text, `spillgate_guard_failures_total{server="gone"}`)
	})
	if code, text := ask("GET", PathReady); code != 503 || !strings.Contains(text, "gone") {
		t.Errorf("ready says %d %s", code, text)
	}
	mode := func() string { return set.Status()[0].Mode }
	until("enforcing", func() bool { return mode() == "enforce" })
	if err := os.WriteFile(kill, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until("kill switch", func() bool { return strings.HasPrefix(mode(), "monitor (the kill switch") })
	if err := os.Remove(kill); err != nil {
		t.Fatal(err)
	}
	until("enforcing again", func() bool { return mode() == "enforce" })
	if code, _ := ask("GET", PathDisarm); code != 405 {
		t.Errorf("a GET disarms: %d", code)
	}
	if code, _ := ask("POST", PathDisarm); code != 200 {
		t.Errorf("a POST does not disarm: %d", code)
	}
	until("disarmed", func() bool { return strings.HasPrefix(mode(), "monitor (disarmed") })
	_, status := ask("GET", PathStatus)
	if all := log.String() + status; strings.Contains(all, "s3cret") {
		t.Errorf("a password: %s", all)
	}
	// A server that goes away is said so, and seen again when it is back.
	s.Stop()
	until("loss of the server", func() bool { return !set.Status()[0].Connected })
}

// broken is a source whose view has another shape, or hangs.
type broken struct {
	err    error
	closed chan struct{}
}

func (b *broken) Look(context.Context) (*track.Look, error)               { return nil, b.err }
func (b *broken) Act(context.Context, uint64, culprit.Step) (bool, error) { return false, b.err }
func (b *broken) Alive(context.Context) error                             { return nil }
func (b *broken) Close()                                                  { close(b.closed) }

// A view that fails makes the guard blind, with the reason, and it tries again.
func TestAViewThatFails(t *testing.T) {
	var log lines
	g, err := New(Config{URL: "postgres://h/d", Objective: time.Second, Mode: culprit.Enforce}, slog.New(slog.NewTextHandler(&log, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan *broken, 100)
	g.open = func(context.Context) (Source, error) {
		b := &broken{err: errors.New("pg_locks has another shape"), closed: make(chan struct{})}
		opened <- b
		return b, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx) })
	for range 3 {
		<-(<-opened).closed
	}
	cancel()
	running.Wait()
	if s := g.Status(); s.State != "blind" || !strings.Contains(s.Blind, "another shape") {
		t.Errorf("status %+v", s)
	}
	if n := strings.Count(log.String(), "cannot look at the server"); n != 1 {
		t.Errorf("the reason was logged %d times, expected once:\n%s", n, log.String())
	}
}

func TestRules(t *testing.T) {
	rules := Rules{Allow: []Rule{{Kind: "schema", User: "etl"}, {Fingerprint: "2a"}, {Kind: "backup", User: "dump"}}, Deny: []Rule{{Application: "nightly-*"}, {User: "shop", Kind: "copy"}}, Background: []Rule{{Database: "reports"}}}
	for _, tt := range []struct {
		session    track.Session
		barred     culprit.Bar
		only       bool
		want       culprit.Bar
		background bool
	}{
		{track.Session{User: "app"}, culprit.NotBarred, false, culprit.NotBarred, false},
		{track.Session{User: "app"}, culprit.NotBarred, true, culprit.Denied, false},
		{track.Session{User: "app", Statement: statement.Statement{Class: statement.Schema}}, culprit.Schema, false, culprit.Schema, false},
		{track.Session{User: "etl", Statement: statement.Statement{Class: statement.Schema}}, culprit.Schema, false, culprit.NotBarred, false},
		{track.Session{User: "etl", Application: "nightly-7", Statement: statement.Statement{Class: statement.Schema}}, culprit.Schema, false, culprit.Denied, false},
		{track.Session{User: "dump", Statement: statement.Statement{Class: statement.Select}}, culprit.Backup, false, culprit.NotBarred, false}, // the SELECT of a dump
		{track.Session{User: "dump", Statement: statement.Statement{Class: statement.Schema}}, culprit.Schema, false, culprit.Schema, false},
		{track.Session{Database: "reports", Statement: statement.Statement{Fingerprint: 42}}, culprit.Backup, true, culprit.NotBarred, true},
		{track.Session{Nameless: true}, culprit.NotBarred, false, culprit.Denied, false}, // it may be a nightly one
		{track.Session{User: "shop"}, culprit.NotBarred, false, culprit.Denied, false},   // its statement was not seen, and may be a copy
		{track.Session{User: "shop", Statement: statement.Statement{Fingerprint: 7, Class: statement.Write}}, culprit.NotBarred, false, culprit.NotBarred, false},
		{track.Session{Nameless: true, Application: "shop"}, culprit.NotBarred, false, culprit.NotBarred, false},
		{track.Session{Nameless: true, Application: "shop"}, culprit.NotBarred, true, culprit.Denied, false},
	} {
		r := rules
		r.Only = tt.only
		l := &track.Look{Sessions: []track.Session{tt.session}, Late: []track.Session{tt.session},
			Sample: culprit.Sample{Tasks: []culprit.Task{{Barred: tt.barred}}, Finished: culprit.Finished{Timed: 2, Late: 1}}}
		r.apply(l)
		if late := l.Sample.Finished.Late; (late == 0) != tt.background {
			t.Errorf("%+v, background %v: %d requests that ended late count", tt.session, tt.background, late)
		}
		if task := l.Sample.Tasks[0]; task.Barred != tt.want || task.Background != tt.background {
			t.Errorf("%+v, barred %v, only %v: %+v, expected %v", tt.session, tt.barred, tt.only, task, tt.want)
		}
	}
}

// A pattern says what it seems to say: a * stands for a / too, and a bracket for itself.
func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"*", "a/b", true}, {"nightly-*", "nightly-a/b", true}, {"nightly-*", "nightly", false}, {"*-job", "a-job-job", true}, {"*-job", "a-jobs", false},
		{"a*b*c", "a/b/b/c", true}, {"a*b*c", "acb", false}, {"?", "é", true}, {"?", "", false}, {"[etl]", "[etl]", true}, {"[etl]", "e", false}, {`a\b`, `a\b`, true},
		{"/admin/*", "/admin/users/*", true}, {"**", "x", true}, {"x**", "x", true}, {"x", "xy", false}, {"xy", "x", false},
	} {
		if got := matches(tt.pattern, tt.name); got != tt.want {
			t.Errorf("%q and %q: %v", tt.pattern, tt.name, got)
		}
	}
}

// tardy is a Source whose looks are late while it is told so.
type tardy struct {
	Source
	late bool
}

func (s *tardy) Look(context.Context) (*track.Look, error) {
	if s.late {
		return nil, fmt.Errorf("the list: %w", track.ErrLate)
	}
	return &track.Look{Sample: culprit.Sample{At: live.Now()}}, nil
}

// Looks that are late make a guard blind and leave its source open, but not for long.
func TestLate(t *testing.T) {
	g, err := New(Config{URL: "solr://127.0.0.1/solr/docs", Objective: time.Second}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	source := &tardy{}
	g.answered = time.Now()
	for i, late := range []bool{false, true, true, false} {
		source.late = late
		if _, err := g.step(t.Context(), source); err != nil || (g.Status().Blind != "") != late || g.Status().Connected == late {
			t.Errorf("look %d: %v, blind %q, expected that its being late is %v", i, err, g.Status().Blind, late)
		}
	}
	// Such a guard takes what a reload says, as any other.
	next := g.cfg
	next.Mode = culprit.Off
	g.next.Store(&next)
	source.late = true
	if _, err := g.step(t.Context(), source); err != nil || g.Status().Mode != culprit.Off.String() {
		t.Errorf("%v, mode %s after a reload, expected off", err, g.Status().Mode)
	}
	g.answered = time.Now().Add(-longestLate - time.Second)
	if _, err := g.step(t.Context(), source); !errors.Is(err, track.ErrLate) {
		t.Errorf("%v, expected that the source is given up", err)
	}
}

// crowd is a Source that shows more than an engine can use.
type crowd struct{ Source }

func (crowd) Look(context.Context) (*track.Look, error) {
	n := culprit.MaxTasks + 1
	return &track.Look{Sample: culprit.Sample{At: live.Now(), Tasks: make([]culprit.Task, n)}, Sessions: make([]track.Session, n)}, nil
}

// A look that cannot be used is said to be one.
func TestALookThatCannotBeUsed(t *testing.T) {
	g, err := New(Config{URL: "solr://127.0.0.1/solr/docs", Objective: time.Second}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.step(t.Context(), crowd{}); err != nil {
		t.Fatal(err)
	}
	if s := g.Status(); s.Connected || !strings.Contains(s.Blind, "tasks") {
		t.Errorf("connected %v, blind %q, expected that there are too many tasks", s.Connected, s.Blind)
	}
}
