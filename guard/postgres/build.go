package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// noise is how long a statement must run before its wait for a lock is looked into,
// and a wait that begins to count as one: locks that are waited for a millisecond are
// how a database works.
const noise = 20 * time.Millisecond

// builder turns rows into looks. It has all that is remembered between them.
type builder struct {
	objective time.Duration
	tracker   *track.Tracker
	ended     track.Completions
	meter     procfs.Meter
	known     map[int64]known // by process
	// targets are the tasks of the present look, by ID.
	targets map[uint64]target
	look    uint64
	before  mono.Time // of the look before
	cost    track.Cost
	use     use
	asks    map[int64]ask // by process
	pools   track.Pools
	told    track.Told
	clock   track.Clock
}

// known is what the look before saw of a session.
type known struct {
	begun, statement time.Time
	parsed           statement.Statement
	read             bool      // that is of the statement's text
	schema           time.Time // the transaction in which it has changed the schema
	active           bool
	making, segment  bool      // it makes a segment of the log; or has since the look before
	writes           float64   // bytes per second, while it made none
	late             time.Time // when the last statement ended that was counted as late
	ending           bool      // the session was told to end, and has not yet
	look             uint64
}

// target is what identifies a task to the server.
type target struct {
	pid         int64
	begun       time.Time
	transaction time.Time // zero: what it does in none
	statement   time.Time
	keeps       []string // the session itself, for advisory locks that it keeps: their groups
}

func newBuilder(objective time.Duration) *builder {
	return &builder{objective: objective, tracker: track.New(resources), known: map[int64]known{}, targets: map[uint64]target{}, asks: map[int64]ask{}}
}

// input is what the views showed at one look.
type input struct {
	asked    mono.Time // before the look
	at       mono.Time
	summary  summary
	rows     []activityRow
	locks    []lockRow
	progress []progress
	since    time.Time // when the look before began
	// unread are the ports of clients whose requests no process had read at an instant.
	unread   []int
	unreadAt mono.Time
	// usage returns what a process has consumed; nil if the server is elsewhere.
	usage func(pid int64) (procfs.Usage, bool)
	// signals says which sessions this role may cancel: all, or only its own and not
	// superusers'.
	role      string
	super     bool
	maySignal bool
	untracked bool        // the server does not say what sessions do
	clock     track.Clock // the server's
}

// instant converts a time of the server's clock.
func (in *input) instant(t time.Time) mono.Time {
	if t.IsZero() {
		return in.at
	}
	return in.at.Add(-in.summary.now.Sub(in.clock.Now(t)))
}

// build makes the look of in.
func (b *builder) build(in *input) *track.Look {
	b.look++
	b.clock.Look(in.summary.now, in.asked, in.at)
	in.clock = b.clock
	b.meter.Begin()
	b.tracker.Begin(in.at)
	b.pools.Begin()
	clear(b.targets)
	blocking, advisory := blockers(in.locks)
	entries := map[int64]*track.Entry{}
	leaders := map[int64]int64{}
	advanced := in.summary.finished
	hidden := false
	for i := range in.rows {
		r := &in.rows[i]
		if r.hidden {
			hidden = true
			continue
		}
		if r.leader != 0 && r.leader != r.pid {
			leaders[r.pid] = r.leader
		}
		ended := b.remember(r)
		if ended {
			advanced++
		}
		e := b.task(in, r, blocking[r.pid], advisory[r.pid])
		if e != nil {
			entries[r.pid] = e
		}
		b.connection(in, r, e, ended)
		if b.endedLate(in, r) {
			b.tracker.EndedLate(track.Session{Process: r.pid, User: r.user, Application: r.application, Database: r.database, Client: r.client, State: r.state})
		}
	}
	for pid, k := range b.known {
		if k.look != b.look {
			delete(b.known, pid)
		}
	}
	completed := b.ended.Add(in.at, in.summary.ended, advanced)
	b.measure(in, entries, leaders)
	holder := b.snapshots(in, entries)
	b.waits(in, entries, leaders)
	b.ask(in)
	b.consume(in, entries, holder, completed)
	if b.ended.Known() {
		b.pools.End(b.tracker, connections, b.told.Add(in.at.Sub(b.before), in.summary.written, completed))
	}
	b.before = in.at
	for _, p := range in.progress {
		if e := entries[p.pid]; e != nil && p.total > 0 && p.done >= 0 {
			t, _ := b.tracker.At(e)
			t.Done, t.Total = uint64(p.done), uint64(p.total)
		}
	}
	if in.untracked {
		b.tracker.Note("what sessions do is not shown; missing: track_activities=on in the server's configuration")
	}
	if hidden {
		b.tracker.Note(fmt.Sprintf("other users' sessions are hidden; missing: GRANT pg_read_all_stats TO %s", quoteName(in.role)))
	}
	if !in.maySignal {
		b.tracker.Note(fmt.Sprintf("other users' sessions cannot be cancelled; missing: GRANT pg_signal_backend TO %s", quoteName(in.role)))
	}
	told := completed
	if !b.ended.Known() {
		told = 0 // what was seen is a part of it, which must not become what is normal
	}
	l := b.tracker.End(told)
	f := &l.Sample.Finished
	f.Timed, f.Late = b.late(completed)
	if n := uint64(len(l.Late)); n > 0 {
		f.Timed, f.Late = max(f.Timed, completed, n), max(f.Late, n)
	}
	return l
}

