package mariadb

import (
	"slices"
	"time"

	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/mono"
)

// snapshot is what a transaction sees until it ends.
type snapshot struct {
	number  int64
	id      uint64    // of the transaction; an address, which the next may have again
	begun   int64     // when the transaction began, to a second
	history int64     // transactions whose old versions were kept when it was seen first, or at a look since, if that were fewer; -1 unknown
	changed uint64    // rows that had been changed by then
	made    uint64    // old versions of rows since then, if those of more transactions are kept now
	since   mono.Time // when it was there already, once it was seen to be older than the objective; else 0
	look    bool
}

// snapshots are those of the look before, by session.
type snapshots map[int64]*snapshot

// look enters the transactions of a look, and returns those that have kept one snapshot for
// longer than the objective and only read. In its first second the server does not tell for how long a transaction lasts, and its
// statements may: one that was old because of a long one is so behind short ones. Those that write may have taken none. changed is how many rows had been changed at the look before.
func (s snapshots) look(v *view, sessions map[int64]known, changed uint64, objective time.Duration) map[int64]*snapshot {
	old := map[int64]*snapshot{}
	for i := range v.transactions {
		t := &v.transactions[i]
		if !t.keeps || slices.Contains(v.own, t.session) {
			continue
		}
		k := s[t.session]
		if k == nil || k.id != t.id || k.begun != t.begun {
			number := int64(1)
			if k != nil {
				number = k.number + 1
			}
			k = &snapshot{number: number, id: t.id, begun: t.begun, changed: changed, history: v.counts.history}
			s[t.session] = k
		}
		if v.counts.history < k.history { // what was made before is removed
			k.changed, k.history = v.counts.changed, v.counts.history
		}
		k.look, k.made = true, 0
		if k.history < 0 || v.counts.history > k.history { // else nothing is kept that is not removed at once
			k.made = v.counts.changed - min(k.changed, v.counts.changed)
		}
		if t.single {
			k.since = 0 // it may be the next
		}
		if kept := v.keptFor(t, sessions[t.session].parsed.Class); kept > objective && (k.since == 0 || v.at.Add(-kept) < k.since) {
			k.since = v.at.Add(-kept)
		}
		if k.since != 0 {
			old[t.session] = k
		}
	}
	for session, k := range s {
		if !k.look {
			delete(s, session)
		}
		k.look = false
	}
	return old
}

// goesOn reports whether a transaction is one whose snapshot was old at the look before.
func (s snapshots) goesOn(t *transactionRow) bool {
	k := s[t.session]
	return k != nil && k.since != 0 && !t.single && k.id == t.id && k.begun == t.begun
}

// keptFor returns for how long a transaction has kept its snapshot at least, given what its session runs. A statement that changes rows takes none, whatever
// it has locked so far: where it is the first of its transaction, that keeps nothing.
func (v *view) keptFor(t *transactionRow, runs statement.Class) time.Duration {
	old := v.oldFor(t)
	if r := v.rows[t.session]; r != nil && !r.idle() && runs == statement.Write && old <= v.at.Sub(v.millis(r.elapsed)) {
		return 0
	}
	return old
}

// oldFor returns how old a transaction is at least. It began before the statement that its session
// runs, or before it went idle, if that was before transactions were read.
func (v *view) oldFor(t *transactionRow) time.Duration {
	sure := time.Duration(t.sure) * time.Microsecond
	if r := v.rows[t.session]; r != nil {
		if lasts := v.at.Sub(v.millis(r.elapsed)); lasts > v.stale {
			sure = max(sure, lasts)
		}
	}
	return sure
}

// keeps enters the old snapshots and returns who keeps most that nobody else does, nil if
// nobody does, for how long at most, and how many versions. Statements such as begin and end all the time have snapshots too, which are not worth an
// entry: what many of them keep would count as usual.
func (b *builder) keeps(v *view) (most *track.Entry, held time.Duration, largest uint64) {
	var made []uint64
	var entries []*track.Entry
	var of []*transactionRow
	for i := range v.transactions {
		t := &v.transactions[i]
		if k, e, r := v.old[t.session], v.entries[t.session], v.rows[t.session]; k != nil && e != nil && (!t.single || r == nil || !b.alike(v, e, r)) {
			made, entries, of = append(made, k.made), append(entries, e), append(of, t)
		}
	}
	for i, n := range track.Margins(made) {
		if n == 0 {
			continue
		}
		b.tracker.Holds(entries[i], versions, v.at.Add(-time.Duration(of[i].age)*time.Second), n, false)
		if n > largest {
			largest, most = n, entries[i]
			held = time.Duration(of[i].sure)*time.Microsecond + time.Second // the server tells when it began to a second
		}
	}
	return most, held, largest
}

// perVersion is what one old version costs a statement at most, one that waits for a page on which another statement steps over the versions
// included. In c3 the ten of a transaction cost 5 to 6 µs, and several times that where other programs had most of the processors. Nobody is blamed for what the few versions
// cannot cost that he keeps: with ten times as much, a long SELECT was, beside 300 updates of single rows a second that were slow for another reason.
const perVersion = 10 * time.Microsecond

// mostKept bounds how many versions are counted.
const mostKept = 1 << 32

// dear returns the shares of the time for which statements run, and for which they sleep, that are
// beyond what is normal while nobody keeps old versions, and that so many can cost; 0 if nobody keeps any. What they ran for while
// they lacked a processor is no part of it.
func (b *builder) dear(v *view, held time.Duration, kept uint64, running, slept int, done uint64, delay time.Duration) (runs, sleeps float64) {
	dt := v.at.Sub(b.before)
	if b.before == 0 {
		dt = 0 // since when what it shows was done is not known
	}
	b.cost.Add(dt, time.Duration(slept)*dt, running, done, held)
	if held == 0 || running == 0 || dt <= 0 {
		return 0, 0
	}
	sleeps, runs = b.cost.Beyond(time.Duration(min(kept, mostKept)) * perVersion)
	return max(runs-min(float64(delay)/float64(running)/float64(dt), 1), 0), sleeps
}
