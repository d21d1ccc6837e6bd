package mariadb

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// killed is the command of a session that has been told to end.
const killed = "Killed"

// undoRate is how many modified rows a rollback takes back in a second.
const undoRate = 100_000

// builder turns rows into looks. It has all that is remembered between them.
type builder struct {
	objective    time.Duration
	mysql        bool
	tracker      *track.Tracker
	counts       counts // of the look before
	meter        procfs.Meter
	known        map[int64]known // by session
	targets      map[uint64]target
	look         uint64
	before       mono.Time // of the look before
	asked        mono.Time // when that began
	used         []used
	kinds        kinds
	cost         track.Cost
	starved      bool // threads lacked a processor for longer than they had one, at the look before
	snapshots    snapshots
	transactions transactions
	queue        map[int64]queueWait // by connection
	pools        track.Pools
}

// known is what the look before saw of a session.
type known struct {
	query  int64
	first  int64 // the number of the statement when it was seen first
	parts  bool  // the statement is a procedure, say, whose statements have numbers of their own
	runs   bool
	text   string
	parsed statement.Statement
	inner  statement.Class // of the statements in it, one that is left alone, if there was one
	backup bool            // the session has been seen to make a backup, which it does between its statements, too
	key    track.Key       // of its task at the look before, if it had one
	look   uint64
}

// target is what identifies a task to the server.
type target struct {
	session, query int64
	transaction    uint64 // 0: not in one, or its number means nothing
	age            int64  // of the transaction, seconds
	lock           string // the object that it keeps from others; "": none that a view of locks shows
	whole          bool   // the session itself, for that lock
	snapshot       bool   // the transaction, for what it keeps
	idle           bool
	parts          bool      // its statement has others inside, each with a number
	asked          mono.Time // when the look began
	settled        bool      // its statement, or its idling, began before transactions were read for sure: both are of one instant
}

func newBuilder(objective time.Duration, mysql bool) *builder {
	return &builder{objective: objective, mysql: mysql, tracker: track.New(resources), known: map[int64]known{}, targets: map[uint64]target{}, kinds: kinds{}, snapshots: snapshots{}, transactions: transactions{}, queue: map[int64]queueWait{}}
}

// input is what the views showed at one look.
type input struct {
	at           mono.Time
	asked        mono.Time // when the look began
	counts       counts
	sessions     []sessionRow
	transactions []transactionRow
	stale        time.Duration // since transactions were read
	fresh        bool          // they were read for this look
	proven       bool          // and are known to be of then
	seconds      bool          // how long a session has been idle is told in whole seconds
	rowWaits     []rowWait
	locks        []lockRow
	queues       []queued
	pooled       bool    // queues are those of the thread pool, else of processors
	own          []int64 // sessions of the guard
	connected    map[track.Pool]connected
	usage        func(thread int64) (procfs.Usage, bool)
	state        func(thread int64) procfs.State
	notes        []string
}

// view is an input with its indices.
type view struct {
	*input
	entries   map[int64]*track.Entry     // by session
	rows      map[int64]*sessionRow      // by session
	trx       map[int64]*transactionRow  // by session, of those that go on
	byTrx     map[uint64]*transactionRow // by transaction
	blocks    map[int64]bool             // sessions that hold what others wait for
	locked    map[int64]string           // the object of a lock that one of those holds
	whole     map[int64]string           // the same of those that hold it for their session
	lockWaits []lockWait
	old       map[int64]*snapshot // by session
	backups   map[int64]bool      // sessions that hold a lock such as a backup takes
}

