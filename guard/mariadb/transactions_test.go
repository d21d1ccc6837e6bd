package mariadb

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// A batch of short statements in one transaction is as old as the transaction, by the first look that
// showed it: the server tells its age in whole seconds.
func TestTransactionsAreAsOldAsTheyWereSeen(t *testing.T) {
	const objective = 100 * time.Millisecond
	b := newBuilder(objective, false)
	for i := range 6 {
		at := mono.Time(time.Second).Add(time.Duration(i) * tick)
		in := &input{at: at, questions: uint64(10 * i),
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