// connection enters what a session has to do with the pool of its application.
func (b *builder) connection(in *input, r *activityRow, e *track.Entry, ended bool) {
	if r.backend != "client backend" || r.pool == 0 {
		return
	}
	if e != nil {
		t, _ := b.tracker.At(e)
		b.tracker.Holds(e, connections, t.Started, 1, false)
	}
	ended = ended || strings.HasPrefix(r.state, "idle") && !r.changed.Before(in.since)
	b.pools.Session(r.name(), r.pool, r.free, ended, e)
}

// blockers returns the processes that hold what others wait for, and the groups of the locks
// that they may hold for their session and not for a transaction.
func blockers(rows []lockRow) (blocking map[int64]bool, advisory map[int64][]string) {
	blocking, advisory = map[int64]bool{}, map[int64][]string{}
	for i := range rows {
		r := &rows[i]
		if r.pid == 0 || !r.granted {
			continue
		}
		blocking[r.pid] = true
		if r.kind == "advisory" {
			advisory[r.pid] = append(advisory[r.pid], r.group)
		}
	}
	return blocking, advisory
}

// remember keeps the statement of a session and reports whether it has begun another
// one since the look before, so that one ended.
func (b *builder) remember(r *activityRow) (ended bool) {
	k, ok := b.known[r.pid]
	same := ok && k.begun.Equal(r.begun)
	if !same {
		k = known{begun: r.begun}
	}
	making := strings.HasPrefix(r.wait, "WALInit")
	k.segment = making || k.making
	ended = same && k.active && !k.statement.Equal(r.statement) && r.backend == "client backend" && !strings.HasPrefix(r.state, "idle")
	switch other := !same || !k.statement.Equal(r.statement); {
	case r.text != nil && (other || k.parsed.Fingerprint == 0):
		k.parsed, k.read = statement.Of(*r.text, statement.Postgres), true
	case other: // whatever it does, it is not what it did before
		k.parsed, k.read = statement.Statement{}, false
	}
	if k.parsed.Class == statement.Schema && !strings.HasPrefix(k.parsed.Text, "create temp") {
		k.schema = r.transaction
	}
	k.statement, k.active, k.making, k.look = r.statement, r.state == "active", making, b.look
	b.known[r.pid] = k
	return ended
}

// read reports whether the text of a session's statement was seen at an earlier look.
func (b *builder) read(r *activityRow) bool {
	k, ok := b.known[r.pid]
	return ok && k.read && k.begun.Equal(r.begun) && k.statement.Equal(r.statement)
}

// ends notes that a session was told to end. It does so when it gets a processor.
func (b *builder) ends(goal target) {
	if k, ok := b.known[goal.pid]; ok && k.begun.Equal(goal.begun) {
		k.ending = true
		b.known[goal.pid] = k
	}
}

// task adds the task of a session, nil if it has none.
func (b *builder) task(in *input, r *activityRow, blocks bool, advisory []string) *track.Entry {
	idle := strings.HasPrefix(r.state, "idle")
	if r.leader != 0 && r.leader != r.pid || idle && !blocks && r.transaction.IsZero() {
		return nil // a helper of another session; nothing to do
	}
	goal := target{pid: r.pid, begun: r.begun, transaction: r.transaction, statement: r.statement, keeps: advisory}
	if len(advisory) > 0 { // the session keeps it from one transaction to the next
		goal.transaction = time.Time{}
	}
	key := track.Key{Process: r.pid, Session: r.begun.UnixMicro()}
	if !goal.transaction.IsZero() {
		key.Work = goal.transaction.UnixMicro()
	}
	begun, background := b.begun(in, r, idle, blocks)
	e := b.tracker.Task(key, begun)
	t, s := b.tracker.At(e)
	parsed := b.known[r.pid].parsed
	*s = track.Session{Process: r.pid, User: r.user, Application: r.application, Database: r.database, Client: r.client, Statement: parsed, State: r.state}
	if r.waitType != "" && !idle {
		s.State += ", waits for " + r.waitType + ":" + r.wait
	}
	t.Owner, t.Kind, t.Idle, t.Background = r.owner(), parsed.Fingerprint, idle, background
	class := parsed.Class
	if k := b.known[r.pid]; !k.schema.IsZero() && k.schema.Equal(r.transaction) { // it ends with what it does now
		class = statement.Schema
	}
	t.Barred = barOf(r, class)
	t.Steps, t.Ending = steps(in, r, idle), b.known[r.pid].ending
	b.targets[t.ID] = goal
	return e
}