// build makes the look of in.
func (b *builder) build(in *input) *track.Look {
	b.look++
	b.meter.Begin()
	b.tracker.Begin(in.at)
	clear(b.targets)
	v := b.index(in)
	b.kinds.look(in.at)
	for i := range in.sessions {
		if r := &in.sessions[i]; !slices.Contains(in.own, r.id) {
			b.remember(v, r)
		}
	}
	if b.before == 0 {
		b.counts.changed = in.counts.changed // what was done before the first look is not known
	}
	v.old = b.snapshots.look(v, b.known, b.counts.changed, b.objective)
	for i := range in.sessions {
		if r := &in.sessions[i]; !slices.Contains(in.own, r.id) {
			b.task(v, r)
		}
	}
	for id, k := range b.known {
		if k.look != b.look {
			delete(b.known, id)
		}
	}
	b.rows(v)
	b.metadata(v)
	b.flushes(v)
	b.pool(v)
	b.connections(v)
	for _, n := range in.notes {
		b.tracker.Note(n)
	}
	// The server counts at once, so what is new was done since the look before.
	done := in.counts.questions - min(b.counts.questions, in.counts.questions)
	if b.counts.questions == 0 {
		done = 0
	}
	b.counts = in.counts
	b.consume(v, done)
	b.pools.End(b.tracker, connections, float64(done))
	b.before, b.asked = in.at, in.asked
	return b.tracker.End(done)
}

func (b *builder) index(in *input) *view {
	v := &view{input: in, entries: map[int64]*track.Entry{}, rows: map[int64]*sessionRow{}, trx: map[int64]*transactionRow{}, byTrx: map[uint64]*transactionRow{},
		blocks: map[int64]bool{}, locked: map[int64]string{}, whole: map[int64]string{}, backups: map[int64]bool{}}
	for i := range in.sessions {
		v.rows[in.sessions[i].id] = &in.sessions[i]
	}
	for i := range in.transactions {
		t := &in.transactions[i]
		v.byTrx[t.id] = t
	}
	b.transactions.look(v)
	for i := range in.transactions {
		if t := &in.transactions[i]; b.snapshots.goesOn(t) || b.transactions.goesOn(v, t, b.objective) {
			v.trx[t.session] = t
		}
	}
	for _, w := range in.rowWaits {
		if t := v.byTrx[w.blocker]; t != nil && v.trx[t.session] == t {
			v.blocks[t.session] = true
		}
	}
	for i := range in.locks {
		if l := &in.locks[i]; l.granted && l.ofBackup() {
			v.backups[l.session] = true
		}
	}
	v.lockWaits = waits(in.locks, func(session int64) float64 {
		if r := v.rows[session]; r != nil {
			return r.elapsed
		}
		return 0
	})
	for _, w := range v.lockWaits {
		for _, h := range w.blockers {
			if !h.granted {
				continue
			}
			v.blocks[h.session], v.locked[h.session] = true, h.object
			if h.explicit {
				v.whole[h.session] = h.object
			}
		}
	}
	return v
}

// remember keeps the statement of a session. One that is older than the look before is the statement that was seen then, whatever its number:
// a procedure is numbered as, and shows the text of, the statement of its that runs.
func (b *builder) remember(v *view, r *sessionRow) {
	k, ok := b.known[r.id]
	same := ok && k.runs && !r.idle() && b.asked != 0 && v.at.Sub(v.millis(r.elapsed)) > v.at.Sub(b.asked)
	other := !r.idle() && r.text != "" && (!ok || k.query != r.query || k.text != r.text)
	switch {
	case same:
		k.parts = k.parts || k.query != r.query
		if other {
			k.text = r.text
			if inner := statement.Of(r.text, statement.MySQL); barOf(r, inner.Class) != culprit.NotBarred {
				k.inner = inner.Class
			}
		}
	default:
		k.first, k.parts, k.inner = r.query, false, statement.Other
		if other {
			k.parsed, k.text = statement.Of(r.text, statement.MySQL), r.text
		}
	}
	k.backup = k.backup || barOf(r, k.parsed.Class) == culprit.Backup
	k.query, k.runs, k.look = r.query, !r.idle(), b.look
	b.known[r.id] = k
}

// millis converts milliseconds of the server to an instant.
func (v *view) millis(ms float64) mono.Time {
	if !(ms >= 0 && ms < 1e13) {
		return v.at
	}
	return v.at.Add(-time.Duration(ms * float64(time.Millisecond)))
}

// numbered is the largest transaction number; larger ones are addresses that stand for
// transactions that have changed nothing, and are used again.
const numbered = 1 << 46

