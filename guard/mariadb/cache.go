package mariadb

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// The views of InnoDB's transactions and locks show what they showed before while they are read
// more often than every innodbIdle, by all readers together. A look that comes up to innodbWait too early waits.
const (
	innodbIdle = 100 * time.Millisecond
	innodbWait = 20 * time.Millisecond
	// proveEvery is how often it is proved that they show something new.
	proveEvery = time.Second
	// sharedFor is for how long others are taken to read them as well.
	sharedFor = 10 * time.Second
	// sharedPause bounds by how much longer than innodbIdle the guard leaves them alone then, at random: two guards make room for each other.
	sharedPause = 200 * time.Millisecond
)

// errShared is that the views do not show anything new.
var errShared = errors.New("INNODB_TRX shows what it showed before: others read it more than ten times a second, such as another guard")

// cache is what is known of the views: when they were read last, and what they showed is of. A
// transaction of the guard's own proves that they show something new: the statement that asks is in the answer.
type cache struct {
	read   time.Time
	shown  time.Time // what they showed last is not older
	proven bool      // that is proved
	proved time.Time
	shared time.Time     // when others were last found to read them
	pause  time.Duration // beyond innodbIdle
	mark   uint64
}

// due returns how long to wait before they may show something new.
func (c *cache) due() time.Duration {
	return innodbIdle + time.Millisecond + c.pause - time.Since(c.read)
}

// contended reports whether others read the views, lately.
func (c *cache) contended() bool { return time.Since(c.shared) < sharedFor }

// marked reads the views within a transaction of the guard's own, and reports whether they show what there is. read has the given mark in its
// statement, and returns whether the view shows that.
func (c *cache) marked(ctx context.Context, by *connection, read func(mark uint64) (own bool, err error)) (shown bool, err error) {
	if _, err := by.conn.ExecContext(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil { // of none, at READ UNCOMMITTED
		return false, err
	}
	if c.mark++; c.mark == 1 {
		c.mark = rand.Uint64N(1 << 62) // not that of another guard, or of a connection before
	}
	shown, err = read(c.mark)
	if err == nil {
		_, err = by.conn.ExecContext(ctx, "COMMIT")
	}
	c.entered(shown)
	return shown && err == nil, err
}

// entered notes that the views were read, and whether they were proved to show something new.
func (c *cache) entered(shown bool) {
	if c.read, c.pause = time.Now(), 0; shown {
		c.proved = c.read
	} else {
		c.shared = c.read
	}
	if c.contended() {
		c.pause = rand.N(sharedPause)
	}
}

// transactions reads the transactions if that may show something new, and reports whether it did.
func (s *Source) transactions(ctx context.Context) (fresh bool, err error) {
	in, c := &s.in, &s.cache
	left := c.due()
	if left > innodbWait {
		return false, nil
	}
	time.Sleep(left)
	began := time.Now()
	all := s.spare[:0]
	prove := c.contended() || began.Sub(c.proved) >= proveEvery || slices.ContainsFunc(in.transactions, func(t transactionRow) bool { return t.waiting })
	shown := true
	if prove {
		s.asked += 2
		shown, err = c.marked(ctx, s.looks, func(mark uint64) (own bool, err error) {
			all, err = readTransactions(ctx, s.looks.conn, all, mark)
			return slices.ContainsFunc(all, func(t transactionRow) bool { return t.own }), err
		})
	} else {
		all, err = readTransactions(ctx, s.looks.conn, all, 0)
		c.read, c.pause = time.Now(), 0
	}
	if s.asked++; err != nil || !shown {
		return false, err
	}
	c.shown, c.proven = began, prove
	s.spare, in.transactions = in.transactions, slices.DeleteFunc(all, func(t transactionRow) bool { return slices.Contains([]int64{s.looks.id, s.acts.id}, t.session) })
	return true, nil
}
