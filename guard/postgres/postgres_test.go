package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/guard/track/looktest"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/harness/servers"
	"github.com/spillgate/spillgate/internal/leaks"
)

// server is one PostgreSQL for all tests of the package.
var server struct {
	once sync.Once
	s    *servers.Server
	err  error
}

func TestMain(m *testing.M) {
	ctx, cancel := context.WithCancel(context.Background())
	code := m.Run()
	cancel()
	if server.s != nil {
		server.s.Stop()
	}
	if code == 0 {
		if err := leaks.Find(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	_ = ctx
	os.Exit(code)
}

// start returns the server's URL as superuser and as the role of Setup.
func start(t *testing.T) (super, least string) {
	t.Helper()
	server.once.Do(func() {
		server.s, server.err = servers.Postgres(context.Background(), servers.PostgresConfig{Settings: map[string]string{"max_prepared_transactions": "2", "autovacuum": "off"}})
		if server.err != nil {
			return
		}
		conn, err := pgx.Connect(context.Background(), server.s.PostgresURL("postgres"))
		if err == nil {
			_, err = conn.Exec(context.Background(), Setup("spillgate")+"; CREATE ROLE app LOGIN; CREATE TABLE t (id int primary key, v int); GRANT ALL ON t TO app; INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i")
			conn.Close(context.Background())
		}
		server.err = err
	})
	servers.SkipMissing(t, server.err)
	super = server.s.PostgresURL("postgres")
	return super, strings.Replace(super, "postgres@", "spillgate@", 1)
}

// session is a client of the application.
type session struct {
	*pgx.Conn
	t    *testing.T
	done chan error
}

func connect(t *testing.T, url string) *session {
	t.Helper()
	var c *pgx.Conn
	let(t, func() (err error) {
		c, err = pgx.Connect(t.Context(), strings.Replace(url, "postgres@", "app@", 1))
		return err
	})
	s := &session{Conn: c, t: t}
	t.Cleanup(func() {
		if s.done != nil {
			<-s.done
		}
		c.Close(context.Background())
	})
	return s
}

func (s *session) do(sql string) {
	s.t.Helper()
	if _, err := s.Exec(s.t.Context(), sql); err != nil {
		s.t.Fatal(err)
	}
}

// begin runs a statement that will not end soon.
func (s *session) begin(sql string) {
	s.done = make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*looktest.Patience) // a test that fails leaves it waiting
		defer cancel()
		_, err := s.Exec(ctx, sql)
		s.done <- err
	}()
}

func open(t *testing.T, url string) *Source {
	t.Helper()
	var s *Source
	let(t, func() (err error) {
		s, err = Open(t.Context(), url, 100*time.Millisecond)
		return err
	})
	t.Cleanup(s.Close)
	return s
}

