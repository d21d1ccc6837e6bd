package mariadb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

const tick = 100 * time.Millisecond

// losses tells which resources a session has lost time to so far, in milliseconds.
func losses(s *culprit.Sample, task int) string {
	var got []string
	for _, h := range s.Holds {
		lost := h.WaitTime
		if h.WaitingSince != culprit.Unset {
			lost += s.At.Sub(h.WaitingSince)
		}
		if int(h.Task) == task && lost > 0 {
			got = append(got, fmt.Sprintf("%s %d", s.Resources[h.Resource].Name, lost.Milliseconds()))
		}
	}
	return strings.Join(got, ", ")
}

// What a running statement loses time to, by the state of its thread and of the others'.
func TestUnseenWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		states      string // of threads 1, 2
		word        string // of session 1
		delay       time.Duration
		want, other string
	}{
		"storage":                     {"DR", "Sending data", 0, "storage 5", ""},
		"a latch, whose owner stores": {"SD", "Sending data", 0, "storage 5", "storage 5"},
		"a latch, nobody knows why":   {"SR", "Sending data", 0, "internals 5", ""},
		"a latch, and no processor":   {"SR", "Sending data", 90 * time.Millisecond, "processor 5", "processor 4"},
		"its client":                  {"SR", "Writing to net", 0, "", ""},
		"the statement's own wish":    {"SR", "User sleep", 0, "", ""},
		"it runs":                     {"RR", "Sending data", 0, "", ""},
		"it runs, and no processor":   {"RR", "Sending data", 20 * time.Millisecond, "processor 2", "processor 2"},
	} {
		b := unladen(20 * time.Millisecond)
		used := map[int64]procfs.Usage{}
		var l *culprit.Sample
		for i := range 2 {
			for thread := range int64(3) {
				used[thread] = procfs.Usage{CPU: time.Duration(i) * 20 * time.Millisecond, Delay: time.Duration(i) * tt.delay}
			}
			in := &input{at: mono.Time(time.Second).Add(time.Duration(i) * tick), counts: counts{questions: uint64(100 * i)},
				usage: func(thread int64) (procfs.Usage, bool) { return used[thread], true }, state: func(thread int64) procfs.State { return procfs.State(tt.states[thread-1]) }}
			for id := range int64(2) {
				in.sessions = append(in.sessions, sessionRow{id: id + 1, thread: id + 1, command: "Query", state: []string{tt.word, "Sending data"}[id], text: "SELECT 1", elapsed: 5, query: int64(10*i) + id})
			}
			l = &b.build(in).Sample
		}
		if got, other := losses(l, 0), losses(l, 1); got != tt.want || other != tt.other {
			t.Errorf("%s: %q and %q, expected %q and %q", name, got, other, tt.want, tt.other)
		}
	}
}

// A transaction that has kept its snapshot for longer than the objective is a task, the same as before that,
// which only the end of its session ends; others lose to it what they cost beyond normal.
func TestOldSnapshot(t *testing.T) {
	b := unladen(20 * time.Millisecond)
	running := 1
	var l *culprit.Sample
	report := -1
	look := func(i int, sure time.Duration) {
		in := &input{at: mono.Time(time.Second).Add(time.Duration(i) * tick), counts: counts{questions: uint64(100 * i), changed: uint64(100 * i), history: -1},
			usage: func(int64) (procfs.Usage, bool) { return procfs.Usage{}, true }, state: func(int64) procfs.State { return procfs.Running }}
		for id := range int64(running) {
			in.sessions = append(in.sessions, sessionRow{id: id + 2, thread: id + 2, command: "Query", state: "Updating", text: "UPDATE t SET v = 1", elapsed: 10, query: int64(1000*i) + id})
		}
		if sure != 0 {
			in.sessions = append(in.sessions, sessionRow{id: 1, thread: 1, command: "Query", state: "Sending data", text: "SELECT 1", elapsed: 3, query: int64(1000*i) + 999})
			in.transactions = []transactionRow{{id: 1 << 47, session: 1, age: 1, keeps: true, sure: sure.Microseconds()}}
		}
		found := b.build(in)
		l, report = &found.Sample, -1
		for k := range found.Sessions {
			if found.Sessions[k].Process == 1 {
				report = k
			}
		}
	}
	for i := range 30 {
		look(i, 0)
	}
	look(30, 10*time.Millisecond) // too young to be told from none
	young := l.Tasks[report].ID
	running = 8
	for i := range 20 {
		look(31+i, time.Duration(200+100*i)*time.Millisecond)
	}
	task := l.Tasks[report]
	if task.ID != young || task.Steps != culprit.StepsOf(culprit.Session) {
		t.Errorf("the report: %+v, expected task %d to go on since its snapshot is old, with no step but the end of its session", task, young)
	}
	kept := uint64(0)
	for _, h := range l.Holds {
		if int(h.Task) == report && h.Resource == versions {
			kept = h.Used
		}
	}
	if kept != 2100 {
		t.Errorf("it keeps %d, expected what was sent since it was seen first, 2100", kept)
	}
	// Eight times as many run and as many end: nearly all of the time is beyond normal.
	if got := losses(l, 0); got != "row versions 8" {
		t.Errorf("an update lost %q, expected 8 of 10 ms to row versions", got)
	}
}

