package postgres

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// Short statements have the use of all sessions that run such, at the rate of them all,
// the share of their time that they lack a processor, and of what they wrote so much as
// is theirs: a commit writes the log of others. A long one has its own. Delays count less where other
// programs of this machine use its processors.
func TestShortStatementsShareWhatTheyUse(t *testing.T) {
	const period = 100 * time.Millisecond
	b := unladen(20 * time.Millisecond)
	clock := time.Unix(1000, 0)
	used := map[int64]procfs.Usage{1: {IO: true}, 2: {IO: true}, 3: {IO: true}, 4: {IO: true}}
	row := func(pid int64, state, wait string, age time.Duration) activityRow {
		r := activityRow{pid: pid, backend: "client backend", begun: time.Unix(0, pid), state: state, statement: clock.Add(-age), changed: clock.Add(-age)}
		if state == "active" {
			r.transaction = r.statement
		}
		if wait != "" {
			r.waitType, r.wait = "LWLock", wait
		}
		return r
	}
	var starved map[int64]time.Duration
	look := func(at mono.Time, rows ...activityRow) map[int64]map[int]culprit.Hold {
		l := b.build(&input{at: at, summary: summary{now: clock, finished: 2}, rows: rows, super: true, maySignal: true,
			usage: func(pid int64) (procfs.Usage, bool) { return used[pid], true }})
		starved = map[int64]time.Duration{}
		for i := range l.Sample.Tasks {
			starved[l.Sessions[i].Process] = l.Sample.Tasks[i].Starved
		}
		found := map[int64]map[int]culprit.Hold{}
		for _, h := range l.Sample.Holds {
			pid := l.Sessions[h.Task].Process
			if found[pid] == nil {
				found[pid] = map[int]culprit.Hold{}
			}
			found[pid][int(h.Resource)] = h
		}
		return found
	}
	began := clock
	report := func() activityRow { return row(1, "active", "", clock.Sub(began)+period) }
	look(mono.Time(time.Second), report(), row(2, "active", "", ms), row(3, "active", "", ms), row(4, "idle", "", ms))
	clock = clock.Add(period)
	used[1] = procfs.Usage{CPU: 50 * ms, Delay: 10 * ms, Read: 7000, Written: 9000, IO: true}
	used[2] = procfs.Usage{CPU: 10 * ms, Delay: 20 * ms, Read: 100, Written: 50_000, IO: true}
	used[3] = procfs.Usage{CPU: 10 * ms, Delay: 40 * ms, Read: 300, Written: 50_000, IO: true}
	used[4] = procfs.Usage{CPU: 20 * ms, Delay: 20 * ms, Read: 400, Written: 50_000, IO: true}
	got := look(mono.Time(time.Second).Add(period), report(), row(2, "active", "", 10*ms), row(3, "active", "WALWrite", 5*ms), row(4, "idle", "", ms))

	if h := got[1][processor]; h.Gets != uint64(50*ms) || h.WaitTime <= 0 || h.WaitTime > 10*ms || got[1][wal].Gets != 9000 || got[1][buffers].Gets != 7000 {
		t.Errorf("the report: %+v", got[1])
	}
	if sum := got[1][processor].WaitTime + starved[1]; sum < 10*ms-2 || sum > 10*ms+2 {
		t.Errorf("the report lost %v to other sessions and %v to other programs, expected its 10 ms without a processor in all", got[1][processor].WaitTime, starved[1])
	}
	// 40 ms of a processor in 100 ms by two statements at once: each has 20 % of one.
	if h := got[2][processor]; h.Gets != uint64(2*ms) || h.WaitTime <= 0 || h.WaitTime > 6667*time.Microsecond {
		t.Errorf("ready to run: %+v, expected 2 ms of use and a delay of at most 80 of 120 parts of its 10 ms", h)
	}
	if h := got[3][processor]; h.Gets != uint64(ms) || h.WaitTime != 0 {
		t.Errorf("waits for the log: %+v, expected 1 ms of use and no delay by the processor", h)
	}
	if h := got[2][buffers]; h.Gets != 40 || got[2][wal].Gets != 4*logged/20 {
		t.Errorf("what it read and wrote: %+v, expected a twentieth of 800 bytes and of what four transactions log", got[2])
	}
	if got[4] != nil {
		t.Errorf("an idle session has %+v", got[4])
	}
}

