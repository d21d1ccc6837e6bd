package mariadb

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/guard/track"
)

// excludes says which requests on one object exclude which granted or earlier ones, as
// the servers' manuals describe metadata locks. What is not named excludes all.
var excludes = map[string][]string{
	"SHARED":                {"EXCLUSIVE"},
	"SHARED_HIGH_PRIO":      {"EXCLUSIVE"},
	"SHARED_READ":           {"SHARED_NO_READ_WRITE", "EXCLUSIVE"},
	"SHARED_WRITE":          {"SHARED_READ_ONLY", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"},
	"SHARED_WRITE_LOW_PRIO": {"SHARED_READ_ONLY", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"},
	"SHARED_UPGRADABLE":     {"SHARED_UPGRADABLE", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"},
	"SHARED_READ_ONLY":      {"SHARED_WRITE", "SHARED_WRITE_LOW_PRIO", "SHARED_NO_READ_WRITE", "EXCLUSIVE"},
	"SHARED_NO_WRITE":       {"SHARED_WRITE", "SHARED_WRITE_LOW_PRIO", "SHARED_UPGRADABLE", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"},
	"SHARED_NO_READ_WRITE":  {"SHARED_READ", "SHARED_WRITE", "SHARED_WRITE_LOW_PRIO", "SHARED_UPGRADABLE", "SHARED_READ_ONLY", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"},
	"INTENTION_EXCLUSIVE":   {"SHARED", "EXCLUSIVE"},
}

// together are the requests of MariaDB's BACKUP object that go together: what statements
// take. The others are stages of a backup and exclude those.
var together = []string{"BACKUP_DML", "BACKUP_TRANS_DML", "BACKUP_SYS_DML", "BACKUP_DDL", "BACKUP_ALTER_COPY", "BACKUP_COMMIT"}

// excluded reports whether two requests for an object of a kind cannot both be granted.
func excluded(kind, a, b string) bool {
	switch kind {
	case tableLevel:
		return alone(a) || alone(b)
	case "BACKUP":
		return !slices.Contains(together, a) || !slices.Contains(together, b)
	}
	if (kind == "GLOBAL" || kind == "SCHEMA" || kind == "COMMIT") && a == "SHARED" {
		return b == "INTENTION_EXCLUSIVE" || b == "EXCLUSIVE"
	}
	list, known := excludes[a]
	return !known || slices.Contains(list, b)
}

// ofBackup reports whether a lock is one that statements of backups take, FLUSH TABLES WITH READ LOCK for one, and no other.
func (r *lockRow) ofBackup() bool {
	switch r.kind {
	case "BACKUP":
		return !slices.Contains(together, r.mode)
	case "GLOBAL", "COMMIT", "BACKUP LOCK":
		return r.mode == "SHARED"
	}
	return false
}

// alone reports whether a mode of a lock of a whole table goes together with no other: that of a write, but where the rows are
// locked.
func alone(mode string) bool {
	return !strings.HasPrefix(mode, "READ") && mode != "WRITE ALLOW WRITE"
}

// lockWait is a session that waits for a metadata lock, and the sessions that block it.
type lockWait struct {
	waiter   *lockRow
	blockers []*lockRow
	resource int
}

// mostEdges bounds the edges of a look.
const mostEdges = 20_000

// waits returns who waits for whom: for those who were granted what excludes the request,
// or, where nobody was, for the first earlier request that does. since tells for how long
// the statement of a session has run, in milliseconds: it is taken for the wait.
func waits(rows []lockRow, since func(session int64) float64) (all []lockWait) {
	edges := 0
	for _, group := range track.Queues(rows, func(r *lockRow) string { return r.object }) {
		if !slices.ContainsFunc(group, func(r *lockRow) bool { return !r.granted }) {
			continue
		}
		slices.SortStableFunc(group, func(a, b *lockRow) int {
			if a.granted != b.granted {
				return cmp.Compare(b2i(b.granted), b2i(a.granted))
			}
			return cmp.Compare(since(b.session), since(a.session))
		})
		for i, w := range group {
			if w.granted || edges > mostEdges {
				continue
			}
			one := lockWait{waiter: w, resource: resourceOf(w.kind)}
			one.blockers = track.Blockers(group[:i], func(h *lockRow) bool {
				return h.session != w.session && excluded(w.kind, w.mode, h.mode)
			}, func(h *lockRow) bool { return h.granted })
			if len(one.blockers) == 0 {
				one.blockers = upgraded(group[:i], w)
			}
			if len(one.blockers) == 0 {
				one.blockers = reader(group[:i], w, since)
			}
			edges += len(one.blockers)
			all = append(all, one)
		}
	}
	return all
}

// upgraded returns who may hold what w waits for in a stronger mode than its row tells: the view shows the mode
// in which a lock was taken, also when a change of a table has upgraded it since, to keep out writers while it copies.
// At most one session at a time has such a lock.
func upgraded(front []*lockRow, w *lockRow) []*lockRow {
	for _, h := range front {
		if h.granted && h.session != w.session && slices.Contains([]string{"SHARED_UPGRADABLE", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE"}, h.mode) {
			return []*lockRow{h}
		}
	}
	return nil
}

// reader returns who may keep writers from a table by LOCK TABLES … READ: the view shows its lock in the mode of a plain
// read, as it was taken. It is the one who has read for as long as the writer has waited, or, if nobody has, the one who reads at
// all; if there are several of either, nobody is known.
func reader(front []*lockRow, w *lockRow, since func(session int64) float64) []*lockRow {
	if !strings.HasPrefix(w.mode, "SHARED_WRITE") {
		return nil
	}
	var all, long []*lockRow
	for _, h := range front {
		if !h.granted || h.session == w.session || h.mode != "SHARED_READ" {
			continue
		}
		if all = append(all, h); since(h.session) >= since(w.session) {
			long = append(long, h)
		}
	}
	switch {
	case len(long) == 1:
		return long
	case len(long) == 0 && len(all) == 1:
		return all
	}
	return nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// waitsForLock reports whether a state of a session is a wait that metadata_locks, or the
// rule for flushes, explains.
func waitsForLock(state string) bool {
	return state == "User lock" || strings.HasPrefix(state, "Waiting for ") && (strings.HasSuffix(state, "lock") || strings.HasSuffix(state, "flush"))
}

// waitForTable returns the sessions that wait for a lock of a whole table.
func waitForTable(sessions []sessionRow) map[int64]bool {
	waiting := map[int64]bool{}
	for i := range sessions {
		if sessions[i].state == "Waiting for table level lock" {
			waiting[sessions[i].id] = true
		}
	}
	return waiting
}

// waitsForFlush is the state of a thread that waits until a table is closed.
const waitsForFlush = "Waiting for table flush"