// task adds the task of a session, if it has one.
func (b *builder) task(v *view, r *sessionRow) {
	trx := v.trx[r.id]
	if r.idle() && trx == nil && !v.blocks[r.id] {
		return
	}
	began := v.millis(r.elapsed)
	whole, long := b.transactions.since(v, trx, began, b.objective)
	old := v.old[r.id]
	if old != nil && (trx == nil || trx.single) {
		old = nil // its snapshot ends with the statement
	}
	if old != nil {
		whole = min(whole, old.since)
	}
	k := b.known[r.id]
	goal, key := v.identity(r, &k, trx, old)
	short := v.at.Sub(began) <= b.objective
	background := false
	switch {
	case r.idle():
		began = whole
	case old != nil:
		began, background = whole, true
	case long && (short || v.blocks[r.id]):
		began, background = whole, short
	}
	if old != nil && k.key != key && v.oldFor(trx) > v.at.Sub(b.before) { // it did that in the transaction that has become old
		b.tracker.Rename(k.key, key)
	}
	k.key = key
	b.known[r.id] = k
	e := b.tracker.Task(key, began)
	v.entries[r.id] = e
	t, s := b.tracker.At(e)
	parsed := k.parsed
	*s = track.Session{Process: r.id, User: r.user, Database: r.database, Client: r.host, Statement: parsed, State: strings.ToLower(r.command)}
	if r.state != "" {
		s.State += ", " + r.state
	}
	t.Owner = v.owner(r)
	t.Kind, t.Idle, t.Background, t.Barred = parsed.Fingerprint, r.idle(), background || parsed.Class == statement.Vacuum, v.bar(r, &k)
	t.Steps = culprit.StepsOf(culprit.Statement, culprit.Session)
	if r.idle() || old != nil || long && short || k.parts {
		t.Steps = culprit.StepsOf(culprit.Session) // what it keeps does not end with a statement, of which it runs many
	}
	if e.Fresh && !r.idle() {
		b.kinds.began(parsed.Fingerprint, v.at)
	}
	if r.command == killed {
		t.Steps, t.Ending = 0, true
	}
	if trx != nil {
		t.Undo = time.Duration(min(max(trx.modified, 0), 1e12)) * time.Second / undoRate
	}
	t.Done, t.Total = r.progress()
	b.targets[t.ID] = goal
}

// owner returns who runs what a session does: the session or, where its application is known to have no other, the
// application, which may open one after the other.
func (v *view) owner(r *sessionRow) uint64 {
	if v.connected[r.pool()].size == 1 {
		return r.pool().Owner()
	}
	return uint64(r.id)
}

// identity returns what tells the task of a session from others, to the server and from look
// to look.
func (v *view) identity(r *sessionRow, k *known, trx *transactionRow, old *snapshot) (target, track.Key) {
	goal := target{session: r.id, query: r.query, parts: k.parts, asked: v.asked, lock: v.locked[r.id], idle: r.idle(), settled: v.proven && r.elapsed >= v.stale.Seconds()*1000}
	key := track.Key{Process: r.id, Work: k.first}
	if trx != nil {
		if goal.age = trx.age; trx.id < numbered {
			goal.transaction = trx.id
		}
	}
	switch {
	case v.whole[r.id] != "":
		goal.whole, goal.lock, key.Work = true, v.whole[r.id], -1
	case goal.transaction != 0:
		key.Session, key.Work = 1, int64(goal.transaction)
	case old != nil:
		key.Session, key.Work, goal.transaction, goal.snapshot = 3, old.number, trx.id, true
	case trx != nil && v.seconds && r.idle():
		goal.transaction = trx.id // all that MySQL tells of it, although the next may have that again
	}
	return goal, key
}

// bar returns why a session must not be cancelled unless the operator says so, by all that is known of it.
func (v *view) bar(r *sessionRow, k *known) culprit.Bar {
	bar := barOf(r, k.parsed.Class)
	if bar == culprit.NotBarred {
		bar = barOf(r, k.inner)
	}
	if bar == culprit.NotBarred && (k.backup || v.backups[r.id]) {
		bar = culprit.Backup
	}
	return bar
}