// begun returns when the task began as the engine is to see it, and whether it has no
// objective. The foreground is judged by its statements; what holds others up, and
// what has gone on through many statements, by its transaction.
func (b *builder) begun(in *input, r *activityRow, idle, blocks bool) (mono.Time, bool) {
	statement, whole := in.instant(r.statement), in.instant(r.transaction)
	if r.transaction.IsZero() {
		whole = in.instant(r.changed)
	}
	short := in.at.Sub(statement) <= b.objective
	switch {
	case r.backend != "client backend":
		return min(whole, statement), true
	case idle:
		return whole, false
	case in.at.Sub(whole) > b.objective && (short || blocks):
		return whole, short
	}
	return statement, b.known[r.pid].parsed.Class == statementVacuum
}

const statementVacuum = statement.Vacuum

// barOf returns why a session must not be cancelled unless the operator says so.
func barOf(r *activityRow, class statement.Class) culprit.Bar {
	switch {
	case r.backend == "walsender", strings.HasPrefix(r.backend, "logical replication"), class == statement.Replication:
		return culprit.Replication
	case r.backend != "client backend" && r.backend != "parallel worker":
		return culprit.Maintenance // the server's own, or an extension's, whose workers have any name and may replicate
	case class == statement.Backup, strings.HasPrefix(r.application, "pg_dump"), r.application == "pg_basebackup":
		return culprit.Backup
	case class == statement.Schema:
		return culprit.Schema
	}
	return culprit.NotBarred
}

// steps returns what can be done to a session.
func steps(in *input, r *activityRow, idle bool) culprit.Steps {
	switch {
	case !in.super && (r.superuser || r.user == ""), !in.maySignal && r.user != in.role: // the server's own workers are nobody's
		return 0
	case idle, stalls(r):
		return culprit.StepsOf(culprit.Session) // a cancel has no effect
	case r.backend != "client backend":
		return culprit.StepsOf(culprit.Statement)
	}
	return culprit.StepsOf(culprit.Statement, culprit.Session)
}

// stalls reports whether a session waits for the rest of what its client sends, as COPY FROM STDIN does: it looks for
// a cancel when that has come.
func stalls(r *activityRow) bool {
	return r.state == "active" && r.waitType == "Client" && r.wait == "ClientRead"
}

// waits enters the resource and the blockers that each session waits for.
func (b *builder) waits(in *input, entries map[int64]*track.Entry, leaders map[int64]int64) {
	leader := func(pid int64) int64 {
		if l, ok := leaders[pid]; ok {
			return l
		}
		return pid
	}
	same := func(a, c int64) bool { return a != 0 && leader(a) == leader(c) }
	all := waits(in.locks, same)
	for _, w := range all {
		e := entries[leader(w.waiter.pid)]
		if e == nil {
			continue // it has got it, or gave up, since
		}
		t, _ := b.tracker.At(e)
		since := in.instant(w.since)
		if w.since.IsZero() {
			since = t.Started
		}
		b.tracker.Waits(e, w.resource, since)
		for _, h := range w.blockers {
			holder := entries[leader(h.pid)]
			if h.pid == 0 {
				holder = b.prepared(h)
			}
			if holder == nil || holder == e {
				continue
			}
			if h.granted {
				held, _ := b.tracker.At(holder)
				b.tracker.Holds(holder, w.resource, held.Started, 0, shared(h.mode))
			}
			b.tracker.Edge(e, holder, w.resource)
		}
	}
	for i := range in.rows {
		r := &in.rows[i]
		e := entries[r.pid]
		if e == nil || r.state != "active" {
			continue
		}
		if resource, ok := sampled(r.waitType, r.wait); ok {
			if r.waitType == "LWLock" && b.use.starved {
				resource = processor // that is what the holder of the lock lacks
			}
			b.tracker.Samples(e, resource)
		} else if r.waitType == "Lock" && in.summary.now.Sub(r.statement) < noise {
			b.tracker.Samples(e, resourceOf(r.wait))
		}
	}
}

// prepared returns the task of a prepared transaction, which has no session and so
// cannot be cancelled here.
func (b *builder) prepared(h *lockRow) *track.Entry {
	var number int64
	for _, c := range h.virtual { // "-1/4711": an order of magnitude of uniqueness is enough
		number = number*31 + int64(c)
	}
	e := b.tracker.Task(track.Key{Work: number}, 0)
	t, s := b.tracker.At(e)
	t.Idle = true
	s.State = "prepared transaction " + h.virtual + "; end it with ROLLBACK PREPARED"
	return e
}