// let connects, again while the server still counts sessions of tests before that have closed their connections: the role
// may have four.
func let(t *testing.T, connect func() error) {
	t.Helper()
	for end := time.Now().Add(looktest.Patience); ; time.Sleep(25 * time.Millisecond) {
		err := connect()
		if err == nil {
			return
		}
		if full := (*pgconn.PgError)(nil); !errors.As(err, &full) || full.Code != "53300" || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// find returns the index of the task that runs a statement of a class with a word.
func find(l *track.Look, class statement.Class, word string) int {
	return slices.IndexFunc(l.Sessions, func(s track.Session) bool {
		return s.Statement.Class == class && strings.Contains(s.Statement.Text, word)
	})
}

// One idle transaction holds a table lock, three wait: the idle one is terminated,
// for a cancel has no effect on it, and not if its transaction has changed.
func TestIdleHolderOfATableLock(t *testing.T) {
	super, least := start(t)
	s := open(t, least)
	holder := connect(t, super)
	holder.do("BEGIN; LOCK TABLE t IN EXCLUSIVE MODE")
	var victims []*session
	for i := range 3 {
		v := connect(t, super)
		v.begin(fmt.Sprintf("UPDATE t SET v = v + 1 WHERE id = %d", i+1))
		victims = append(victims, v)
	}
	l := looktest.Until(t, s, "three edges", func(l *track.Look) bool { return len(l.Sample.Edges) == 3 })
	want := `edge update t set v = v + ? where id = ? -> begin ; lock table t in exclusive mode, lock: table
task begin ; lock table t in exclusive mode idle barred=none statement=false session=true
task update t set v = v + ? where id = ? barred=none statement=true session=true`
	if got := looktest.Picture(l); got != want {
		t.Fatalf("saw\n%s\nexpected\n%s", got, want)
	}
	if len(l.Notes) > 0 {
		t.Errorf("notes %q of a role that has all rights", l.Notes)
	}
	at := l.Sample.Edges[0].Blocker
	id := l.Sample.Tasks[at].ID
	goal := s.builder.targets[id]
	s.builder.targets[id] = target{pid: goal.pid, begun: goal.begun, transaction: goal.transaction.Add(-time.Second)}
	if done, err := s.Act(t.Context(), id, culprit.Session); done || err != nil {
		t.Errorf("another transaction was terminated: %v, %v", done, err)
	}
	s.builder.targets[id] = goal
	if done, err := s.Act(t.Context(), id, culprit.Session); !done || err != nil {
		t.Fatalf("not terminated: %v, %v", done, err)
	}
	for _, v := range victims {
		if err := <-v.done; err != nil {
			t.Errorf("a victim failed: %v", err)
		}
		v.done = nil
	}
	looktest.Until(t, s, "nobody", func(l *track.Look) bool { return len(l.Sample.Tasks) == 0 })
}

// A reader, a pending ALTER and those behind it: the edges lead to the request that
// dams, which is barred because it changes a table.
func TestPendingRequestDams(t *testing.T) {
	super, least := start(t)
	s := open(t, least)
	reader := connect(t, super)
	reader.do("BEGIN; SELECT * FROM t")
	owner, err := pgx.Connect(t.Context(), super)
	if err != nil {
		t.Fatal(err)
	}
	alter := &session{Conn: owner, t: t}
	alter.begin("ALTER TABLE t ADD COLUMN w int")
	looktest.Until(t, s, "the ALTER", func(l *track.Look) bool { return find(l, statement.Schema, "alter") >= 0 && len(l.Sample.Edges) == 1 })
	victim := connect(t, super)
	victim.begin("SELECT count(*) FROM t")
	l := looktest.Until(t, s, "two edges", func(l *track.Look) bool { return len(l.Sample.Edges) == 2 })
	want := `edge alter table t add column w int -> begin ; select * from t, lock: table
edge select count ( * ) from t -> alter table t add column w int, lock: table
task alter table t add column w int barred=schema statement=false session=false
task begin ; select * from t idle barred=none statement=false session=true
task select count ( * ) from t barred=none statement=true session=true`
	if got := looktest.Picture(l); got != want {
		t.Fatalf("saw\n%s\nexpected\n%s", got, want)
	}
	reader.do("ROLLBACK")
	<-alter.done
	owner.Exec(t.Context(), "ALTER TABLE t DROP COLUMN w")
	owner.Close(t.Context())
}

// Waiters on one row: each has one edge to the root or to the next in line, not to
// all before it. A session's advisory lock keeps its task from one statement to the
// next. A prepared transaction is named and cannot be cancelled.
func TestRowsAdvisoryAndPrepared(t *testing.T) {
	super, least := start(t)
	s := open(t, least)
	holder := connect(t, super)
	holder.do("BEGIN; UPDATE t SET v = 1 WHERE id = 50")
	for range 8 {
		connect(t, super).begin("UPDATE t SET v = 2 WHERE id = 50")
	}
	l := looktest.Until(t, s, "eight waiters", func(l *track.Look) bool { return len(l.Sample.Edges) >= 8 })
	if n := len(l.Sample.Edges); n > 16 {
		t.Errorf("%d edges of 8 waiters", n)
	}
	holder.do("COMMIT")
	looktest.Until(t, s, "nobody", func(l *track.Look) bool { return len(l.Sample.Tasks) == 0 })

	holder.do("SELECT pg_advisory_lock(7)")
	waiter := connect(t, super)
	waiter.begin("SELECT pg_advisory_lock(7)")
	var ids []uint64
	for i := range 2 {
		l := looktest.Until(t, s, "an advisory edge", func(l *track.Look) bool { return len(l.Sample.Edges) == 1 })
		e := l.Sample.Edges[0]
		if name := l.Sample.Resources[e.Resource].Name; name != "lock: advisory" || !l.Sample.Tasks[e.Blocker].Idle {
			t.Errorf("%s: %+v", name, l.Sample.Tasks[e.Blocker])
		}
		ids = append(ids, l.Sample.Tasks[e.Blocker].ID)
		holder.do(fmt.Sprintf("SELECT %d", i))
	}
	if ids[0] != ids[1] {
		t.Errorf("the holder is task %d and then %d", ids[0], ids[1])
	}
	goal := s.builder.targets[ids[1]]
	free := connect(t, super)
	free.do("SELECT pg_advisory_lock(8)")
	for what, goal := range map[string]target{"keeps another lock now": {keeps: goal.keeps}, "does something else, in no transaction": {statement: goal.statement}} {
		goal.pid, goal.begun = int64(free.PgConn().PID()), startOf(t, free)
		s.builder.targets[ids[1]] = goal
		if done, err := s.Act(t.Context(), ids[1], culprit.Session); done || err != nil {
			t.Errorf("a session was terminated that %s: %v, %v", what, done, err)
		}
	}
	free.do("SELECT 1")
	s.builder.targets[ids[1]] = goal
	if done, err := s.Act(t.Context(), ids[1], culprit.Session); !done || err != nil {
		t.Errorf("not terminated: %v, %v", done, err)
	}
	if err := <-waiter.done; err != nil {
		t.Error(err)
	}
	waiter.done = nil

	prepared := connect(t, super)
	prepared.do("BEGIN; UPDATE t SET v = 3 WHERE id = 51")
	prepared.do("PREPARE TRANSACTION 'p'")
	behind := connect(t, super)
	behind.begin("UPDATE t SET v = 4 WHERE id = 51")
	l = looktest.Until(t, s, "a wait for the prepared one", func(l *track.Look) bool { return len(l.Sample.Edges) == 1 })
	e := l.Sample.Edges[0]
	if task := l.Sample.Tasks[e.Blocker]; task.Steps != 0 || !strings.Contains(l.Sessions[e.Blocker].State, "prepared transaction") {
		t.Errorf("the prepared transaction is %+v, %+v", task, l.Sessions[e.Blocker])
	}
	prepared.do("ROLLBACK PREPARED 'p'")
}

// startOf returns when a session began.
func startOf(t *testing.T, s *session) (begun time.Time) {
	t.Helper()
	if err := s.QueryRow(t.Context(), "SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()").Scan(&begun); err != nil {
		t.Fatal(err)
	}
	return begun
}

// The server's own workers belong to no role, and only a superuser may signal them.
func TestWorkersOfTheServer(t *testing.T) {
	worker := &activityRow{backend: "autovacuum worker", state: "active"}
	if got := steps(&input{role: "spillgate", maySignal: true}, worker, false); got != 0 {
		t.Errorf("a role with pg_signal_backend may do %b to a worker, expected nothing", got)
	}
	if got := steps(&input{role: "postgres", super: true, maySignal: true}, worker, false); got != culprit.StepsOf(culprit.Statement) {
		t.Errorf("a superuser may do %b to a worker, expected to cancel its statement", got)
	}
}

// Workers of extensions have any name, and may apply what another server did.
func TestWorkersOfExtensionsAreBarred(t *testing.T) {
	for backend, want := range map[string]culprit.Bar{"client backend": culprit.NotBarred, "parallel worker": culprit.NotBarred, "pglogical apply 16384:1": culprit.Maintenance,
		"pg_cron": culprit.Maintenance, "startup": culprit.Maintenance, "logical replication apply worker": culprit.Replication, "walsender": culprit.Replication} {
		if got := barOf(&activityRow{backend: backend, state: "active"}, statement.Select); got != want {
			t.Errorf("%s: %v, expected %v", backend, got, want)
		}
	}
}

// What could be cancelled nowhere is not looked at.
func TestTwoServersAreRefused(t *testing.T) {
	super, _ := start(t)
	other, err := servers.Postgres(t.Context(), servers.PostgresConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Stop()
	s := &Source{builder: newBuilder(time.Second)}
	defer s.Close()
	for conn, url := range map[**pgx.Conn]string{&s.looks: super, &s.acts: other.PostgresURL("postgres")} {
		cfg, err := Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		if *conn, err = pgx.ConnectConfig(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.learn(t.Context()); err == nil || !strings.Contains(err.Error(), "two servers") {
		t.Errorf("%v", err)
	}
	// Nor is a connection to cancel kept that was made anew and reached another server.
	s.cfg = s.acts.Config()
	_ = s.acts.Close(t.Context())
	for range 2 {
		if err := s.Alive(t.Context()); err == nil || !strings.Contains(err.Error(), "two servers") {
			t.Errorf("%v", err)
		}
	}
}

// A server that is too slow for a look keeps the guard's connection to cancel, and what was known of its tasks.
func TestALateLook(t *testing.T) {
	super, least := start(t)
	s := open(t, least)
	busy := connect(t, super)
	busy.do("BEGIN; LOCK TABLE t IN EXCLUSIVE MODE")
	connect(t, super).begin("UPDATE t SET v = v + 1 WHERE id = 12")
	l := looktest.Until(t, s, "the holder", func(l *track.Look) bool { return len(l.Sample.Edges) == 1 })
	id, pid := l.Sample.Tasks[l.Sample.Edges[0].Blocker].ID, s.acts.PgConn().PID()
	for _, patience := range []time.Duration{time.Minute, 100 * time.Millisecond} { // the server gives up, and the guard does
		slow, err := pgx.Connect(t.Context(), super)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := slow.Exec(t.Context(), "BEGIN; LOCK TABLE pg_authid IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if _, err := s.Look(ctx); !errors.Is(err, track.ErrLate) {
			t.Errorf("with a patience of %v: %v, expected that the server answers too late", patience, err)
		}
		cancel()
		slow.Close(context.Background())
		l, err := s.Look(t.Context())
		if err != nil || len(l.Sample.Edges) != 1 || l.Sample.Tasks[l.Sample.Edges[0].Blocker].ID != id || s.acts.PgConn().PID() != pid {
			t.Fatalf("with a patience of %v: %v, the next look is\n%s", patience, err, looktest.Picture(l))
		}
	}
	// Nor does a lost connection to cancel cost what was known.
	admin, err := pgx.Connect(t.Context(), super)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	if _, err := admin.Exec(t.Context(), "SELECT pg_terminate_backend($1, 60000)", int32(pid)); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Act(t.Context(), id, culprit.Session); !done || err != nil {
		t.Errorf("not terminated: %v, %v", done, err)
	}
}

// A text in another database may be of an encoding that this one's functions refuse.
func TestTextsOfOtherEncodings(t *testing.T) {
	super, least := start(t)
	s := open(t, least)
	admin, err := pgx.Connect(t.Context(), super)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'"); err != nil {
		t.Fatal(err)
	}
	c := connect(t, strings.Replace(super, "/postgres?", "/latin?", 1))
	c.do("SELECT 'été \u00e9'")
	c.begin("SELECT '\xe9t\xe9', pg_sleep(600)")
	defer func() { _ = c.PgConn().CancelRequest(context.Background()) }()
	looktest.Until(t, s, "the text", func(l *track.Look) bool { return find(l, statement.Select, "pg_sleep") >= 0 })
}

// A session does not escape the guard by the guard's name, or by the text of a hidden one; another guard's sessions are left out.
func TestTheGuardsOwnSessions(t *testing.T) {
	super, least := start(t)
	s := open(t, least)
	open(t, least)
	named := connect(t, super)
	named.do("SET application_name = '" + Application + "'")
	named.do("BEGIN; LOCK TABLE t IN EXCLUSIVE MODE; SAVEPOINT a")
	if _, err := named.Exec(t.Context(), "<insufficient privilege>"); err == nil { // what a view shows of sessions that are hidden
		t.Error("the server understands <insufficient privilege>")
	}
	connect(t, super).begin("UPDATE t SET v = v + 1 WHERE id = 9")
	l := looktest.Until(t, s, "the holder", func(l *track.Look) bool { return len(l.Sample.Edges) == 1 })
	if n := len(l.Sample.Tasks); n != 2 {
		t.Errorf("%d tasks, expected the holder and the waiter:\n%s", n, looktest.Picture(l))
	}
	named.do("ROLLBACK")
}

// A pooler such as PgBouncer numbers its clients itself, or swallows their settings.
func TestPooler(t *testing.T) {
	if pooled(7, 7, ownTimeout) || !pooled(7, 8, ownTimeout) || !pooled(7, 7, "0") {
		t.Error("a pooler is not told from a server")
	}
}

// What a role may not see or do is said with the GRANT that is missing.
func TestMissingRights(t *testing.T) {
	super, _ := start(t)
	busy := connect(t, strings.Replace(super, "postgres@", "spillgate@", 1))
	busy.begin("SELECT pg_sleep(600)")
	defer func() {
		if err := busy.PgConn().CancelRequest(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	s := open(t, strings.Replace(super, "postgres@", "app@", 1))
	l := looktest.Until(t, s, "notes", func(l *track.Look) bool { return len(l.Notes) == 2 })
	for i, want := range []string{`GRANT pg_read_all_stats TO "app"`, `GRANT pg_signal_backend TO "app"`} {
		if !strings.Contains(l.Notes[i], want) {
			t.Errorf("note %q, expected %s", l.Notes[i], want)
		}
	}
}

// A statement that runs is seen with what it consumes, and cancelled.
func TestConsumption(t *testing.T) {
	super, least := start(t)
	s := open(t, least)
	busy := connect(t, super)
	busy.begin("SELECT count(*) FROM generate_series(1, 1000000000)")
	l := looktest.Until(t, s, "consumption", func(l *track.Look) bool {
		return slices.ContainsFunc(l.Sample.Holds, func(h culprit.Hold) bool { return h.Resource == processor && h.Gets > 1e6 }) || !s.beside
	})
	if !s.beside {
		t.Log("the server's processes are not visible here")
	}
	if done, err := s.Act(t.Context(), l.Sample.Tasks[0].ID, culprit.Statement); !done || err != nil {
		t.Fatalf("not cancelled: %v, %v", done, err)
	}
	if err := <-busy.done; err == nil || !strings.Contains(err.Error(), "57014") {
		t.Errorf("the statement ended with %v, expected query_canceled", err)
	}
	busy.done = nil
}

func TestPasswordsAreNotShown(t *testing.T) {
	for _, url := range []string{"postgres://u:s3cret@h:x/", "postgres://u:s3cret@[::1", "postgres://u:s3cret@127.0.0.1:1/d?sslmode=disable", "postgres://u:s3cret@h/?sslmode=s3cret",
		"postgres://u:12/s3cret@h/d", "postgres://u:12#s3cret@h/d"} {
		_, err := Open(t.Context(), url, time.Second)
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v", err)
		}
	}
}

// BenchmarkLook is a look at a server with 100 idle sessions.
func BenchmarkLook(b *testing.B) {
	s, err := servers.Postgres(b.Context(), servers.PostgresConfig{Settings: map[string]string{"max_connections": "130"}})
	servers.SkipMissing(b, err)
	defer s.Stop()
	for range 100 {
		c, err := pgx.Connect(b.Context(), s.PostgresURL("postgres"))
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close(context.Background())
	}
	source, err := Open(b.Context(), s.PostgresURL("postgres"), time.Second)
	if err != nil {
		b.Fatal(err)
	}
	defer source.Close()
	for b.Loop() {
		if _, err := source.Look(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// A user's function that fits the guard's statements better than the server's own is not called with the guard's rights.
func TestFunctionsOfUsersAreNotCalled(t *testing.T) {
	super, least := start(t)
	root := connect(t, strings.Replace(super, "postgres@", "postgres:@", 1)) // not as the application
	root.do("GRANT CREATE ON SCHEMA public TO app")
	user := connect(t, super)
	user.do(`CREATE FUNCTION public.concat_ws(text, text, oid, oid, integer, smallint, text, xid, oid, oid, smallint) RETURNS text LANGUAGE plpgsql AS
'BEGIN RAISE EXCEPTION ''called by %'', current_user; END'`)
	t.Cleanup(func() {
		_, _ = user.Exec(context.Background(), "DROP FUNCTION public.concat_ws(text, text, oid, oid, integer, smallint, text, xid, oid, oid, smallint)")
		_, _ = root.Exec(context.Background(), "REVOKE CREATE ON SCHEMA public FROM app")
	})
	s := open(t, least)
	holder, waiter := connect(t, super), connect(t, super)
	holder.do("BEGIN; LOCK TABLE t IN EXCLUSIVE MODE")
	waiter.begin("UPDATE t SET v = v + 1 WHERE id = 1")
	looktest.Until(t, s, "an edge", func(l *track.Look) bool { return len(l.Sample.Edges) == 1 })
	holder.do("COMMIT")
}

// What a session does one after the other is of one owner; so is what an application does that opens a session for each statement. The sessions of a
// pool work at the same time: each is an owner of its own.
func TestOwners(t *testing.T) {
	super, least := start(t)
	s := open(t, least)
	named := func(name string) *session {
		return connect(t, super+"&application_name="+name)
	}
	running := func(c *session, text string) (task, owner uint64) {
		t.Helper()
		c.begin(text)
		runs := func(x track.Session) bool { return x.Process == int64(c.PgConn().PID()) && x.Statement.Text != "" } // not a request that it has not read yet
		l := looktest.Until(t, s, text, func(l *track.Look) bool { return slices.ContainsFunc(l.Sessions, runs) })
		at := slices.IndexFunc(l.Sessions, runs)
		return l.Sample.Tasks[at].ID, l.Sample.Tasks[at].Owner
	}
	ends := func(c *session) {
		t.Helper()
		for len(c.done) == 0 {
			_ = c.PgConn().CancelRequest(t.Context())
			time.Sleep(20 * time.Millisecond)
		}
		<-c.done
		c.done = nil
	}
	one, other := named("pooled"), named("pooled")
	first, owner := running(one, "SELECT pg_sleep(600)")
	_, theirs := running(other, "SELECT pg_sleep(601)")
	ends(one)
	second, again := running(one, "SELECT pg_sleep(600), 2")
	if first == second || owner == 0 || owner != again || owner == theirs {
		t.Errorf("tasks %d and %d of owners %x and %x, another session's is of %x; expected two tasks of one owner, which is not the other's", first, second, owner, again, theirs)
	}
	ends(one)
	ends(other)
	owners := map[uint64]bool{}
	for range 2 {
		alone := named("alone")
		_, owner := running(alone, "SELECT pg_sleep(600)")
		owners[owner] = true
		ends(alone)
		alone.Close(t.Context())
		looktest.Until(t, s, "no session of the application", func(*track.Look) bool {
			var n int
			return one.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'alone'").Scan(&n) == nil && n == 0
		})
	}
	if len(owners) != 1 || owners[0] {
		t.Errorf("two sessions of an application, one after the other, are of %d owners, expected one that is known", len(owners))
	}
}

// What a statement is is known also where its text was shown so late that the look before could have shown it: it decides whether it may be cancelled.
func TestTextsThatAreShownLate(t *testing.T) {
	super, least := start(t)
	s := open(t, least)
	busy := connect(t, strings.Replace(super, "postgres@", "postgres:@", 1)) // not as the application
	busy.do("CREATE TABLE late (a int)")
	defer busy.do("DROP TABLE late")
	lock := connect(t, strings.Replace(super, "postgres@", "postgres:@", 1))
	lock.do("BEGIN; LOCK TABLE late IN ACCESS SHARE MODE")
	busy.begin("ALTER TABLE late ADD COLUMN b int")
	looktest.Until(t, s, "the ALTER", func(*track.Look) bool {
		clear(s.builder.known)
		s.since = time.Now().Add(time.Hour) // as if all had begun long before the look before
		l, err := s.Look(t.Context())
		return err == nil && find(l, statement.Schema, "alter table late") >= 0
	})
	lock.do("ROLLBACK")
	if err := <-busy.done; err != nil {
		t.Error(err)
	}
	busy.done = nil
}

// A process of this machine that has the number of a server's elsewhere is not taken for it: it is older.
func TestBeside(t *testing.T) {
	super, least := start(t)
	s := open(t, least)
	if !s.beside {
		t.Skip("the server's processes are not visible here")
	}
	old := connect(t, super)
	pid := int64(old.PgConn().PID())
	for _, lasted := range []time.Duration{-time.Minute, time.Minute} { // of one elsewhere
		if beside(pid, lasted) {
			t.Errorf("a process that has just begun is taken for one of %v", lasted)
		}
	}
	if !beside(pid, 0) {
		t.Error("the process of a session is not known")
	}
}

// A server that takes a connection and then answers nothing keeps no look for longer than it takes to connect.
func TestAServerThatFallsSilent(t *testing.T) {
	_, least := start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var silent atomic.Bool
	var relays sync.WaitGroup
	defer relays.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	relays.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			relays.Go(func() { relay(ctx, c, server.s, &silent) })
		}
	})
	defer l.Close()
	cfg, err := Parse(least)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, strings.Replace(least, fmt.Sprintf(":%d", cfg.Port), fmt.Sprintf(":%d", l.Addr().(*net.TCPAddr).Port), 1))
	s.cfg.ConnectTimeout = 500 * time.Millisecond
	silent.Store(true)
	_ = s.looks.Close(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Look(t.Context())
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, track.ErrLate) {
			t.Errorf("%v, expected that the server answers too late", err)
		}
	case <-time.After(looktest.Patience):
		t.Error("the look does not end")
		stop()
		<-done
	}
	stop()
}

// relay passes a connection on to a server until ctx ends; while it is silent, no further than to the end of the login.
func relay(ctx context.Context, c net.Conn, to *servers.Server, silent *atomic.Bool) {
	defer c.Close()
	up, err := net.Dial("tcp", net.JoinHostPort(to.Host, strconv.Itoa(to.Port)))
	if err != nil {
		return
	}
	defer up.Close()
	stopped := context.AfterFunc(ctx, func() {
		c.Close()
		up.Close()
	})
	defer stopped()
	var asks sync.WaitGroup
	defer asks.Wait()
	defer up.Close()
	asks.Go(func() { _, _ = io.Copy(up, c) })
	block := make([]byte, 1<<16)
	for in := false; ; {
		n, err := up.Read(block)
		if err != nil {
			return
		}
		if in && silent.Load() {
			continue
		}
		in = in || n >= 6 && block[n-6] == 'Z' // ReadyForQuery
		if _, err := c.Write(block[:n]); err != nil {
			return
		}
	}
}
