package mariadb

import "testing"

// Who waits for a table that nobody holds in a mode that would exclude it waits for the one who may have
// upgraded its lock.
func TestWhoHasUpgradedItsLock(t *testing.T) {
	row := func(session int64, mode string, granted bool) lockRow {
		return lockRow{object: "TABLE/d/hot", kind: "TABLE", mode: mode, granted: granted, session: session}
	}
	whole := func(session int64, mode string, granted bool) lockRow {
		return lockRow{object: "TABLE LEVEL/d/hot", kind: tableLevel, mode: mode, granted: granted, session: session}
	}
	for name, tt := range map[string]struct {
		rows []lockRow
		want int64 // whom session 9 waits for, 0: nobody
	}{
		"an ALTER that copies":                   {[]lockRow{row(1, "SHARED_READ", true), row(2, "SHARED_UPGRADABLE", true), row(9, "SHARED_WRITE", false)}, 2},
		"a lock that excludes it is sure":        {[]lockRow{row(1, "SHARED_READ_ONLY", true), row(2, "SHARED_UPGRADABLE", true), row(9, "SHARED_WRITE", false)}, 1},
		"its own lock":                           {[]lockRow{row(9, "SHARED_UPGRADABLE", true), row(9, "SHARED_WRITE", false)}, 0},
		"LOCK TABLES … READ":                     {[]lockRow{row(1, "SHARED_READ", true), row(9, "SHARED_WRITE", false)}, 1},
		"beside one who reads briefly":           {[]lockRow{row(2, "SHARED_READ", true), row(12, "SHARED_READ", true), row(9, "SHARED_WRITE", false)}, 12},
		"beside one who reads for long":          {[]lockRow{row(11, "SHARED_READ", true), row(12, "SHARED_READ", true), row(9, "SHARED_WRITE", false)}, 0},
		"among brief ones":                       {[]lockRow{row(1, "SHARED_READ", true), row(2, "SHARED_READ", true), row(9, "SHARED_WRITE", false)}, 0},
		"a write behind a read of a whole table": {[]lockRow{whole(1, "READ", true), whole(9, "WRITE", false)}, 1},
		"a write beside one that locks rows":     {[]lockRow{whole(1, "WRITE ALLOW WRITE", true), whole(9, "WRITE ALLOW WRITE", false)}, 0},
		"an ALTER behind a reader":               {[]lockRow{row(1, "SHARED_READ", true), row(9, "SHARED_UPGRADABLE", false)}, 0},
	} {
		all := waits(tt.rows, func(session int64) float64 { return float64(session) }) // its number is for how long it has run
		got := int64(0)
		if len(all) == 1 && len(all[0].blockers) == 1 {
			got = all[0].blockers[0].session
		}
		if got != tt.want || len(all) != 1 {
			t.Errorf("%s: it waits for %d, want %d", name, got, tt.want)
		}
	}
}
