package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/guard/track/looktest"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/harness/servers"
	"github.com/spillgate/spillgate/internal/leaks"
)

// server is one MariaDB for all tests of the package.
var server struct {
	once sync.Once
	s    *servers.Server
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if server.s != nil {
		server.s.Stop()
	}
	if code == 0 {
		if err := leaks.Find(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

const guardPassword = "s3cret"

// start returns the URL of the role of Setup, and makes the table anew.
func start(t *testing.T) string {
	t.Helper()
	server.once.Do(func() {
		server.s, server.err = servers.MariaDB(context.Background(), servers.MariaDBConfig{ExtraPort: true, Settings: map[string]string{
			"performance-schema-instrument": "wait/lock/metadata/sql/mdl=ON", "thread-handling": "pool-of-threads", "thread-pool-size": "2", "thread-pool-max-threads": "30"}})
		if server.err != nil {
			return
		}
		db, err := sql.Open("mysql", server.s.MySQLDSN("mysql", true)+"&multiStatements=true")
		if err == nil {
			setup := strings.ReplaceAll(Setup("spillgate"), "…", guardPassword)
			_, err = db.Exec(setup + "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB; INSERT INTO d.t SELECT seq, 0 FROM seq_1_to_1000")
			db.Close()
		}
		server.err = err
	})
	servers.SkipMissing(t, server.err)
	return fmt.Sprintf("mariadb://spillgate:%s@%s:%d/", guardPassword, server.s.Host, server.s.Port)
}

// session is a client of the application.
type session struct {
	*sql.Conn
	t    *testing.T
	done chan error
}

func client(t *testing.T) *session { return clientOf(t, server.s, "d") }

func clientOf(t *testing.T, s *servers.Server, database string) *session {
	t.Helper()
	db, err := sql.Open("mysql", s.MySQLDSN(database, false))
	if err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one := &session{Conn: c, t: t}
	t.Cleanup(func() {
		if one.done != nil {
			<-one.done
		}
		c.Close()
		db.Close()
	})
	return one
}

func (s *session) do(text string) {
	s.t.Helper()
	if _, err := s.ExecContext(s.t.Context(), text); err != nil {
		s.t.Fatal(err)
	}
}

// begin runs a statement that will not end soon.
func (s *session) begin(text string) {
	s.done = make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*looktest.Patience) // a test that fails leaves it waiting
		defer cancel()
		_, err := s.ExecContext(ctx, text)
		s.done <- err
	}()
}

// ends waits for what begin began.
func (s *session) ends() error {
	err := <-s.done
	s.done = nil
	return err
}

func open(t *testing.T, url string) *Source {
	t.Helper()
	s, err := Open(t.Context(), url, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func idleBlocker(l *track.Look) (uint64, bool) {
	for _, e := range l.Sample.Edges {
		if l.Sample.Tasks[e.Blocker].Idle {
			return l.Sample.Tasks[e.Blocker].ID, true
		}
	}
	return 0, false
}

// SELECT … FOR UPDATE in a transaction that then idles: KILL QUERY has nothing to end,
// the connection goes, the victims go on. The connections of the guard are those of the
// extra port.
func TestRowLocks(t *testing.T) {
	url := start(t)
	s := open(t, url)
	if len(s.notes) > 0 {
		t.Errorf("notes %q of a role that has all rights", s.notes)
	}
	holder := client(t)
	holder.do("BEGIN")
	holder.do("UPDATE t SET v = 1 WHERE id = 5")
	var victims []*session
	for range 6 {
		v := client(t)
		v.begin("UPDATE t SET v = v + 1 WHERE id = 5")
		victims = append(victims, v)
	}
	l := looktest.Until(t, s, "edges to the idle holder", func(l *track.Look) bool { _, ok := idleBlocker(l); return ok && len(l.Sample.Tasks) == 7 })
	if n := len(l.Sample.Edges); n > oldestWaiters {
		t.Errorf("%d edges of the %d oldest waiters", n, oldestWaiters)
	}
	// No view tells what an idle session did last.
	for _, want := range []string{"edge update t set v = v + ? where id = ? -> , lock: row", "task  idle barred=none statement=false session=true"} {
		if got := looktest.Picture(l); !strings.Contains(got, want) {
			t.Errorf("saw\n%s\nexpected\n%s", got, want)
		}
	}
	id, _ := idleBlocker(l)
	goal := s.builder.targets[id]
	s.builder.targets[id] = target{session: goal.session, transaction: goal.transaction + 1000}
	if done, err := s.Act(t.Context(), id, culprit.Session); done || err != nil {
		t.Errorf("another transaction was killed: %v, %v", done, err)
	}
	s.builder.targets[id] = goal
	if done, err := s.Act(t.Context(), id, culprit.Session); !done || err != nil {
		t.Fatalf("not killed: %v, %v", done, err)
	}
	for _, v := range victims {
		if err := v.ends(); err != nil {
			t.Errorf("a victim failed: %v", err)
		}
	}
}

// A server that is too slow for a look keeps the guard's connection to cancel, and what was known of its tasks.
func TestALateLook(t *testing.T) {
	s := open(t, start(t))
	holder, waiter := client(t), client(t)
	holder.do("SELECT GET_LOCK('late', 1)")
	waiter.begin("SELECT GET_LOCK('late', 90)")
	l := looktest.Until(t, s, "an idle holder", func(l *track.Look) bool { _, ok := idleBlocker(l); return ok })
	id, _ := idleBlocker(l)
	acts := s.acts.id
	ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
	defer cancel()
	<-ctx.Done()
	if _, err := s.Look(ctx); !errors.Is(err, track.ErrLate) {
		t.Errorf("%v, expected that the server answers too late", err)
	}
	l, err := s.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if same, _ := idleBlocker(l); same != id || s.acts.id != acts {
		t.Errorf("the next look is\n%s", looktest.Picture(l))
	}
	// Nor does a lost connection to cancel cost what was known.
	s.acts.close()
	if done, err := s.Act(t.Context(), id, culprit.Session); !done || err != nil {
		t.Errorf("not killed: %v, %v", done, err)
	}
	if err := waiter.ends(); err != nil {
		t.Error(err)
	}
}

// What could be cancelled nowhere is not looked at.
func TestTwoServersAreRefused(t *testing.T) {
	s := open(t, start(t))
	other, err := servers.MariaDB(t.Context(), servers.MariaDBConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Stop()
	two := open(t, other.MySQLURL("mariadb"))
	if err := (&Source{looks: s.looks, acts: two.acts}).alike(t.Context()); err == nil || !strings.Contains(err.Error(), "two servers") {
		t.Errorf("%v", err)
	}
	// Nor is a connection to cancel kept that was made anew and reached another server.
	two.acts.close()
	moved := &Source{cfg: two.cfg, looks: s.looks, acts: two.acts}
	for range 2 {
		if err := moved.Alive(t.Context()); err == nil || !strings.Contains(err.Error(), "two servers") {
			t.Errorf("%v", err)
		}
	}
}

// A session that ended the transaction of the look, and is in the next one by the time of the cancel, is not killed,
// although the view of transactions still shows what the look saw.
func TestTheNextTransactionIsSpared(t *testing.T) {
	s := open(t, start(t))
	holder := client(t)
	for _, next := range []string{"BEGIN", "UPDATE t SET v = 2 WHERE id = 600"} {
		for _, step := range []culprit.Step{culprit.Session, culprit.Statement} {
			holder.do("BEGIN")
			holder.do("UPDATE t SET v = 1 WHERE id = 5")
			waiter := client(t)
			waiter.begin("UPDATE t SET v = v + 1 WHERE id = 5")
			l := looktest.Until(t, s, "an idle holder", func(l *track.Look) bool { _, ok := idleBlocker(l); return ok && s.fresh })
			id, _ := idleBlocker(l)
			holder.do("COMMIT")
			holder.do(next)
			if done, err := s.Act(t.Context(), id, step); done || err != nil {
				t.Fatalf("the next transaction was ended by a step %v: %v, %v", step, done, err)
			}
			holder.do("COMMIT")
			if err := waiter.ends(); err != nil {
				t.Error(err)
			}
		}
	}
}

// The session of a name that it let go, and that keeps another one now, is not killed.
func TestAnotherLockIsSpared(t *testing.T) {
	s := open(t, start(t))
	holder, waiter := client(t), client(t)
	holder.do("SELECT GET_LOCK('first', 1)")
	waiter.begin("SELECT GET_LOCK('first', 90)")
	l := looktest.Until(t, s, "an idle holder", func(l *track.Look) bool { _, ok := idleBlocker(l); return ok })
	id, _ := idleBlocker(l)
	holder.do("SELECT RELEASE_ALL_LOCKS()")
	holder.do("SELECT GET_LOCK('second', 1)")
	if err := waiter.ends(); err != nil {
		t.Error(err)
	}
	if done, err := s.Act(t.Context(), id, culprit.Session); done || err != nil {
		t.Errorf("killed for another lock than that of the look: %v, %v", done, err)
	}
	holder.do("SELECT RELEASE_ALL_LOCKS()")
}

// A long UPDATE, FLUSH TABLES WITH READ LOCK that waits for it, and writers behind the
// pending request: the request dams, and killing it loses nothing.
func TestFlushDams(t *testing.T) {
	s := open(t, start(t))
	long, killer := client(t), client(t)
	var id int64
	if err := long.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = killer.ExecContext(context.Background(), fmt.Sprint("KILL QUERY ", id)) })
	long.begin("UPDATE t SET v = v + SLEEP(0.05) WHERE id <= 900") // until it is killed, on a busy machine too
	looktest.Until(t, s, "the UPDATE", func(l *track.Look) bool { return strings.Contains(looktest.Picture(l), "sleep") })
	dam := client(t)
	dam.begin("FLUSH TABLES WITH READ LOCK")
	looktest.Until(t, s, "the FLUSH", func(l *track.Look) bool { return len(l.Sample.Edges) == 1 })
	victim := client(t)
	victim.begin("UPDATE t SET v = 1 WHERE id = 950")
	want := `edge flush tables with read lock -> update t set v = v + sleep ( ? ) where id <= ?, lock: backup
edge update t set v = ? where id = ? -> flush tables with read lock, lock: backup
task flush tables with read lock barred=backup statement=true session=true
task update t set v = ? where id = ? barred=none statement=true session=true
task update t set v = v + sleep ( ? ) where id <= ? barred=none statement=true session=true`
	// A statement that has just begun may lack its text, and the server may still be about to end a session of the test before.
	l := looktest.Until(t, s, "this:\n"+want+"\n", func(l *track.Look) bool { return looktest.Picture(l) == want })
	at := slices.IndexFunc(l.Sessions, func(x track.Session) bool { return strings.HasPrefix(x.Statement.Text, "flush") })
	if done, err := s.Act(t.Context(), l.Sample.Tasks[at].ID, culprit.Statement); !done || err != nil {
		t.Fatalf("not killed: %v, %v", done, err)
	}
	if err := dam.ends(); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("the FLUSH ended with %v", err)
	}
	if err := victim.ends(); err != nil {
		t.Error(err)
	}
	// The session is there, and no longer does the statement of the look.
	task := l.Sample.Tasks[at].ID
	goal := s.builder.targets[task]
	looktest.Until(t, s, "idle FLUSH session", func(l *track.Look) bool {
		return !slices.ContainsFunc(l.Sessions, func(x track.Session) bool { return x.Process == goal.session })
	})
	s.builder.targets[task] = goal
	if done, err := s.Act(t.Context(), task, culprit.Statement); done || err != nil {
		t.Errorf("killed again: %v, %v", done, err)
	}
}

// Locks of names and of tables that a session keeps while it does nothing.
func TestSessionLocks(t *testing.T) {
	s := open(t, start(t))
	holder := client(t)
	for _, tt := range []struct{ take, want, free, resource string }{
		{"SELECT GET_LOCK('name', 1)", "SELECT GET_LOCK('name', 90)", "SELECT RELEASE_ALL_LOCKS()", "lock: user"},
		{"LOCK TABLES t WRITE", "UPDATE t SET v = 2 WHERE id = 7", "UNLOCK TABLES", "lock: table"},
	} {
		holder.do(tt.take)
		waiter := client(t)
		waiter.begin(tt.want)
		l := looktest.Until(t, s, "an idle holder of "+tt.resource, func(l *track.Look) bool { _, ok := idleBlocker(l); return ok })
		if e := l.Sample.Edges[0]; l.Sample.Resources[e.Resource].Name != tt.resource {
			t.Errorf("%s: %s", tt.take, looktest.Picture(l))
		}
		id, _ := idleBlocker(l)
		goal := s.builder.targets[id]
		holder.do(tt.free)
		if err := waiter.ends(); err != nil {
			t.Error(err)
		}
		s.builder.targets[id] = goal
		if done, err := s.Act(t.Context(), id, culprit.Session); done || err != nil {
			t.Errorf("%s: a session was killed that keeps no lock any more: %v, %v", tt.take, done, err)
		}
	}
	holder.do("SELECT GET_LOCK('name', 1)")
	waiter := client(t)
	waiter.begin("SELECT GET_LOCK('name', 90)")
	l := looktest.Until(t, s, "an idle holder", func(l *track.Look) bool { _, ok := idleBlocker(l); return ok })
	id, _ := idleBlocker(l)
	if done, err := s.Act(t.Context(), id, culprit.Session); !done || err != nil {
		t.Errorf("a session that keeps a lock was not killed: %v, %v", done, err)
	}
	if err := waiter.ends(); err != nil {
		t.Error(err)
	}
}

// A table without row locks is locked as a whole by a statement that reads it, and who waits for that has the metadata
// lock of the table as the reader has.
func TestTableLevelLocks(t *testing.T) {
	s := open(t, start(t))
	reader, writer := client(t), client(t)
	reader.do("CREATE TABLE IF NOT EXISTS whole (id INT PRIMARY KEY, v INT) ENGINE=MyISAM")
	reader.do("REPLACE INTO whole VALUES (1, 1), (2, 2)")
	reader.begin("SELECT SUM(SLEEP(90)) FROM whole")
	looktest.Until(t, s, "the reader", func(l *track.Look) bool { return len(l.Sample.Tasks) == 1 })
	writer.begin("UPDATE whole SET v = 2 WHERE id = 2")
	l := looktest.Until(t, s, "a writer that waits", func(l *track.Look) bool { return len(l.Sample.Edges) == 1 })
	e := l.Sample.Edges[0]
	if got := looktest.Picture(l); !strings.Contains(got, "edge update whole set v = ? where id = ? -> select sum ( sleep ( ? ) ) from whole, lock: table") {
		t.Errorf("saw\n%s", got)
	}
	if done, err := s.Act(t.Context(), l.Sample.Tasks[e.Blocker].ID, culprit.Statement); !done || err != nil {
		t.Fatalf("the reader was not cancelled: %v, %v", done, err)
	}
	_ = reader.ends() // an interrupted SLEEP is no error
	if err := writer.ends(); err != nil {
		t.Error(err)
	}
}

// A role that may not read performance_schema sees who waits for rows all the same, and is told what it does not see; so is one that may not read
// one table of it.
func TestViewsThatAreRefused(t *testing.T) {
	start(t)
	admin := client(t)
	for name, tt := range map[string]struct{ grant, note string }{
		"none": {"GRANT PROCESS ON *.* TO few@'%'", "who holds metadata locks cannot be seen; missing: GRANT SELECT ON performance_schema.*"},
		"some": {"GRANT SELECT ON performance_schema.metadata_locks TO few@'%'", "who holds locks of whole tables cannot be seen; the server refuses table_handles: SELECT command denied"},
	} {
		admin.do("CREATE OR REPLACE USER few@'%'")
		admin.do("GRANT PROCESS ON *.* TO few@'%'")
		admin.do(tt.grant)
		if name == "some" {
			admin.do("GRANT SELECT ON performance_schema.setup_instruments TO few@'%'")
			admin.do("GRANT SELECT ON performance_schema.threads TO few@'%'")
		}
		s := open(t, fmt.Sprintf("mariadb://few@%s:%d/", server.s.Host, server.s.Port))
		holder, victim, reader, writer := client(t), client(t), client(t), client(t)
		holder.do("BEGIN")
		holder.do("UPDATE t SET v = 1 WHERE id = 5")
		victim.begin("UPDATE t SET v = v + 1 WHERE id = 5")
		reader.do("CREATE TABLE IF NOT EXISTS whole (id INT PRIMARY KEY, v INT) ENGINE=MyISAM")
		reader.do("REPLACE INTO whole VALUES (1, 1), (2, 2)")
		var id int64
		if err := reader.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		reader.begin("SELECT SUM(SLEEP(90)) FROM whole")
		looktest.Until(t, s, name+": the reader", func(l *track.Look) bool {
			return slices.ContainsFunc(l.Sessions, func(s track.Session) bool { return s.Process == id })
		})
		writer.begin("UPDATE whole SET v = 2 WHERE id = 2")
		l := looktest.Until(t, s, name+": an edge to the holder, and the note", func(l *track.Look) bool {
			_, there := idleBlocker(l)
			return there && slices.ContainsFunc(l.Notes, func(n string) bool { return strings.HasPrefix(n, tt.note) })
		})
		if len(l.Sample.Edges) != 1 {
			t.Errorf("%s: %d edges, expected that to the holder of the row alone", name, len(l.Sample.Edges))
		}
		holder.do("COMMIT")
		if err := victim.ends(); err != nil {
			t.Error(err)
		}
		admin.do(fmt.Sprintf("KILL QUERY %d", id))
		_, _ = reader.ends(), writer.ends()
		s.Close()
	}
}

// KILL QUERY ends one statement of a procedure, which has gone on to the next when that comes. Its session is ended, with what it keeps.
func TestProcedures(t *testing.T) {
	s := open(t, start(t))
	holder, victim := client(t), client(t)
	holder.do(`CREATE OR REPLACE PROCEDURE slowly() BEGIN DECLARE k INT DEFAULT 0; DECLARE x INT; DECLARE c CURSOR FOR SELECT v FROM t WHERE id < 9 FOR UPDATE;
START TRANSACTION; OPEN c; WHILE k < 9000 DO DO SLEEP(0.01); SET k = k + 1; END WHILE; CLOSE c; COMMIT; END`)
	holder.begin("CALL slowly()")
	looktest.Until(t, s, "the procedure", func(l *track.Look) bool {
		return len(l.Sample.Tasks) == 1 && !l.Sample.Tasks[0].Steps.Has(culprit.Statement)
	})
	victim.begin("UPDATE t SET v = v + 1 WHERE id = 5")
	l := looktest.Until(t, s, "an edge to it", func(l *track.Look) bool { return len(l.Sample.Edges) == 1 })
	id := l.Sample.Tasks[l.Sample.Edges[0].Blocker].ID
	looktest.Until(t, s, "its end", func(*track.Look) bool {
		done, err := s.Act(t.Context(), id, culprit.Session)
		return done && err == nil
	})
	if err := holder.ends(); err == nil {
		t.Error("the procedure came to its end")
	}
	if err := victim.ends(); err != nil {
		t.Error(err)
	}
}

// Rights that are missing are named.
func TestMissing(t *testing.T) {
	for _, tt := range []struct {
		grants string
		mysql  bool
		want   int
	}{
		{"GRANT USAGE ON *.*", false, 2}, {"GRANT PROCESS ON *.*\nGRANT SELECT ON `performance_schema`.*", false, 1},
		{"GRANT PROCESS, CONNECTION ADMIN ON *.*", false, 0}, {"GRANT PROCESS ON *.*\nGRANT CONNECTION_ADMIN ON *.*", true, 0},
		{"GRANT ALL PRIVILEGES ON *.*", true, 0}, {"GRANT ALL PRIVILEGES ON `d`.*", false, 2}, {"GRANT SUPER, PROCESS ON *.*", false, 0},
	} {
		if got := missing(tt.grants, tt.mysql); len(got) != tt.want {
			t.Errorf("%q: %q, expected %d", tt.grants, got, tt.want)
		}
	}
}

func TestURLs(t *testing.T) {
	for _, url := range []string{"mariadb://u:s3cret@h:x/", "mariadb://u:s3cret@", "mysql://u:s3cret@h/?x=s3cret2", "mysql://u:s3cret@h/?tls=s3cret", "mysql://u:s3cret@127.0.0.1:1/",
		"mariadb://u:12/s3cret@h", "mysql://u:12#s3cret@h"} {
		_, err := Open(t.Context(), url, time.Second)
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v", err)
		}
	}
}