// A snapshot that a long statement showed to be old is so behind short ones as well, although the server tells in its first second only when the
// transaction began to a second. The next transaction of the session is another, and so is the next statement that is one by itself.
func TestASnapshotThatIsOldStaysOld(t *testing.T) {
	for _, single := range []bool{false, true} {
		b := unladen(20 * time.Millisecond)
		for i, tt := range []struct {
			command string
			elapsed float64
			begun   int64
			same    bool
		}{{"Query", 160, 100, true}, {"Query", 3, 100, !single}, {"Sleep", 2, 100, !single}, {"Query", 4, 100, !single}, {"Query", 5, 101, false}} {
			at := mono.Time(10 * time.Second).Add(time.Duration(i) * tick)
			l := b.build(&input{at: at, counts: counts{questions: uint64(100 * i), changed: uint64(50 + 50*i), history: int64(i)}, fresh: true, stale: 10 * time.Millisecond,
				sessions:     []sessionRow{{id: 1, command: tt.command, text: "SELECT 1", elapsed: tt.elapsed, query: int64(7 + i)}},
				transactions: []transactionRow{{id: 1 << 47, session: 1, keeps: true, single: single, begun: tt.begun, sure: -800_000}}})
			held, age := uint64(0), time.Duration(0)
			for _, h := range l.Sample.Holds {
				if h.Resource == versions {
					held, age = h.Used, l.Sample.At.Sub(l.Sample.Tasks[h.Task].Started)
				}
			}
			switch {
			case i == 0: // nothing was changed since it was seen first
			case !tt.same && held > 0, tt.same && (held != uint64(50*i) || l.Sample.Tasks[0].ID != 1 || age != 160*time.Millisecond+time.Duration(i)*tick):
				t.Errorf("single %v, look %d: it keeps %d and is %v old, %+v; expected the same task: %v", single, i, held, age, l.Sample.Tasks, tt.same)
			}
		}
	}
}

// What statements lose to a snapshot is bounded by what so many versions can cost each of them, however slow they are for other reasons.
func TestFewVersionsCostLittle(t *testing.T) {
	for name, tt := range map[string]struct {
		changed  uint64 // rows, at each look
		from, to int64  // of what an UPDATE that runs 40 ms loses, in ms
	}{"few": {30, 0, 16}, "many": {3000, 25, 40}} {
		b := unladen(20 * time.Millisecond)
		lost := int64(0)
		for i := range 60 {
			in := &input{at: mono.Time(10 * time.Second).Add(time.Duration(i) * tick), counts: counts{questions: uint64(30 * i), changed: tt.changed * uint64(i), history: int64(max(i-30, 0))}, fresh: true,
				usage: func(int64) (procfs.Usage, bool) { return procfs.Usage{}, true }, state: func(int64) procfs.State { return procfs.Running }}
			running, elapsed := 1, 5.0
			if i > 30 { // a long SELECT, and updates that have become slow
				running, elapsed = 8, 40
				in.sessions = []sessionRow{{id: 1, thread: 1, command: "Query", state: "Sending data", text: "SELECT SUM(v) FROM t", elapsed: float64(100 * (i - 30)), query: 1}}
				in.transactions = []transactionRow{{id: 1 << 47, session: 1, keeps: true, single: true, begun: 100, sure: int64(i-30)*tick.Microseconds() - 1_000_000}}
			}
			for k := range running {
				in.sessions = append(in.sessions, sessionRow{id: int64(k) + 2, thread: int64(k) + 2, command: "Query", state: "Updating", text: "UPDATE t SET v = 1", elapsed: elapsed, query: int64(1000*i + k)})
			}
			l := b.build(in)
			lost = 0
			for _, h := range l.Sample.Holds {
				if h.Resource == versions && h.Used == 0 {
					lost = max(lost, h.WaitTime.Milliseconds())
				}
			}
		}
		if lost < tt.from || lost > tt.to {
			t.Errorf("%s: an UPDATE of 40 ms lost %d ms to the snapshot, expected %d to %d", name, lost, tt.from, tt.to)
		}
	}
}

