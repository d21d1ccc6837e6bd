package culprit

import (
	"cmp"
	"slices"
	"time"
)

// Stake is what one task waits for, or holds, at the instant of a sample.
type Stake struct {
	// Task and Resource are indices into the sample's slices.
	Task, Resource int32
	// Blocker is the index of a task that a waiting one is behind, -1 if the source
	// knows none.
	Blocker int32
	// For is how long it has waited or held.
	For time.Duration
}

// Waiting returns the tasks that wait at present, at most limit of them, longest first. It is
// for people to read, and decides nothing.
func (s *Sample) Waiting(limit int) []Stake {
	all := s.present(limit, func(h *Hold) bool { return h.WaitingSince != Unset }, func(h *Hold) time.Duration { return s.At.Sub(h.WaitingSince) })
	for i := range all {
		p := &all[i]
		if e := slices.IndexFunc(s.Edges, func(e Edge) bool { return e.Waiter == p.Task && e.Resource == p.Resource }); e >= 0 {
			p.Blocker = s.Edges[e].Blocker
		}
	}
	return all
}

// Holding returns who holds something at present, at most limit of them, longest
// first.
func (s *Sample) Holding(limit int) []Stake {
	return s.present(limit, func(h *Hold) bool { return h.HeldSince != Unset }, func(h *Hold) time.Duration { return s.At.Sub(h.HeldSince) })
}

func (s *Sample) present(limit int, is func(*Hold) bool, age func(*Hold) time.Duration) (all []Stake) {
	for i := range s.Holds {
		if h := &s.Holds[i]; is(h) {
			all = append(all, Stake{Task: h.Task, Resource: h.Resource, Blocker: -1, For: max(age(h), 0)})
		}
	}
	slices.SortFunc(all, func(a, b Stake) int {
		return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Resource, b.Resource))
	})
	return all[:min(limit, len(all))]
}
