package taskfile

import "sync/atomic"

// Reclaim frees what dead processes left behind and returns how many slots
// that were. Once a second is enough: Look leaves the tasks of the dead out by
// itself. It reads a file of /proc for each process that owns a slot, of 256
// processes at most; the others' turn comes with the next calls.
func (e *Engine) Reclaim() (freed int, err error) {
	err = e.guarded(func() error {
		checks := 0
		freed = e.file.reclaim(func(owner Token) bool {
			if checks++; checks > mostChecks {
				return true // not known: a later call asks
			}
			return owner.alive()
		})
		return nil
	})
	return freed, err
}

func (f *File) reclaim(alive func(Token) bool) (freed int) {
	known := map[uint64]bool{uint64(f.self): true}
	lives := func(owner uint64) bool {
		v, ok := known[owner]
		if !ok {
			v = alive(Token(owner))
			known[owner] = v
		}
		return v
	}
	first := int(f.next.Add(1)) // where a search begins, so that all get their turn
	for k := range f.geo.Slots {
		w := f.words((first + k) % f.geo.Slots)
		if owner := atomic.LoadUint64(&w.owner); owner != 0 && !lives(owner) && f.free(w, owner) {
			freed++
		}
	}
	for _, table := range [][]nameWords{f.resourceNames(), f.kindNames()} {
		for i := range table {
			state := &table[i].state
			if owner := atomic.LoadUint64(state); owner != 0 && owner != nameReady && !lives(owner) {
				atomic.CompareAndSwapUint64(state, owner, 0)
			}
		}
	}
	return freed
}

// free takes a slot from a dead owner. Whoever dies in here leaves a slot of
// his own behind, which the next engine frees.
func (f *File) free(w *slotWords, owner uint64) bool {
	if !atomic.CompareAndSwapUint64(&w.owner, owner, uint64(f.self)) {
		return false
	}
	if sequence := atomic.LoadUint64(&w.sequence); sequence%2 == 1 {
		atomic.StoreUint64(&w.sequence, sequence+1)
	}
	atomic.StoreUint64(&w.owner, 0)
	return true
}
