package statement

import (
	"strings"
	"testing"
)

func TestSameWork(t *testing.T) {
	for _, tt := range []struct {
		dialect Dialect
		want    string
		texts   []string
	}{
		{Postgres, "select * from t where id in ( ? )", []string{"SELECT * FROM t WHERE id IN (1, 2, 3)", "select *\n\tfrom T where id in (5) -- page 7", "/* a /* b */ 'x */ SELECT * FROM t WHERE id IN ('a', E'b\\'c', $$d$$, $x$e$x$);"}},
		{Postgres, `select "ab" from t where a = ? and b = ?`, []string{`SELECT "Ab" FROM t WHERE a=x'1f' AND b='\'`}},
		{Postgres, "insert into t values ( ? )", []string{"INSERT INTO t VALUES (1,'a'),(2,'b'),(3,'')", "insert into t values (1,2)"}},
		{Postgres, "update t set a = a + ? where b = ?", []string{"UPDATE t SET a=a+1 WHERE b=-7", "update t set a=a+$1 where b=$2", "update t set a = a + 1e-5 where b = 'cut o"}},
		{MySQL, "select `a` from t where b = ? limit ?", []string{"SELECT `A` FROM t WHERE b=\"it\\\"s\" # c\n LIMIT 5", "select /* a comment */ `a` from t where b=0x1F limit 1"}},
		{MySQL, "select sql_no_cache `a` from t", []string{"SELECT /*!40001 SQL_NO_CACHE */ `a` FROM t"}},
		{MySQL, "select ?", []string{"select -1", "select ''''", "select 1.5e+3"}},
		{MySQL, "alter table t disable keys", []string{"/*!40000 ALTER TABLE t DISABLE KEYS */;", "/*M!100100 alter table /* c */ t disable keys */", "ALTER TABLE t /*! DISABLE */ KEYS"}},
		{MySQL, "select a * ?", []string{"select a*/* c */2", "select a */*! 2*/"}},
	} {
		for _, text := range tt.texts {
			got := Of(text, tt.dialect)
			if got.Text != tt.want {
				t.Errorf("%q: %q, expected %q", text, got.Text, tt.want)
			}
		}
	}
}

func TestDifferentWork(t *testing.T) {
	seen := map[uint64]string{}
	for _, text := range []string{"select a from t", "select b from t", "select a from u", "update t set a = 1", "update t set b = 1", "delete from t where a = 1", "delete from t"} {
		s := Of(text, Postgres)
		if other, ok := seen[s.Fingerprint]; ok || s.Fingerprint == 0 {
			t.Errorf("%q has the fingerprint of %q", text, other)
		}
		seen[s.Fingerprint] = text
	}
	if s := Of(" -- nothing\n;", Postgres); s != (Statement{}) {
		t.Errorf("no words gave %+v", s)
	}
}

func TestClass(t *testing.T) {
	for text, want := range map[string]Class{
		"SELECT 1": Select, "(select 1) union (select 2)": Select, "with x as (select 1) select * from x": Select,
		"with x as (delete from t returning *) select * from x": Write, "INSERT INTO t VALUES (1)": Write, "/* hi */ update t set a=1": Write,
		"BEGIN": Control, "COMMIT": Control, "LOCK TABLE t IN EXCLUSIVE MODE": LockTable, "copy t to stdout": Copy, "alter table t add c int": Schema,
		"VACUUM FULL t": Schema, "vacuum (analyze, full) t": Schema, "vacuum (full false) t": Vacuum, "VACUUM t": Vacuum, "vacuum fullness": Vacuum, "create index on t(a)": Schema,
		"FLUSH TABLES WITH READ LOCK": Backup, "FLUSH TABLES": Flush, "BACKUP STAGE BLOCK_COMMIT": Backup, "explain analyze delete from t": Write,
		"autovacuum: VACUUM public.t (to prevent wraparound)": Vacuum, "zzz": Other, "": Other,
		"BEGIN; ALTER TABLE t ADD COLUMN c int; COMMIT": Schema, "SET lock_timeout = '2s'; ALTER TABLE t ADD COLUMN c int": Schema, "BEGIN;; ALTER TABLE t ADD COLUMN c int": Schema, "; DROP TABLE t": Schema, "BEGIN; LOCK TABLE t": Control, "SELECT ';'; SELECT 1": Select,
		"SET STATEMENT lock_wait_timeout=1 FOR ALTER TABLE t ADD COLUMN c int": Schema, "SET GLOBAL read_only = 1": Replication, "SET @@global.super_read_only=ON": Replication, "SET a = 1": Control,
		"LOCK INSTANCE FOR BACKUP": Backup, "START REPLICA": Replication, "STOP ALL SLAVES": Replication, "RESET MASTER": Replication, "START TRANSACTION": Control, "RESET ALL": Control,
		"PURGE BINARY LOGS TO 'x'": Replication, "INSTALL SONAME 'x'": Schema,
	} {
		if got := Of(text, Postgres).Class; got != want {
			t.Errorf("%q: %v, expected %v", text, got, want)
		}
	}
	for _, name := range ClassNames() {
		if c, ok := ParseClass(name); !ok || c.String() != name {
			t.Errorf("%q does not come back", name)
		}
	}
	if _, ok := ParseClass("no"); ok {
		t.Error("no class is called no")
	}
}

// Any text gives a statement soon, no digits of literals stay, and normalising
// again changes nothing that matters.
func FuzzOf(f *testing.F) {
	for _, s := range []string{"", "select 'a''b', \"c\", $$x$$, $1", "/*", "--", "'", "$a$", "1e", "select e'\\", "`", "values (1),(2)", "\xff\x00"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, text string, mysql bool) {
		d := Postgres
		if mysql {
			d = MySQL
		}
		s := Of(text, d)
		if len(s.Text) > 3*MaxText {
			t.Fatalf("%d bytes of %d", len(s.Text), len(text))
		}
		if s != Of(text, d) {
			t.Fatal("not the same twice")
		}
		// A literal in quotes never survives.
		secret := "'s3cr3t" + "'"
		if got := Of("select "+secret+" "+strings.ReplaceAll(text, "s3cr3t", ""), d); strings.Contains(got.Text, "s3cr3t") {
			t.Fatalf("the literal stayed: %q", got.Text)
		}
	})
}

func BenchmarkOf(b *testing.B) {
	text := "UPDATE pgbench_accounts SET abalance = abalance + 1234 WHERE aid = 567890;"
	b.ReportAllocs()
	for b.Loop() {
		Of(text, Postgres)
	}
}