// barOf returns why a session must not be cancelled unless the operator says so, by what it does.
func barOf(r *sessionRow, class statement.Class) culprit.Bar {
	switch {
	case strings.HasPrefix(r.command, "Binlog Dump"), strings.HasPrefix(r.command, "Slave"), strings.EqualFold(r.command, "clone"), r.user == "system user", class == statement.Replication:
		return culprit.Replication
	case r.user == "event_scheduler":
		return culprit.Maintenance
	case class == statement.Backup, strings.HasPrefix(r.text, "SELECT /*!40001 SQL_NO_CACHE */"):
		return culprit.Backup
	case class == statement.Schema:
		return culprit.Schema
	}
	return culprit.NotBarred
}

// connections enters what sessions have to do with the pools of their applications. That something
// ended in one is told by the statement that began in it since.
func (b *builder) connections(v *view) {
	b.pools.Begin()
	inside := map[track.Pool]int{} // asleep in a transaction
	for i := range v.sessions {
		if r := &v.sessions[i]; v.connected != nil && r.idle() && v.entries[r.id] != nil && r.elapsed >= float64(track.FreeAfter/time.Millisecond) {
			inside[r.pool()]++
		}
	}
	for i := range v.sessions {
		r := &v.sessions[i]
		e := v.entries[r.id]
		if e == nil || r.command == killed {
			continue
		}
		t, _ := b.tracker.At(e)
		b.tracker.Holds(e, connections, t.Started, 1, false)
		name := r.pool()
		size, free := 1, 1
		if c, ok := v.connected[name]; ok {
			size, free = c.size, c.asleep-inside[name]
		}
		b.pools.Session(name, size, max(free, 0), e.Fresh && !r.idle(), e)
	}
}

// rows enters the sessions that wait for rows.
func (b *builder) rows(v *view) {
	for i := range v.transactions {
		t := &v.transactions[i]
		e, r := v.entries[t.session], v.rows[t.session]
		if t.waiting && e != nil && r != nil && r.elapsed >= v.stale.Seconds()*1000 { // else it was another statement that waited
			b.tracker.Waits(e, rowLock, max(v.millis(r.elapsed), v.at.Add(-time.Duration(t.waited+1)*time.Second)))
		}
	}
	for _, w := range v.roots() {
		waiter, blocker := v.byTrx[w.waiter], v.byTrx[w.blocker]
		e, h := v.entries[waiter.session], v.entries[blocker.session]
		if e == nil || h == nil || v.trx[waiter.session] != waiter || v.trx[blocker.session] != blocker { // one of them has gone on since
			continue
		}
		if !blocker.waiting {
			began, _ := b.tracker.At(h)
			b.tracker.Holds(h, rowLock, min(began.Started, b.transactions.begun(v, blocker)), 0, false)
		}
		b.tracker.Edge(e, h, rowLock)
	}
}

// roots keeps of a waiter's blockers those that do not wait themselves, if there are
// any, and else the oldest: the others stand in the same queue.
func (v *view) roots() (kept []rowWait) {
	free := map[uint64]bool{} // waiters with a blocker that does not wait
	var all []rowWait
	for _, w := range v.rowWaits {
		if v.byTrx[w.waiter] == nil || v.byTrx[w.blocker] == nil || w.waiter == w.blocker {
			continue
		}
		all = append(all, w)
		free[w.waiter] = free[w.waiter] || !v.byTrx[w.blocker].waiting
	}
	slices.SortStableFunc(all, func(a, b rowWait) int {
		return cmp.Or(cmp.Compare(a.waiter, b.waiter), cmp.Compare(a.blocker, b.blocker))
	})
	last := uint64(0)
	for _, w := range all {
		switch {
		case free[w.waiter] && v.byTrx[w.blocker].waiting:
		case !free[w.waiter] && last == w.waiter:
		default:
			kept = append(kept, w)
			last = w.waiter
		}
	}
	return kept
}

