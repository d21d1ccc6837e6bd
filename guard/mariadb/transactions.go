package mariadb

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// transactions tell, by number, when a transaction was seen first: the server tells when one began to a
// second, and the guard looks more often. Those that have changed nothing have no number of their own.
type transactions map[uint64]mono.Time

// look enters the transactions of a look and forgets those that are gone.
func (all transactions) look(v *view) {
	for id := range all {
		if v.byTrx[id] == nil {
			delete(all, id)
		}
	}
	for i := range v.transactions {
		if id := v.transactions[i].id; id < numbered && all[id] == 0 {
			all[id] = v.at
		}
	}
}

// since returns when a session began what it does, with its transaction if it is in one, given when its
// statement began; and whether that was for sure more than an objective ago, and not by its statement alone.
func (all transactions) since(v *view, t *transactionRow, statement mono.Time, objective time.Duration) (whole mono.Time, long bool) {
	if t == nil {
		return statement, v.at.Sub(statement) > objective+time.Second
	}
	told := v.at.Add(-time.Duration(t.age) * time.Second)
	whole, long = min(statement, told), v.at.Sub(min(statement, told)) > objective+time.Second
	if seen := all[t.id]; seen != 0 && seen < statement {
		whole, long = min(whole, seen), long || v.at.Sub(seen) > objective
	}
	return whole, long
}