// What statements cost beyond normal while an idle transaction keeps old versions is lost to
// it, and so is that share of their wait for processors. Who waits for a light-weight lock waits
// for a processor where processes lack one for longer than they have one.
func TestOldSnapshot(t *testing.T) {
	const period = 100 * time.Millisecond
	b := unladen(20 * time.Millisecond)
	clock := time.Unix(1000, 0)
	var used procfs.Usage
	var l *culprit.Sample
	look := func(i int, work, delay time.Duration, horizon int64, wait string) {
		clock = clock.Add(period)
		used.CPU, used.Delay = used.CPU+work, used.Delay+delay
		short := activityRow{pid: 2, backend: "client backend", begun: time.Unix(0, 2), state: "active", statement: clock.Add(-10 * ms), changed: clock.Add(-10 * ms), transaction: clock.Add(-10 * ms)}
		if wait != "" {
			short.waitType, short.wait = "LWLock", wait
		}
		rows := []activityRow{short}
		if horizon > 0 {
			rows = append(rows, activityRow{pid: 1, backend: "client backend", begun: time.Unix(0, 1), state: "idle in transaction", statement: clock.Add(-time.Second),
				changed: clock.Add(-time.Second), transaction: clock.Add(-time.Second), horizon: horizon})
		}
		l = &b.build(&input{at: mono.Time(time.Second).Add(time.Duration(i) * period), summary: summary{now: clock, ended: uint64(50 * i), finished: 5}, rows: rows, super: true, maySignal: true,
			usage: func(pid int64) (procfs.Usage, bool) { return used, pid == 2 }}).Sample
	}
	lost := func(task, resource int) (lost time.Duration, kept uint64) {
		for _, h := range l.Holds {
			if int(h.Task) == task && int(h.Resource) == resource {
				if lost, kept = h.WaitTime, h.Used; h.WaitingSince != culprit.Unset {
					lost += l.At.Sub(h.WaitingSince)
				}
			}
		}
		return lost, kept
	}
	for i := range 50 {
		look(i, 10*ms, 0, 0, "")
	}
	for i := range 30 {
		look(50+i, 40*ms, 40*ms, int64(50*i+50), "")
	}
	if _, kept := lost(1, versions); kept != 1500 {
		t.Errorf("the snapshot keeps %d, expected 1500", kept)
	}
	toVersions, _ := lost(0, versions)
	toProcessor, _ := lost(0, processor)
	if toVersions < 7*ms || toVersions > 8*ms || toProcessor > 1500*time.Microsecond {
		t.Errorf("%v and %v of 10 ms lost to versions and processor, expected three quarters and at most a quarter of a half", toVersions, toProcessor)
	}
	look(80, 40*ms, 400*ms, 0, "WALWrite")
	if toLog, _ := lost(0, wal); toLog != 0 {
		t.Errorf("%v lost to the log, whose lock's holder lacks a processor", toLog)
	}
	if toProcessor, _ := lost(0, processor); toProcessor < 9*ms {
		t.Errorf("%v of 10 ms lost to the processor, expected all of it", toProcessor)
	}
}

// A statement whose text was not seen is of no known kind, and not of that of the one before.
func TestTextThatWasNotSeen(t *testing.T) {
	b := unladen(20 * ms)
	clock, text := time.Unix(1000, 0), "SELECT 1"
	seen := &text
	for i, want := range []bool{true, false} {
		clock = clock.Add(100 * ms)
		row := activityRow{pid: 1, backend: "client backend", begun: time.Unix(0, 1), state: "active", statement: clock.Add(-ms), transaction: clock.Add(-ms), text: seen}
		l := b.build(&input{at: mono.Time(time.Second).Add(time.Duration(i) * 100 * ms), summary: summary{now: clock}, rows: []activityRow{row}})
		if got := l.Sample.Tasks[0].Kind != 0; got != want || (l.Sessions[0].Statement.Text != "") != want {
			t.Errorf("look %d: kind %x, text %q", i, l.Sample.Tasks[0].Kind, l.Sessions[0].Statement.Text)
		}
		seen = nil
	}
}

