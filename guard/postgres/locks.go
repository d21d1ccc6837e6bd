package postgres

import (
	"slices"
	"time"

	"github.com/spillgate/spillgate/guard/track"
)

// conflicts tells which lock modes exclude each other, as the manual's table of
// table-level locks does; row and advisory locks use the same modes.
//
//	bit 0 AccessShare, 1 RowShare, 2 RowExclusive, 3 ShareUpdateExclusive,
//	4 Share, 5 ShareRowExclusive, 6 Exclusive, 7 AccessExclusive
var conflicts = [8]uint8{
	1 << 7,
	1<<6 | 1<<7,
	1<<4 | 1<<5 | 1<<6 | 1<<7,
	1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7,
	1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7,
	1<<2 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7,
	0xff &^ 1,
	0xff,
}

// modeNumber returns the bit of a mode, 7 for one that is not known: it excludes
// all.
func modeNumber(mode string) int {
	for i, name := range [...]string{"AccessShareLock", "RowShareLock", "RowExclusiveLock", "ShareUpdateExclusiveLock", "ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"} {
		if name == mode {
			return i
		}
	}
	return 7
}

func conflict(a, b string) bool { return conflicts[modeNumber(a)]>>modeNumber(b)&1 == 1 }

// shared reports whether several sessions may hold a lock in this mode.
func shared(mode string) bool { return !conflict(mode, mode) }

// mostEdges bounds the edges of a look: the oldest waiters have theirs.
const mostEdges = 20_000

// queue puts those who wait in the order in which their statements began, which it takes for the begin of the wait: before version 14 the
// server does not tell since when they wait, nor who is first.
func queue(locks []lockRow, sessions []activityRow) {
	began := map[int64]time.Time{}
	for i := range sessions {
		began[sessions[i].pid] = sessions[i].statement
	}
	for i := range locks {
		if l := &locks[i]; !l.granted && l.since.IsZero() {
			l.since = began[l.pid]
		}
	}
	slices.SortStableFunc(locks, func(a, b lockRow) int {
		switch {
		case a.granted && b.granted:
			return 0
		case a.granted:
			return -1
		case b.granted:
			return 1
		}
		return a.since.Compare(b.since)
	})
}

// lockWait is a session that waits for a lock, and the sessions that block it.
type lockWait struct {
	waiter   *lockRow
	blockers []*lockRow
	resource int
	since    time.Time
}

// waits returns who waits for whom: for those who hold what conflicts, or, where
// nobody does, for the first earlier request that does. rows must be in the order
// of locksSQL. same reports whether two processes work together.
func waits(rows []lockRow, same func(a, b int64) bool) []lockWait {
	var all []lockWait
	edges := 0
	for _, group := range track.Queues(rows, func(r *lockRow) string { return r.group }) {
		for i, w := range group {
			if w.granted || edges >= mostEdges {
				continue
			}
			one := lockWait{waiter: w, resource: resourceOf(w.kind), since: w.since}
			one.blockers = track.Blockers(group[:i], func(h *lockRow) bool {
				return conflict(w.mode, h.mode) && (h.pid != w.pid || h.pid == 0) && !same(h.pid, w.pid)
			}, func(h *lockRow) bool { return h.granted })
			edges += len(one.blockers)
			all = append(all, one)
		}
	}
	return all
}
