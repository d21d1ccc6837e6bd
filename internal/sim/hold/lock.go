package hold

import (
	"github.com/spillgate/spillgate/internal/culprit"
)

// lock is a lock or a set of slots, first come, first served: whoever comes later
// waits behind those that wait, even if the holders would let it pass.
type lock struct {
	holders int
	shared  bool // the holders share
	queue   []int32
}

// acquire takes resource r and reports whether it got it; else the task waits.
func (a *app) acquire(n int32, r int, shared bool) bool {
	l, c := &a.locks[r], &a.tasks[n].cells[r]
	c.shared = shared
	if len(l.queue) == 0 && a.fits(r, shared) {
		a.grant(n, r)
		return true
	}
	c.waits++
	c.waitingSince = a.engine.Now()
	a.tasks[n].state = waiting
	l.queue = append(l.queue, n)
	return false
}

// fits reports whether another holder fits in.
func (a *app) fits(r int, shared bool) bool {
	l := &a.locks[r]
	if a.cfg.Resources[r].Kind == culprit.Queue {
		return l.holders < int(a.cfg.Resources[r].Slots)
	}
	return l.holders == 0 || l.shared && shared
}

func (a *app) grant(n int32, r int) {
	l, c := &a.locks[r], &a.tasks[n].cells[r]
	l.holders++
	l.shared = c.shared
	if c.waitingSince != culprit.Unset {
		c.waitTime += a.engine.Now().Sub(c.waitingSince)
		c.waitingSince = culprit.Unset
	}
	c.gets++
	c.heldSince, c.used = a.engine.Now(), 1
	if a.cfg.Resources[r].History {
		a.pools[r].snapshots++
	}
}

// release gives resource r back and wakes those that fit in.
func (a *app) release(n int32, r int) {
	c := &a.tasks[n].cells[r]
	if c.heldSince == culprit.Unset {
		return
	}
	c.frees++
	c.holdTime += a.engine.Now().Sub(c.heldSince)
	c.heldSince, c.used = culprit.Unset, 0
	if a.cfg.Resources[r].History {
		a.pools[r].forget()
	}
	a.locks[r].holders--
	a.wake(r)
}

// wake grants to the first of the queue as long as they fit in.
func (a *app) wake(r int) {
	l := &a.locks[r]
	for len(l.queue) > 0 {
		n := l.queue[0]
		if !a.fits(r, a.tasks[n].cells[r].shared) {
			return
		}
		l.queue = append(l.queue[:0], l.queue[1:]...)
		a.grant(n, r)
		a.tasks[n].state = running
		a.engine.At(a.engine.Now(), event{what: timeUp, n: n, gen: a.tasks[n].gen})
	}
}

// leave takes a task out of all that it has to do with resource r.
func (a *app) leave(n int32, r int) {
	switch a.cfg.Resources[r].Kind {
	case culprit.System:
		a.shareLeave(n, r)
	case culprit.Memory:
		a.pools[r].vacate(a.tasks[n].cells[r].used)
		a.tasks[n].cells[r].used = 0
		if a.cfg.Resources[r].History {
			a.release(n, r)
		}
	default:
		l := &a.locks[r]
		for i, w := range l.queue {
			if w == n {
				l.queue = append(l.queue[:i], l.queue[i+1:]...)
				a.tasks[n].cells[r].waitingSince = culprit.Unset
				a.wake(r) // those behind may fit in
				break
			}
		}
		a.release(n, r)
	}
}