const ms = time.Millisecond

// A session that waits for the rest of what its client sends, and one between two statements, look for no cancel; only the end of the session
// has an effect.
func TestStepsOfSessionsThatHearNoCancel(t *testing.T) {
	in := &input{super: true, maySignal: true}
	for _, c := range []struct {
		state, waitType, wait string
		statement             bool
	}{{"active", "", "", true}, {"active", "Lock", "relation", true}, {"active", "Client", "ClientWrite", true}, {"active", "Client", "ClientRead", false}, {"idle in transaction", "Client", "ClientRead", false}} {
		r := &activityRow{backend: "client backend", user: "app", state: c.state, waitType: c.waitType, wait: c.wait}
		got := steps(in, r, c.state != "active")
		if got.Has(culprit.Statement) != c.statement || !got.Has(culprit.Session) {
			t.Errorf("%s, %s: steps %b, expected a statement's %v and the session's", c.state, c.wait, got, c.statement)
		}
	}
}

// Statements that are late and shorter than the time between two looks are known by their sessions, which tell when the last one began and
// ended. One that the look before saw is no other one.
func TestStatementsThatEndLateBetweenLooks(t *testing.T) {
	b := unladen(20 * ms)
	clock := time.Unix(1000, 0)
	row := func(pid int64, state string, began, ended time.Duration) activityRow {
		return activityRow{pid: pid, backend: "client backend", begun: time.Unix(0, pid), user: "app", state: state, statement: clock.Add(-began), changed: clock.Add(-ended)}
	}
	look := func(rows ...activityRow) culprit.Finished {
		since := clock
		clock = clock.Add(100 * ms)
		for i := range rows {
			rows[i].statement, rows[i].changed = rows[i].statement.Add(100*ms), rows[i].changed.Add(100*ms)
		}
		l := b.build(&input{at: mono.Time(clock.UnixNano()), since: since, summary: summary{now: clock, finished: 2}, rows: rows, super: true, maySignal: true})
		if int(l.Sample.Finished.Late) != len(l.Late) {
			t.Errorf("%+v of %d sessions", l.Sample.Finished, len(l.Late))
		}
		return l.Sample.Finished
	}
	if f := look(row(1, "idle", 50*ms, 10*ms)); f.Late != 0 {
		t.Errorf("the first look: %+v, expected none: when the time before it began is not known", f)
	}
	f := look(row(1, "idle", 50*ms, 10*ms), row(2, "idle in transaction", 90*ms, 69*ms), row(3, "idle", 30*ms, 10*ms), row(4, "active", 60*ms, 60*ms),
		row(5, "idle", 130*ms, 10*ms), row(6, "idle", 300*ms, 200*ms))
	if f.Late != 2 || f.Timed < 2 {
		t.Errorf("%+v, expected 2 late: of those that began since the look before and took more than 20 ms", f)
	}
	// One that began and ended while this look was taken is in the time of the next look as well.
	late := row(7, "idle", -2*ms, -25*ms)
	if f := look(late); f.Late != 1 {
		t.Fatalf("%+v, expected 1 late", f)
	}
	if f := look(late); f.Late != 0 { // the session has done nothing since
		t.Errorf("%+v, expected none: the statement was counted at the look before", f)
	}
}

