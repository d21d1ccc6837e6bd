package measure

import (
	"sync"
	"sync/atomic"
)

// reasons numbers the reasons of a run in the order they appear. Number 0 is
// "other", which also takes those beyond MaxReasons.
type reasons struct {
	mu    sync.Mutex
	known atomic.Pointer[map[string]int] // replaced, never changed
}

const otherReason = "other"

func (r *reasons) id(reason string) int {
	if known := r.known.Load(); known != nil {
		if id, ok := (*known)[reason]; ok {
			return id
		}
		if len(*known) >= MaxReasons {
			return 0
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[string]int{otherReason: 0}
	if known := r.known.Load(); known != nil {
		if id, ok := (*known)[reason]; ok {
			return id
		}
		if len(*known) >= MaxReasons {
			return 0
		}
		for name, id := range *known {
			next[name] = id
		}
	}
	id, ok := next[reason]
	if !ok {
		id = len(next)
		next[reason] = id
	}
	r.known.Store(&next)
	return id
}

// names returns the counts of t by reason, nil when all are 0.
func (r *reasons) names(t tally) map[string]uint64 {
	known := r.known.Load()
	if known == nil {
		return nil
	}
	var by map[string]uint64
	for name, id := range *known {
		if id < len(t) && t[id] > 0 {
			if by == nil {
				by = map[string]uint64{}
			}
			by[name] = t[id]
		}
	}
	return by
}

// tally counts by reason number.
type tally []uint64

func (t *tally) inc(id int) {
	for len(*t) <= id {
		*t = append(*t, 0)
	}
	(*t)[id]++
}

func (t *tally) add(u tally) {
	for len(*t) < len(u) {
		*t = append(*t, 0)
	}
	for id, n := range u {
		(*t)[id] += n
	}
}