// MySQL 8, where it was fetched before: an idle holder of rows; and a long SELECT, FLUSH
// TABLES WITH READ LOCK that waits for it, and who waits behind: the SELECT is taken for
// the root, for no table of locks has it.
func TestMySQL8(t *testing.T) {
	m, err := servers.MySQL(t.Context(), servers.MySQLConfig{Fetch: os.Getenv("SPILLGATE_FETCH") == "1"})
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Stop()
	connect := func() *session { return clientOf(t, m, "") }
	root := connect()
	for _, text := range []string{"CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 0), (2, 0), (3, 0)"} {
		root.do(text)
	}
	s := open(t, m.MySQLURL("mysql"))
	if len(s.notes) > 0 {
		t.Errorf("notes %q", s.notes)
	}
	var most int
	if err := s.looks.conn.QueryRowContext(t.Context(), "SELECT @@SESSION.max_execution_time").Scan(&most); err != nil || most != 1000 {
		t.Errorf("a look goes on in the server for %d ms, %v; expected 1000 at most", most, err)
	}
	holder := connect()
	// A transaction that only reads has no number of its own, and MySQL does not count what a session did before it went idle.
	for range 2 {
		holder.do("BEGIN")
		holder.do("SELECT v FROM d.t WHERE id = 1 LOCK IN SHARE MODE")
		waiter := connect()
		waiter.begin("UPDATE d.t SET v = v + 1 WHERE id = 1")
		l := looktest.Until(t, s, "an idle reader that holds rows", func(l *track.Look) bool {
			_, ok := idleBlocker(l)
			return ok && l.Sample.At.Sub(l.Sample.Tasks[l.Sample.Edges[0].Blocker].Started) > 2*time.Second
		})
		id, _ := idleBlocker(l)
		holder.do("COMMIT")
		holder.do("BEGIN")
		holder.do("SELECT v FROM d.t WHERE id = 3 LOCK IN SHARE MODE")
		if done, err := s.Act(t.Context(), id, culprit.Session); done || err != nil {
			t.Fatalf("the next transaction was ended: %v, %v", done, err)
		}
		holder.do("COMMIT")
		if err := waiter.ends(); err != nil {
			t.Error(err)
		}
	}
	holder.do("BEGIN")
	holder.do("UPDATE d.t SET v = 1 WHERE id = 1")
	var victims []*session
	for range 3 {
		v := connect()
		v.begin("UPDATE d.t SET v = v + 1 WHERE id = 1")
		victims = append(victims, v)
	}
	l := looktest.Until(t, s, "an idle holder of rows", func(l *track.Look) bool { _, ok := idleBlocker(l); return ok })
	id, _ := idleBlocker(l)
	if done, err := s.Act(t.Context(), id, culprit.Session); !done || err != nil {
		t.Fatalf("not killed: %v, %v", done, err)
	}
	for _, v := range victims {
		if err := v.ends(); err != nil {
			t.Errorf("a victim failed: %v", err)
		}
	}
	long := connect()
	long.begin("SELECT id, SLEEP(3) FROM d.t")
	looktest.Until(t, s, "the SELECT", func(l *track.Look) bool { return strings.Contains(looktest.Picture(l), "sleep") })
	flusher := connect()
	flusher.begin("FLUSH TABLES WITH READ LOCK")
	looktest.Until(t, s, "the FLUSH", func(l *track.Look) bool { return len(l.Sample.Edges) == 1 })
	victim := connect()
	victim.begin("SELECT v FROM d.t WHERE id = 2")
	l = looktest.Until(t, s, "two edges", func(l *track.Look) bool { return len(l.Sample.Edges) == 2 })
	at := l.Sample.Edges[0].Blocker
	if !strings.Contains(l.Sessions[at].Statement.Text, "sleep") || l.Sample.Edges[1].Blocker != at {
		t.Fatalf("saw\n%s", looktest.Picture(l))
	}
	if done, err := s.Act(t.Context(), l.Sample.Tasks[at].ID, culprit.Statement); !done || err != nil {
		t.Fatalf("not killed: %v, %v", done, err)
	}
	if err := victim.ends(); err != nil {
		t.Error(err)
	}
}

