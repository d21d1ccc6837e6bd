package engine

import (
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/mono"
)

// Lease is until when a Share counts as it is. Whoever gives the share extends it; the hub looks at it with
// every message that goes, so that a process which was stopped meanwhile lets none through on what has long
// been given to another one. It may be used by several goroutines.
type Lease struct {
	until  atomic.Int64 // below 0: it was found to be over at ^until
	within *Lease       // nil, or one that ends this one as well
}

// NewLease returns a lease that ends at an instant.
func NewLease(until mono.Time) *Lease {
	l := &Lease{}
	l.until.Store(max(int64(until), 0))
	return l
}

// Part returns a lease that ends at an instant, or with l if that ends earlier.
func (l *Lease) Part(until mono.Time) *Lease {
	part := NewLease(until)
	part.within = l
	return part
}

// Extend has the lease end at another instant, unless it was found to be over: it reports false then, and
// the share must be given anew.
func (l *Lease) Extend(until mono.Time) bool {
	for {
		was := l.until.Load()
		if was < 0 {
			return false
		}
		if l.until.CompareAndSwap(was, max(int64(until), 0)) {
			return true
		}
	}
}

// Over reports whether the lease is over, for good then, and when it ended.
func (l *Lease) Over(now mono.Time) (ended mono.Time, over bool) {
	ended, over = l.past(now)
	if l.within != nil {
		if e, o := l.within.past(now); o && !(over && ended < e) {
			return e, true
		}
	}
	return ended, over
}

// past is Over of the lease by itself.
func (l *Lease) past(now mono.Time) (ended mono.Time, over bool) {
	for {
		until := l.until.Load()
		switch {
		case until < 0:
			return mono.Time(^until), true
		case mono.Time(until) > now:
			return 0, false
		case l.until.CompareAndSwap(until, ^until):
			return mono.Time(until), true
		}
	}
}

// lapse lets the floor count where the lease of the lane's share is over. What was due by then goes, what waits
// longer goes as fast as the floor lets it. The lock is held.
func (l *lane) lapse(now mono.Time) {
	r := l.rule
	if r == nil || r.lease == nil || !(r.floor.Rate > 0) {
		return
	}
	ended, over := r.lease.Over(now)
	if !over {
		return
	}
	r.lease = nil
	l.change(r, r.floor.Rate, r.floor.Burst, ended)
}