// A snapshot keeps as many versions as rows were changed since it was taken, in however few transactions: not what was
// made before, nor what is removed because only transactions keep it that are over.
func TestVersionsAreOfRows(t *testing.T) {
	for name, tt := range map[string]struct {
		changed [4]uint64
		history [4]int64
		want    uint64
	}{
		"large transactions":            {[4]uint64{5000, 5000, 25_000, 45_000}, [4]int64{7, 7, 8, 9}, 40_000},
		"one that goes on":              {[4]uint64{0, 20_000, 40_000, 60_000}, [4]int64{7, 7, 7, 7}, 0},
		"one that went on":              {[4]uint64{0, 20_000, 40_000, 60_000}, [4]int64{7, 7, 7, 8}, 60_000},
		"removed at once":               {[4]uint64{0, 200, 400, 600}, [4]int64{7, 5, 6, 5}, 0},
		"some, from before, is removed": {[4]uint64{0, 200, 400, 600}, [4]int64{7, 7, 5, 15}, 200},
		"the server does not tell":      {[4]uint64{0, 200, 400, 600}, [4]int64{-1, -1, -1, -1}, 600},
	} {
		b := unladen(20 * time.Millisecond)
		kept := uint64(0)
		for i := range tt.changed {
			in := &input{at: mono.Time(10 * time.Second).Add(time.Duration(i) * tick), counts: counts{questions: uint64(100 * i), changed: tt.changed[i], history: tt.history[i]}, fresh: true}
			if i > 0 {
				in.sessions = []sessionRow{{id: 1, command: "Sleep", elapsed: float64(50 * i), query: 7}}
				in.transactions = []transactionRow{{id: 1 << 47, session: 1, keeps: true, sure: int64(i) * tick.Microseconds()}}
			}
			kept = 0
			for _, h := range b.build(in).Sample.Holds {
				if h.Resource == versions {
					kept = h.Used
				}
			}
		}
		if kept != tt.want {
			t.Errorf("%s: keeps %d, expected %d", name, kept, tt.want)
		}
	}
}

// A statement that changes rows takes no snapshot: an UPDATE that has run for longer than an objective and has locked nothing yet, as one
// that lacks a processor, keeps nothing and is one of the foreground. Behind a SELECT of its transaction it does keep what that saw.
func TestAnUpdateTakesNoSnapshot(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		sure time.Duration // that the transaction is old at least
		old  bool
	}{
		"an update":                       {"UPDATE t SET v = 1", -800 * time.Millisecond, false},
		"an update, as old for sure":      {"UPDATE t SET v = 1", 150 * time.Millisecond, false},
		"a read":                          {"SELECT 1", -800 * time.Millisecond, true},
		"an update in an old transaction": {"UPDATE t SET v = 1", 900 * time.Millisecond, true},
	} {
		b := unladen(20 * time.Millisecond)
		var l *track.Look
		for i := range 3 {
			l = b.build(&input{at: mono.Time(10 * time.Second).Add(time.Duration(i) * tick), counts: counts{questions: uint64(100 * i), changed: uint64(100 * i), history: -1}, fresh: true,
				sessions:     []sessionRow{{id: 1, command: "Query", state: "Updating", text: tt.text, elapsed: float64(150 + 100*i), query: 7}},
				transactions: []transactionRow{{id: 1 << 47, session: 1, age: 1, keeps: true, sure: (tt.sure + time.Duration(i)*tick).Microseconds()}}})
		}
		keeps := false
		for _, h := range l.Sample.Holds {
			keeps = keeps || h.Resource == versions
		}
		task := l.Sample.Tasks[0]
		if keeps != tt.old || (task.Steps == culprit.StepsOf(culprit.Session)) != tt.old || task.Background != tt.old {
			t.Errorf("%s: keeps old versions %v, %+v; expected %v", name, keeps, task, tt.old)
		}
	}
}