// BenchmarkLook is what a look, and each of its views, takes with 100 idle sessions.
func BenchmarkLook(b *testing.B) {
	m, err := servers.MariaDB(b.Context(), servers.MariaDBConfig{})
	servers.SkipMissing(b, err)
	defer m.Stop()
	for range 100 {
		db, err := sql.Open("mysql", m.MySQLDSN("", false))
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		if err := db.PingContext(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	s, err := Open(b.Context(), m.MySQLURL("mariadb"), time.Second)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c := s.looks.conn
	for name, f := range map[string]func() error{
		"whole":        func() error { _, err := s.Look(b.Context()); return err },
		"sessions":     func() error { _, err := readSessions(b.Context(), c, nil, false, nil); return err },
		"transactions": func() error { _, err := readTransactions(b.Context(), c, nil, 0); return err },
		"counts":       func() error { _, err := readCounts(b.Context(), c); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A transaction that only reads under its snapshot is seen to keep versions, idle or not, and
// is not taken for one that ends with its statement; one that locks rows keeps none for sure.
func TestSnapshotIsSeen(t *testing.T) {
	url := start(t)
	s := open(t, url)
	for _, tt := range []struct {
		first string
		want  bool
	}{{"START TRANSACTION WITH CONSISTENT SNAPSHOT", true}, {"BEGIN", false}} {
		c := client(t)
		c.do(tt.first)
		if tt.want {
			c.do("SELECT SUM(v) FROM t")
		} else {
			c.do("SELECT SUM(v) FROM t WHERE id < 5 FOR UPDATE")
		}
		worker := client(t)
		kept := func(l *track.Look) bool {
			worker.do("UPDATE t SET v = v + 1 WHERE id = 100")
			return slices.ContainsFunc(l.Sample.Holds, func(h culprit.Hold) bool { return h.Resource == versions && h.Used > 0 && l.Sample.Tasks[h.Task].Idle })
		}
		if tt.want {
			looktest.Until(t, s, "a snapshot that keeps versions", kept)
		} else {
			// The view of transactions may be a moment old and still show the one before.
			looktest.Until(t, s, "the snapshot to be gone", func(l *track.Look) bool { return !kept(l) })
			for began := time.Now(); time.Since(began) < 2500*time.Millisecond; time.Sleep(50 * time.Millisecond) {
				l, err := s.Look(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if kept(l) {
					t.Fatalf("a transaction that only locked rows is taken for a snapshot: %s", looktest.Picture(l))
				}
			}
		}
		c.do("ROLLBACK")
	}
}

// Beside statements that only read, nobody keeps old versions, however long a snapshot is held: there are none. The server tells, by the view that MySQL
// has as well.
func TestASnapshotBesideReadersKeepsNothing(t *testing.T) {
	url := start(t)
	s := open(t, url)
	const background = 20 // transactions of the server's own, such as for statistics of tables
	worker, c := client(t), client(t)
	looktest.Until(t, s, "old versions to be removed", func(*track.Look) bool { return s.in.counts.history <= background })
	c.do("START TRANSACTION WITH CONSISTENT SNAPSHOT")
	c.do("SELECT SUM(v) FROM t")
	keeps := func(l *track.Look) bool {
		return slices.ContainsFunc(l.Sample.Holds, func(h culprit.Hold) bool { return h.Resource == versions && h.Used > background })
	}
	looktest.Until(t, s, "a snapshot that is old", func(l *track.Look) bool {
		for range 2 * background {
			worker.do("SELECT v FROM t WHERE id = 7")
		}
		if keeps(l) {
			t.Fatalf("a snapshot keeps versions that nobody made: %s", looktest.Picture(l))
		}
		k := s.builder.snapshots[sessionOf(t, c)]
		return k != nil && k.since != 0 && l.Sample.At.Sub(k.since) >= 2*time.Second
	})
	looktest.Until(t, s, "a snapshot that keeps versions", func(l *track.Look) bool {
		worker.do("UPDATE t SET v = v + 1 WHERE id = 7")
		return keeps(l)
	})
	// It keeps one of each row, however few the transactions are that changed them.
	worker.do("UPDATE t SET v = v + 1")
	looktest.Until(t, s, "a snapshot that keeps a version of each row", func(l *track.Look) bool {
		return slices.ContainsFunc(l.Sample.Holds, func(h culprit.Hold) bool { return h.Resource == versions && h.Used >= 1000 })
	})
	var n int64
	if err := s.looks.conn.QueryRowContext(t.Context(), "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'").Scan(&n); err != nil || n == 0 {
		t.Errorf("the view of metrics tells of %d, %v; expected some, as the status does", n, err)
	}
	c.do("ROLLBACK")
}

// sessionOf returns the server's number of a session.
func sessionOf(t *testing.T, c *session) (id int64) {
	t.Helper()
	if err := c.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// The guard's statements mean the same whatever the server's settings for new sessions are: a dialect, an empty text that is no
// value, and a time zone that is not that of the machine, in which InnoDB tells when transactions began.
func TestSettingsOfNewSessions(t *testing.T) {
	url := start(t)
	root, err := sql.Open("mysql", server.s.MySQLDSN("mysql", true))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	set := func(mode, zone string) {
		if _, err := root.Exec("SET GLOBAL sql_mode = ?", mode); err != nil {
			t.Error(err)
		}
		if _, err := root.Exec("SET GLOBAL time_zone = ?", zone); err != nil {
			t.Error(err)
		}
	}
	var mode string
	if err := root.QueryRow("SELECT @@GLOBAL.sql_mode").Scan(&mode); err != nil {
		t.Fatal(err)
	}
	holder, waiter := client(t), client(t)
	set("ORACLE,EMPTY_STRING_IS_NULL,ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH", "+05:00")
	defer set(mode, "SYSTEM")
	s := open(t, url)
	holder.do("BEGIN")
	holder.do("UPDATE t SET v = v + 1 WHERE id = 1")
	waiter.begin("UPDATE t SET v = v + 1 WHERE id = 1")
	l := looktest.Until(t, s, "an edge", func(l *track.Look) bool { return len(l.Sample.Edges) == 1 })
	for i := range l.Sample.Tasks {
		if age := l.Sample.At.Sub(l.Sample.Tasks[i].Started); age > time.Hour {
			t.Errorf("%q is %v old, expected seconds", l.Sessions[i].Statement.Text, age)
		}
	}
	blocker := l.Sample.Edges[0].Blocker
	if done, err := s.Act(t.Context(), l.Sample.Tasks[blocker].ID, culprit.Session); !done || err != nil {
		t.Errorf("the holder was not ended: %v, %v", done, err)
	}
	if err := waiter.ends(); err != nil {
		t.Error(err)
	}
}

// Two guards of one server read InnoDB's views more often than these are made anew. Each notices that, believes no old answer, and sees what there is
// all the same.
func TestTwoGuards(t *testing.T) {
	url := start(t)
	guards := [2]*Source{open(t, url), open(t, url)}
	until := func(what string, want func(*Source, *track.Look) bool) {
		t.Helper()
		seen := [2]bool{}
		for end := time.Now().Add(looktest.Patience); !seen[0] || !seen[1]; { // ten looks a second of each, in turn
			if time.Now().After(end) {
				t.Fatalf("%s: seen by the guards %v", what, seen)
			}
			for i, s := range guards {
				time.Sleep(50 * time.Millisecond)
				l, err := s.Look(t.Context())
				if errors.Is(err, track.ErrLate) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				seen[i] = want(s, l) || seen[i]
			}
		}
	}
	until("that there is another", func(s *Source, l *track.Look) bool { return s.cache.contended() && len(l.Notes) > 0 })
	for range 3 {
		holder, waiter := client(t), client(t)
		holder.do("BEGIN")
		holder.do("UPDATE t SET v = 1 WHERE id = 5")
		id := sessionOf(t, holder)
		waiter.begin("UPDATE t SET v = v + 1 WHERE id = 5")
		until("an idle holder", func(s *Source, l *track.Look) bool {
			if s.fresh && !slices.ContainsFunc(s.in.transactions, func(r transactionRow) bool { return r.session == id }) {
				t.Fatal("transactions that are taken for new lack one that had begun")
			}
			_, ok := idleBlocker(l)
			return ok
		})
		holder.do("COMMIT")
		if err := waiter.ends(); err != nil {
			t.Error(err)
		}
	}
}

// A pooler tells its clients numbers of its own for sessions, and takes a KILL to be about those.
func TestPooler(t *testing.T) {
	s := open(t, start(t))
	told := s.acts.id
	s.acts.id += 1000
	if err := s.alike(t.Context()); err == nil || !strings.Contains(err.Error(), "pooler") {
		t.Errorf("%v, expected that there is a pooler", err)
	}
	s.acts.id = told
}

// The file that names a server's process may be there, and of another server of this machine.
func TestBeside(t *testing.T) {
	s := open(t, start(t))
	file := func(db *sql.Conn) (name string) {
		if err := db.QueryRowContext(t.Context(), "SELECT @@pid_file").Scan(&name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	if s.pid == 0 || s.beside(t.Context(), file(s.looks.conn)) != s.pid {
		t.Skip("the server's process is not visible here")
	}
	other, err := servers.MariaDB(t.Context(), servers.MariaDBConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Stop()
	c := clientOf(t, other, "")
	if pid := s.beside(t.Context(), file(c.Conn)); pid != 0 {
		t.Errorf("process %d of another server is taken for this one's", pid)
	}
}

// A session that keeps what a backup takes, or has been seen to make one, is a backup also between its statements.
func TestBackupsBetweenTheirStatements(t *testing.T) {
	s := open(t, start(t))
	for _, take := range []string{"FLUSH TABLES WITH READ LOCK", "BACKUP STAGE START; BACKUP STAGE FLUSH; BACKUP STAGE BLOCK_DDL; BACKUP STAGE BLOCK_COMMIT"} {
		holder, writer := client(t), client(t)
		for text := range strings.SplitSeq(take, "; ") {
			holder.do(text)
		}
		holder.do("SELECT 1")
		writer.begin("UPDATE t SET v = 1 WHERE id = 950")
		l := looktest.Until(t, s, "an idle holder, after "+take, func(l *track.Look) bool { _, ok := idleBlocker(l); return ok })
		at := l.Sample.Edges[0].Blocker
		if got := l.Sample.Tasks[at].Barred; got != culprit.Backup {
			t.Errorf("%s: barred is %v, expected backup", take, got)
		}
		holder.do(map[bool]string{true: "UNLOCK TABLES", false: "BACKUP STAGE END"}[strings.HasPrefix(take, "FLUSH")])
		if err := writer.ends(); err != nil {
			t.Error(err)
		}
	}
}
