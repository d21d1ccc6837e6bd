package taskfile

import (
	"errors"
	"sync/atomic"
	"time"
)

// LongestKeep is for how long one call of KeepOut holds at most. A tracer takes an instant further ahead for damage.
const LongestKeep = time.Minute

// ErrFull is that as many kinds are kept out as may be at once, 64.
var ErrFull = errors.New("taskfile: 64 kinds are kept out, no more can be")

// KeepOut has the application refuse tasks of a kind, instead of beginning them, for d from now on, LongestKeep at most; it
// takes the place of an earlier call for that kind. Applications whose tracer does not ask begin them all the same. It is
// for the goroutine that calls Look.
func (e *Engine) KeepOut(kind uint64, d time.Duration) error {
	if kind == 0 {
		return errors.New("taskfile: kind 0 is of tasks that are not known, and cannot be kept out")
	}
	return e.guarded(func() error {
		live, table, now := e.file.live, e.file.kept(), e.file.watch.now()
		used := int(min(atomic.LoadUint64(&live.keeps), mostKept))
		at := used
		for i := range used {
			if table[i].kind == kind {
				at = i
				break
			}
			if until := table[i].until; (until <= now || until-now > uint64(LongestKeep)) && at == used { // what lies further ahead is damage
				at = i // and on, because a later one may be of this kind
			}
		}
		if at == mostKept {
			return ErrFull
		}
		entry := &table[at]
		if entry.kind != kind {
			atomic.StoreUint64(&entry.until, 0)
			atomic.StoreUint64(&entry.kind, kind)
		}
		atomic.StoreUint64(&entry.until, now+uint64(min(max(d, 0), LongestKeep)))
		atomic.StoreUint64(&live.keeps, uint64(max(used, at+1)))
		return nil
	})
}