// A session that was told to end is ending until it is gone; another one with its number is not.
func TestSessionsThatAreEnding(t *testing.T) {
	b := unladen(20 * ms)
	clock := time.Unix(1000, 0)
	for i, begun := range []int64{1, 1, 2} {
		clock = clock.Add(100 * ms)
		row := activityRow{pid: 7, backend: "client backend", begun: time.Unix(begun, 0), state: "idle in transaction", statement: time.Unix(900, 0), transaction: time.Unix(900, 0), changed: time.Unix(900, 0)}
		l := b.build(&input{at: mono.Time(time.Second).Add(time.Duration(i) * 100 * ms), summary: summary{now: clock}, rows: []activityRow{row}, super: true, maySignal: true})
		if got, want := l.Sample.Tasks[0].Ending, i == 1; got != want {
			t.Errorf("look %d: ending is %v, expected %v", i, got, want)
		}
		if i == 0 {
			b.ends(b.targets[l.Sample.Tasks[0].ID])
		}
	}
}

// A guard that has seen little of normal times believes what it has seen before a snapshot as soon as that is some objectives old.
func TestYoungSnapshot(t *testing.T) {
	for objective, want := range map[time.Duration]time.Duration{10 * ms: 250 * ms, 100 * ms: 400 * ms, time.Second: time.Second} {
		if got := harmless(objective); got != want {
			t.Errorf("objective %v: harmless for %v, expected %v", objective, got, want)
		}
	}
	b := unladen(20 * ms)
	clock := time.Unix(1000, 0)
	var used procfs.Usage
	look := func(i int, work, held time.Duration) (lost time.Duration) {
		clock = clock.Add(100 * ms)
		used.CPU += work
		short := clock.Add(-10 * ms)
		rows := []activityRow{{pid: 2, backend: "client backend", begun: time.Unix(0, 2), state: "active", statement: short, changed: short, transaction: short}}
		if held > 0 {
			rows = append(rows, activityRow{pid: 1, backend: "client backend", begun: time.Unix(0, 1), state: "idle in transaction", statement: clock.Add(-held),
				changed: clock.Add(-held), transaction: clock.Add(-held), horizon: int64(held / ms)})
		}
		l := &b.build(&input{at: mono.Time(time.Second).Add(time.Duration(i) * 100 * ms), summary: summary{now: clock, ended: uint64(50 * i), finished: 5}, rows: rows, super: true, maySignal: true,
			usage: func(pid int64) (procfs.Usage, bool) { return used, pid == 2 }}).Sample
		for _, h := range l.Holds {
			if h.Task == 0 && h.Resource == versions {
				lost = h.WaitTime
			}
		}
		return lost
	}
	for i := range 30 {
		look(i, 10*ms, 0)
	}
	for i := range 5 {
		held := time.Duration(i)*100*ms + 50*ms
		if lost := look(30+i, 40*ms, held); (lost > 0) != (held >= 250*ms) {
			t.Errorf("%v of a statement lost to a snapshot that is %v old", lost, held)
		}
	}
}

// Nothing is told of completions before the counter tells of all of them: a part of them would be taken for what is normal.
func TestCompletionsAreToldWhenTheyAreKnown(t *testing.T) {
	b := unladen(20 * ms)
	for i := range uint64(30) {
		l := b.build(&input{at: mono.Time(time.Second).Add(time.Duration(i) * 100 * ms), summary: summary{now: time.Unix(1000, 0), ended: 1000 + 40*i, finished: 3}, super: true, maySignal: true})
		if got, want := l.Sample.Finished.Count, uint64(40); i <= 10 && got != 0 || i > 10 && got != want {
			t.Errorf("look %d: %d ended, expected none until the look that is a second after the first, and then %d", i, got, want)
		}
	}
}