// metadata enters the sessions that wait for tables, backups and names.
func (b *builder) metadata(v *view) {
	for _, w := range v.lockWaits {
		e := v.entries[w.waiter.session]
		r := v.rows[w.waiter.session]
		if e == nil || r == nil {
			continue
		}
		b.tracker.Waits(e, w.resource, v.millis(r.elapsed))
		for _, h := range w.blockers {
			holder := v.entries[h.session]
			if holder == nil {
				continue
			}
			if h.granted {
				t, _ := b.tracker.At(holder)
				b.tracker.Holds(holder, w.resource, t.Started, 0, !excluded(h.kind, h.mode, h.mode))
			}
			b.tracker.Edge(e, holder, w.resource)
		}
	}
}

// flushes enters who waits until a table is closed: for the oldest statement that does
// not wait so itself. Locks of that kind are in no view.
func (b *builder) flushes(v *view) {
	var oldest *sessionRow
	for i := range v.sessions {
		r := &v.sessions[i]
		if !r.idle() && v.entries[r.id] != nil && !waitsForLock(r.state) && r.text != "" && (oldest == nil || r.elapsed > oldest.elapsed) {
			oldest = r
		}
	}
	for i := range v.sessions {
		r := &v.sessions[i]
		e := v.entries[r.id]
		if r.state != waitsForFlush || e == nil {
			continue
		}
		b.tracker.Waits(e, flush, v.millis(r.elapsed))
		if oldest != nil && oldest.elapsed > r.elapsed {
			holder := v.entries[oldest.id]
			t, _ := b.tracker.At(holder)
			b.tracker.Holds(holder, flush, t.Started, 0, true)
			b.tracker.Edge(e, holder, flush)
		}
	}
}

// queueNoise is how far two looks may differ about when one wait began.
const queueNoise = 10 * time.Millisecond

// queueWait is a request of a connection that waits for a thread.
type queueWait struct {
	since  mono.Time
	number int64 // of the wait
	look   uint64
	joined mono.Time // the queue; Unset while it is unread: since is when it was seen first
}

// pool enters the requests that wait for a thread, or for a processor that its thread lacks, which no process
// list shows, and the statements that have a thread of the pool.
//
// While all threads of a group work, nobody reads its connections either: until the
// server takes the group for stalled, half a second by default, requests wait in their
// sockets and in no queue.
func (b *builder) pool(v *view) {
	if len(v.queues) == 0 {
		return
	}
	for _, q := range v.queues {
		if !slices.Contains(v.own, q.connection) {
			b.awaitThread(v, q)
		}
	}
	for id, w := range b.queue {
		if w.look != b.look {
			delete(b.queue, id)
		}
	}
	if !v.pooled { // each statement has a thread of its own
		return
	}
	for i := range v.sessions {
		r := &v.sessions[i]
		// One that was killed gives its thread back soon: it is not to be cancelled again
		// while the next is.
		if e := v.entries[r.id]; e != nil && !r.idle() && r.command != killed {
			b.tracker.Holds(e, threads, v.millis(r.elapsed), 1, false)
		}
	}
}

// awaitThread enters one request that waits for a thread.
func (b *builder) awaitThread(v *view, q queued) {
	since, joined := v.at, culprit.Unset
	if !q.unread {
		joined = v.millis(q.waited / 1000)
		since = joined
	}
	w, ok := b.queue[q.connection]
	switch {
	case ok && w.look == b.look: // it is in the queue, and unread
		return
	case !ok, w.joined != culprit.Unset && (q.unread || joined.Sub(w.joined) > queueNoise): // not the wait of the look before
		w = queueWait{since: since, number: w.number + 1}
	}
	w.look, w.joined = b.look, joined
	b.queue[q.connection] = w
	e := b.tracker.Task(track.Key{Process: q.connection, Session: 2, Work: w.number}, w.since)
	_, s := b.tracker.At(e)
	s.Process, s.State = q.connection, "waits for a thread of the pool"
	if !v.pooled {
		s.State = "its request is not read yet"
		b.tracker.Waits(e, processor, w.since)
		return
	}
	b.tracker.Waits(e, threads, w.since)
}
