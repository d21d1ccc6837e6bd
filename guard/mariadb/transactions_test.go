package mariadb

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// A batch of short statements in one transaction is as old as the transaction, by the first look that
// showed it: the server tells its age in whole seconds.
func TestTransactionsAreAsOldAsTheyWereSeen(t *testing.T) {
	const objective = 100 * time.Millisecond
	b := unladen(objective)
	for i := range 6 {
		at := mono.Time(time.Second).Add(time.Duration(i) * tick)
		in := &input{at: at, counts: counts{questions: uint64(10 * i)},
			sessions: []sessionRow{{id: 2, command: "Query", text: "INSERT INTO batch VALUES (1)", elapsed: 5, query: int64(i)},
				{id: 3, command: "Query", text: "UPDATE hot SET v = 1", elapsed: 50, query: int64(100 + i)}},
			transactions: []transactionRow{{id: 71, session: 2, modified: 10}, {id: uint64(80 + i), session: 3, waiting: true}},
			rowWaits:     []rowWait{{uint64(80 + i), 71}}}
		s := b.build(in).Sample
		for k := range s.Tasks {
			age, want := s.At.Sub(s.Tasks[k].Started), 50*time.Millisecond
			if b.targets[s.Tasks[k].ID].session == 2 {
				if want = 5 * time.Millisecond; time.Duration(i)*tick > objective {
					want = time.Duration(i) * tick
				}
			}
			if age != want {
				t.Errorf("look %d, session %d: a task that is %v old, want %v", i, b.targets[s.Tasks[k].ID].session, age, want)
			}
		}
	}
	b.build(&input{at: mono.Time(3 * time.Second)})
	if len(b.transactions) > 0 {
		t.Errorf("%d transactions are remembered that are gone", len(b.transactions))
	}
}

// A statement of several stages has come as far as all of them together.
func TestProgressIsOfAllStages(t *testing.T) {
	for _, tt := range []struct {
		stage       float64
		stages, of  int64
		done, total uint64
	}{
		{50, 1, 1, 50_000, 100_000}, {100, 1, 2, 100_000, 200_000}, {50, 2, 2, 150_000, 200_000},
		{0, 1, 2, 0, 0}, {0, 2, 2, 100_000, 200_000}, {50, 0, 0, 0, 0}, {50, 3, 2, 0, 0}, {120, 1, 1, 0, 0}, {-1, 1, 1, 0, 0},
	} {
		r := sessionRow{stage: tt.stage, stages: tt.stages, of: tt.of}
		if done, total := r.progress(); done != tt.done || total != tt.total {
			t.Errorf("%v per cent of stage %d of %d: %d of %d, want %d of %d", tt.stage, tt.stages, tt.of, done, total, tt.done, tt.total)
		}
	}
}

// Statements that begin all the time are known as such while none begins, because all of them wait.
func TestKindsThatBeginAllTheTime(t *testing.T) {
	k := kinds{}
	look := func(ms int, began ...uint64) mono.Time {
		at := mono.Time(time.Second).Add(time.Duration(ms) * time.Millisecond)
		k.look(at)
		for _, kind := range began {
			k.began(kind, at)
		}
		return at
	}
	look(0, 1, 2, 3)
	if at := look(100, 1, 2, 2); !k.usual(1, at) || !k.usual(2, at) || k.usual(3, at) || k.usual(4, at) {
		t.Errorf("after two looks: %v", k)
	}
	if at := look(1500); !k.usual(1, at) || !k.usual(2, at) || k.usual(3, at) {
		t.Errorf("while nothing begins: %v", k)
	}
	if at := look(2200); k.usual(1, at) || len(k) > 0 {
		t.Errorf("long after: %v", k)
	}
	look(3000, 5)
	if at := look(6000, 5); !k.usual(5, at) {
		t.Error("one that begins at this look is among them")
	}
	if at := look(6100); k.usual(5, at) {
		t.Error("one that begins seldom is not among them later")
	}
}

// A transaction whose session has begun another statement since transactions were read tells nothing of that one, unless it is known to have
// several: the statement of a healthy application would be taken for an old transaction that keeps rows.
func TestSessionsThatWentOn(t *testing.T) {
	const objective = 20 * time.Millisecond
	for name, tt := range map[string]struct {
		elapsed float64 // of the blocker's statement at the last look, ms
		batch   bool    // the blocker has run others in the transaction
		edges   int
		age     time.Duration
	}{
		"the same statement": {elapsed: 250, edges: 1, age: 250 * time.Millisecond},
		"another one":        {elapsed: 5, age: 5 * time.Millisecond},
		"one of several":     {elapsed: 5, batch: true, edges: 1, age: 250 * time.Millisecond},
	} {
		b := unladen(objective)
		var l *culprit.Sample
		for i, at := range []int{0, 100, 200, 250} { // transactions are read at the first three
			stale := 2 * time.Millisecond
			if i == 3 {
				stale = 50 * time.Millisecond
			}
			holds := sessionRow{id: 2, command: "Query", text: "UPDATE hot SET v = 1", elapsed: float64(at), query: 7}
			switch {
			case i == 3:
				holds.elapsed, holds.query = tt.elapsed, 7
				if tt.elapsed < 250 {
					holds.query = 99
				}
			case tt.batch:
				holds.elapsed, holds.query = 1, int64(10+i) // too short to have lasted since transactions were read
			}
			l = &b.build(&input{at: mono.Time(time.Second).Add(time.Duration(at) * time.Millisecond), counts: counts{questions: uint64(10 * i)}, stale: stale, fresh: i < 3,
				sessions:     []sessionRow{holds, {id: 3, command: "Query", text: "UPDATE hot SET v = 2", elapsed: float64(at), query: 8}},
				transactions: []transactionRow{{id: 71, session: 2, modified: 1, sure: -900_000}, {id: 80, session: 3, waiting: true, sure: -900_000}},
				rowWaits:     []rowWait{{80, 71}}}).Sample
		}
		age := time.Duration(-1)
		for k := range l.Tasks {
			if b.targets[l.Tasks[k].ID].session == 2 {
				age = l.At.Sub(l.Tasks[k].Started)
			}
		}
		if len(l.Edges) != tt.edges || age != tt.age {
			t.Errorf("%s: %d edges to a task that is %v old, expected %d to one of %v", name, len(l.Edges), age, tt.edges, tt.age)
		}
	}
}

