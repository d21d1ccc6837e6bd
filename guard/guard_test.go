package guard

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/harness/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	for range 300 {
		if s := w.Status(); want(s) {
			return s
		}
		time.Sleep(20 * time.Millisecond)
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
	for _, sql := range []string{"CREATE TABLE t (a int)", "BEGIN; LOCK TABLE t IN EXCLUSIVE MODE"} {
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	victims = &sync.WaitGroup{}
	for range 5 {
		c := connect()
		victims.Go(func() {
			if _, err := c.Exec(context.Background(), "INSERT INTO t VALUES (4711)"); err != nil {
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
	if text := w.log.String() + w.audit.String(); strings.Contains(text, "4711") || !strings.Contains(text, "lock table t in exclusive mode") {
		t.Errorf("texts: %s", text)
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
