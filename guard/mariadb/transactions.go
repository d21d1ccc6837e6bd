package mariadb

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// transactions tell, by number, what was seen of one: the server tells when it began to a
// second, and the guard looks more often. Those that have changed nothing have no number of their own.
type transactions map[uint64]seen

// seen is when a transaction was seen first, a statement that its session ran, or had run, in it, what that ran at the last look, in it or
// after it, and whether the transaction is known to have several statements.
type seen struct {
	at          mono.Time
	query, last int64
	many        bool
}

// in enters a statement of the transaction.
func (k *seen) in(query int64) {
	switch {
	case k.query == 0:
		k.query = query
	case query != 0 && query != k.query:
		k.many = true
	}
}

// look enters the transactions of a look and forgets those that are gone.
func (all transactions) look(v *view) {
	for id := range all {
		if v.byTrx[id] == nil {
			delete(all, id)
		}
	}
	for i := range v.transactions {
		t := &v.transactions[i]
		if t.id >= numbered {
			continue
		}
		k, known := all[t.id]
		if !known {
			k.at = v.at
		}
		if v.fresh {
			k.in(k.last) // it is still there, so that was in it
		}
		if k.last = 0; v.rows[t.session] != nil {
			r := v.rows[t.session]
			if k.last = r.query; v.lasts(r) {
				k.in(r.query)
			}
		}
		all[t.id] = k
	}
}

// lasts reports whether what a session does has lasted since transactions were read, so that they tell of it. MySQL tells
// since when one is idle to a second.
func (v *view) lasts(r *sessionRow) bool {
	lasts := time.Duration(r.elapsed * float64(time.Millisecond))
	if v.seconds && r.idle() {
		lasts += time.Second
	}
	return lasts >= v.stale
}

// goesOn reports whether the session of a transaction is taken to be in it still. If it has begun another statement since transactions were
// read, or gone idle, that may be after the transaction: not if it has run several statements in it before, or keeps a snapshot for longer than an objective.
func (all transactions) goesOn(v *view, t *transactionRow, objective time.Duration) bool {
	r := v.rows[t.session]
	return r != nil && (v.lasts(r) || t.id < numbered && all[t.id].many || !t.single && v.oldFor(t) > objective)
}

// begun returns since when a transaction has lasted for sure.
func (all transactions) begun(v *view, t *transactionRow) mono.Time {
	at := v.at.Add(-max(v.oldFor(t), 0))
	if k, known := all[t.id]; known {
		at = min(at, k.at)
	}
	return at
}

// since returns when a session began what it does, with its transaction if it is in one, given when its
// statement began; and whether that was more than an objective ago, and not by its statement alone.
func (all transactions) since(v *view, t *transactionRow, statement mono.Time, objective time.Duration) (whole mono.Time, long bool) {
	if t == nil {
		return statement, v.at.Sub(statement) > objective+time.Second
	}
	whole = min(statement, all.begun(v, t))
	return whole, v.at.Sub(whole) > objective
}