// A transaction of a few milliseconds that began before a full second is one second old to the server. It has held its rows for as long
// as it is known to be old.
func TestRowsAreHeldForAsLongAsIsSure(t *testing.T) {
	for _, command := range []string{"Query", "Sleep"} {
		b := unladen(20 * time.Millisecond)
		l := &b.build(&input{at: mono.Time(5 * time.Second), fresh: true, stale: time.Millisecond,
			sessions: []sessionRow{{id: 2, command: command, text: "UPDATE hot SET v = 1", elapsed: 8, query: 7},
				{id: 3, command: "Query", text: "UPDATE hot SET v = 2", elapsed: 6, query: 8}},
			transactions: []transactionRow{{id: 71, session: 2, modified: 1, age: 1, sure: -990_000}, {id: 80, session: 3, waiting: true, sure: -992_000}},
			rowWaits:     []rowWait{{80, 71}}}).Sample
		for i := range l.Holds {
			h := &l.Holds[i]
			if h.Resource != rowLock || h.HeldSince == culprit.Unset {
				continue
			}
			if held, age := l.At.Sub(h.HeldSince), l.At.Sub(l.Tasks[h.Task].Started); held != 8*time.Millisecond || age != held {
				t.Errorf("%s: rows are held for %v by a task that is %v old, expected 8ms", command, held, age)
			}
		}
		if len(l.Edges) != 1 {
			t.Errorf("%s: %d edges, expected 1", command, len(l.Edges))
		}
	}
}

// A procedure is one task, although each of its statements has a number and a text of its own; the next statement of the session is another.
func TestAProcedureIsOneTask(t *testing.T) {
	b := unladen(20 * time.Millisecond)
	var first uint64
	var kind uint64
	for i, at := range []int{0, 100, 200, 300} {
		began := 20
		if i == 3 {
			began = 260
		}
		at := mono.Time(time.Second).Add(time.Duration(at) * time.Millisecond)
		l := &b.build(&input{at: at, asked: at - mono.Time(5*time.Millisecond), counts: counts{questions: uint64(10 * i)}, fresh: true, stale: time.Millisecond,
			sessions: []sessionRow{{id: 2, command: "Query", text: []string{"SELECT 1", "DELETE FROM t", "INSERT INTO t VALUES (1)", "SELECT 2"}[i], elapsed: float64(i*100 + 50 - began), query: int64(10 + i)}}}).Sample
		task := &l.Tasks[0]
		if i == 0 {
			first, kind = task.ID, task.Kind
		}
		if same := task.ID == first; same != (i < 3) {
			t.Errorf("look %d: the task is the first: %v", i, same)
		}
		if i < 3 && task.Kind != kind {
			t.Errorf("look %d: kind %x, expected %x as at first", i, task.Kind, kind)
		}
		if both := task.Steps.Has(culprit.Statement); both != (i == 0 || i == 3) {
			t.Errorf("look %d: its statement can be ended: %v; of a procedure that would be one of its statements", i, both)
		}
	}
}

// What a session does is left alone while it makes a backup, a change of the schema inside of a procedure too, and not by what its first statement is alone.
func TestBars(t *testing.T) {
	dump := "SELECT /*!40001 SQL_NO_CACHE */ * FROM t"
	for name, looks := range map[string][]struct {
		text    string
		query   int64
		elapsed float64
		want    culprit.Bar
	}{
		"a dump":                      {{dump, 1, 50, culprit.Backup}, {"SHOW CREATE TABLE u", 2, 1, culprit.Backup}, {"", 2, 1, culprit.Backup}, {"SELECT 1", 3, 1, culprit.Backup}},
		"a procedure":                 {{"INSERT INTO log VALUES (1)", 1, 50, culprit.NotBarred}, {"ALTER TABLE t ADD COLUMN c INT", 2, 150, culprit.Schema}, {"SELECT 1", 3, 250, culprit.Schema}, {"SELECT 1", 4, 1, culprit.NotBarred}},
		"what is read as a comment":   {{"/*!40000 ALTER TABLE t DISABLE KEYS */", 1, 50, culprit.Schema}},
		"what was limited beforehand": {{"SET STATEMENT max_statement_time=60 FOR OPTIMIZE TABLE t", 1, 50, culprit.Schema}},
	} {
		b := unladen(100 * time.Millisecond)
		for i, look := range looks {
			at := mono.Time(time.Second).Add(time.Duration(i) * tick)
			row := sessionRow{id: 2, command: "Query", text: look.text, elapsed: look.elapsed, query: look.query}
			if look.text == "" {
				row.command = "Sleep"
			}
			l := b.build(&input{at: at, asked: at.Add(-time.Millisecond), sessions: []sessionRow{row}, transactions: []transactionRow{{id: 71, session: 2, age: 10, sure: 9_000_000}}})
			if got := l.Sample.Tasks[0].Barred; got != look.want {
				t.Errorf("%s, look %d, %q: barred is %v, expected %v", name, i, look.text, got, look.want)
			}
		}
	}
}
