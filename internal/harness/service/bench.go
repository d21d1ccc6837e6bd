package service

import "time"

// Bench is a set of workers that the caller hands out. What waited starts at the instant at which
// its worker became free, however late the news of that came: late timers lengthen a
// request's own time, and take nothing from the capacity. Not safe for concurrent use.
type Bench struct {
	free []time.Time // since when each idle worker is
}

// NewBench returns k idle workers.
func NewBench(k int) Bench { return Bench{free: make([]time.Time, k)} }

// Take takes the worker that has been idle for longest, for a request that came at an instant,
// and returns when its work starts. There must be an idle one.
func (b *Bench) Take(arrived time.Time) (start time.Time) {
	first := 0
	for i := range b.free {
		if b.free[i].Before(b.free[first]) {
			first = i
		}
	}
	start = arrived
	if b.free[first].After(arrived) {
		start = b.free[first]
	}
	b.free = append(b.free[:first], b.free[first+1:]...)
	return start
}

// Give gives a worker back that is, or will be, idle from an instant on.
func (b *Bench) Give(from time.Time) { b.free = append(b.free, from) }