// What changes the schema in a transaction is undone if a later statement of that is cancelled, or its session ended while it is idle. What comes
// after the transaction is not.
func TestATransactionThatHasChangedTheSchema(t *testing.T) {
	b := unladen(20 * ms)
	clock := time.Unix(1000, 0)
	begun := clock
	for i, look := range []struct {
		text, state string
		transaction int64
		want        culprit.Bar
	}{
		{"ALTER TABLE t ADD COLUMN c int", "active", 1, culprit.Schema}, {"UPDATE t SET c = 1", "active", 1, culprit.Schema}, {"UPDATE t SET c = 1", "idle in transaction", 1, culprit.Schema},
		{"UPDATE t SET c = 1", "active", 2, culprit.NotBarred},
		{"CREATE TEMP TABLE mine AS SELECT * FROM t", "active", 3, culprit.Schema}, {"UPDATE t SET c = 1", "active", 3, culprit.NotBarred},
		{"BEGIN; CREATE INDEX ON t (c)", "active", 4, culprit.Schema}, {"SELECT 1", "active", 4, culprit.Schema},
	} {
		clock = clock.Add(100 * ms)
		row := activityRow{pid: 1, backend: "client backend", begun: begun, state: look.state, statement: clock.Add(-ms), changed: clock.Add(-ms), transaction: time.Unix(900, look.transaction), text: &look.text}
		l := b.build(&input{at: mono.Time(time.Second).Add(time.Duration(i) * 100 * ms), summary: summary{now: clock}, rows: []activityRow{row}, super: true, maySignal: true})
		if got := l.Sample.Tasks[0].Barred; got != look.want {
			t.Errorf("look %d, %s: barred is %v, expected %v", i, look.text, got, look.want)
		}
	}
}

// A server whose clock is set forward by an hour has no task that is an hour old by that.
func TestAClockThatIsSetForward(t *testing.T) {
	b := unladen(20 * ms)
	clock, at := time.Unix(1000, 0), mono.Time(time.Minute)
	began := clock.Add(-300 * ms)
	for i := range 20 {
		if clock, at = clock.Add(100*ms), at.Add(100*ms); i == 10 {
			clock = clock.Add(time.Hour)
		}
		held := activityRow{pid: 1, backend: "client backend", begun: time.Unix(1, 0), state: "idle in transaction", statement: began, changed: began, transaction: began}
		behind := activityRow{pid: 2, backend: "client backend", begun: time.Unix(2, 0), state: "active", statement: began.Add(ms), changed: began.Add(ms), transaction: began.Add(ms), waitType: "Lock", wait: "tuple"}
		l := b.build(&input{asked: at.Add(-5 * ms), at: at, summary: summary{now: clock.Add(-2 * ms)}, rows: []activityRow{held, behind}, super: true, maySignal: true, locks: []lockRow{
			{group: "g", kind: "tuple", pid: 1, mode: "ExclusiveLock", granted: true}, {group: "g", kind: "tuple", pid: 2, mode: "ExclusiveLock", since: began.Add(ms)}}})
		for k, task := range l.Sample.Tasks {
			if age, want := at.Sub(task.Started), 300*ms+time.Duration(i+1)*100*ms; age > want+10*ms || age < want-20*ms {
				t.Errorf("look %d: task %d is %v old, expected %v", i, k, age, want)
			}
		}
	}
}

// Before version 14 the server does not tell who is first in the queue of a lock. The request whose statement began first is taken for that.
func TestQueuesOfOldServers(t *testing.T) {
	began := time.Unix(1000, 0)
	locks := []lockRow{{group: "g", kind: "relation", pid: 9, mode: "AccessShareLock", granted: true}, {group: "g", kind: "relation", pid: 2, mode: "AccessShareLock"}, {group: "g", kind: "relation", pid: 5, mode: "AccessExclusiveLock"}}
	queue(locks, []activityRow{{pid: 2, statement: began.Add(time.Second)}, {pid: 5, statement: began}, {pid: 9, statement: began.Add(-time.Second)}})
	edges := map[int64]int64{}
	for _, w := range waits(locks, func(a, b int64) bool { return a == b }) {
		for _, h := range w.blockers {
			edges[w.waiter.pid] = h.pid
		}
	}
	if len(edges) != 2 || edges[5] != 9 || edges[2] != 5 {
		t.Errorf("edges %v, expected that the reader 2 waits for the change 5, and that for the reader 9", edges)
	}
}
