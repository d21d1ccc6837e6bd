package mesh

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// resource is what calls at one process contend for.
type resource struct {
	process  *process
	number   int32
	capacity int32
	inUse    int32
	batch    bool // units are given only while none is taken
	queue    queue
	armed    mono.Time // the next expire, mono.Never if none is due
	// use is the time for which units were taken, by work and by holds.
	use time.Duration
	// waited is the queueing delay of those granted since the last look.
	waited  time.Duration
	granted int
	// taken are the units in use, in no order, and since when the node has not been told
	// of it, where it wants to know.
	taken []unit
}

// unit is one unit in use.
type unit struct {
	call   *call
	untold mono.Time
}

// hold is one unit of a resource that a call keeps.
type hold struct {
	resource *resource
	since    mono.Time
	next     *hold
}

// acquire takes a unit for c, or lets it wait. cost is how long c is expected to
// keep it, in nanoseconds.
func (w *World) acquire(c *call, r *resource, cost float64) bool {
	if !w.cfg.Control.ordered() && r.idle() && r.queue.len() == 0 {
		r.inUse++
		r.granted++
		return true
	}
	c.state, c.waits, c.queuedAt = inQueue, r, w.Now()
	w.fillTask(c, cost)
	if c.measured {
		c.span.BeginWait(w.Now())
	}
	r.queue.push(w.Now(), c)
	w.serve(r)
	return false
}

// free gives a unit back that c took at since, and serves waiting calls.
func (w *World) free(c *call, r *resource, since mono.Time) {
	r.inUse--
	r.use += w.Now().Sub(since)
	for i := range r.taken {
		if u := &r.taken[i]; u.call == c {
			u.tell(w.Now(), r)
			last := len(r.taken) - 1
			r.taken[i], r.taken[last] = r.taken[last], unit{}
			r.taken = r.taken[:last]
			break
		}
	}
	w.serve(r)
}

// took notes that c uses a unit from now on.
func (r *resource) took(now mono.Time, c *call) {
	if r.process.watched {
		r.taken = append(r.taken, unit{c, now})
	}
}

// tell tells the node of uses that go on.
func (r *resource) tell(now mono.Time) {
	for i := range r.taken {
		r.taken[i].tell(now, r)
	}
}

func (u *unit) tell(now mono.Time, r *resource) {
	r.process.door.OnUse(now, u.call.label, int(r.number), now.Sub(u.untold))
	u.untold = now
}

// serve gives free units to chores, then to waiting calls.
func (w *World) serve(r *resource) {
	for p := r.process; r.number == 0 && p.chores.len() > 0 && r.inUse < r.capacity && p.pace.stops == 0; {
		w.beginChore(p, p.chores.pop())
	}
	for idle := r.idle(); idle && r.inUse < r.capacity; {
		c, drop := r.queue.pop(w.Now())
		if c == nil {
			return
		}
		w.leaveQueue(c)
		if drop {
			w.hopeless(c)
			continue
		}
		r.inUse++
		r.granted++
		r.waited += w.Now().Sub(c.queuedAt)
		w.granted(c, r)
	}
	w.armQueue(r)
}

// idle reports whether a unit may be given now.
func (r *resource) idle() bool { return r.inUse < r.capacity && !(r.batch && r.inUse > 0) }

// leaveQueue ends the wait of c, which is out of its queue.
func (w *World) leaveQueue(c *call) {
	c.waits = nil
	if c.measured {
		c.span.EndWait(w.Now())
	}
}

// expire drops those who wait and can no longer be in time: while all units are
// busy nobody else would look.
func (w *World) expire(r *resource) {
	for c := r.queue.expired(w.Now()); c != nil; c = r.queue.expired(w.Now()) {
		w.leaveQueue(c)
		w.hopeless(c)
	}
	w.armQueue(r)
}

// armQueue schedules expire for when a request has to be dropped.
func (w *World) armQueue(r *resource) {
	if at := r.queue.nextWake(); at < r.armed {
		r.armed = at
		w.engine.At(max(at, w.Now()+1), event{wakeQueue, r.process.id, r.number})
	}
}

// granted lets c go on with a unit of r, which it waited for.
func (w *World) granted(c *call, r *resource) {
	if s := &w.program.steps[c.pc]; s.kind == stepWork {
		w.beginWork(c, s)
		return
	}
	// A hold is charged its estimate: its length is that of the calls in it.
	settle(r.queue, c, c.task.Cost)
	w.keep(c, r)
	c.pc++
	c.state = resuming
	w.engine.AlongLane(laneNow, w.Now(), event{resume, c.id, c.gen})
}

// delay returns the mean queueing delay since the last look, or the age of the
// oldest if nobody got through.
func (r *resource) delay(now mono.Time) time.Duration {
	var d time.Duration
	if r.granted > 0 {
		d = r.waited / time.Duration(r.granted)
	} else if r.queue.len() > 0 {
		d = now.Sub(r.queue.oldest())
	}
	r.waited, r.granted = 0, 0
	return d
}

// keep notes a hold.
func (w *World) keep(c *call, r *resource) {
	h := w.freeHolds
	if h == nil {
		h = &hold{}
	} else {
		w.freeHolds = h.next
	}
	*h = hold{r, w.Now(), c.holds}
	c.holds = h
	r.took(w.Now(), c)
}

// letGo ends c's newest hold of r.
func (w *World) letGo(c *call, r *resource) {
	for at := &c.holds; *at != nil; at = &(*at).next {
		if h := *at; h.resource == r {
			*at = h.next
			since := h.since
			h.next, w.freeHolds = w.freeHolds, h
			w.free(c, r, since)
			return
		}
	}
}
