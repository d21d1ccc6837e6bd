package admission

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// hold keeps requests that the delay AQM would refuse, while what delays them may be one
// request that is about to be cancelled. Refusing them frees nothing then.
//
//	           nothing has ended for too long,
//	           and one would be refused                OnCulprit
//	as always ────────────────────────────▶ in doubt ────────────▶ named
//	    ▲      the queue is empty, or            │                   │ Config.Hold after the last
//	    │      Config.Hold is used up            │                   │ suspicion, or after a cancel
//	    └────────────────────────────────────────┴───────────────────┘ once the queue is empty
//
// The gate's own evidence opens it, and what an engine suspects only keeps it open: in an
// overload requests go on to end, so it stays closed whatever is suspected. Doubt may take
// a tenth of the time, and mostHold bounds the whole. Meanwhile requests wait for as long
// as their callers do, and neither the credits nor what is known of the service follow
// what is seen: when it closes they are what they were.
type hold struct {
	length  time.Duration // Config.Hold; 0: never
	open    bool
	named   bool
	found   bool          // and was cancelled
	resumed mono.Time     // the first departure after that; mono.Never: not yet
	backlog int           // requests that waited then
	left    time.Duration // that doubt may take, when it closed last; below 0 after a suspicion
	filled  mono.Time     // up to when left has grown
	began   mono.Time
	until   mono.Time // no request that came before is a sample of anything
	hazard  float64   // departures that should have been since the last
	counted mono.Time // up to when
}

const (
	// improbable is how many departures must be missing, at the rate at which they come
	// while as many run: at random so many are missing once in a million times, e^-14.
	improbable = 14
	// overdue is for how many residences nothing must have left: requests that take equally
	// long and began together leave together.
	overdue = 2
	// lull is the part of the objective for which nothing must have left: shorter ones are
	// over before they matter.
	lull = 1.0 / 8
	// mostHold is for how many objectives requests are kept at most.
	mostHold = 10
	// suspects is for how many times Config.Hold a suspicion alone keeps them.
	suspects = 2
	// drains is after how many objectives the victims must be fewer than they were when the
	// culprit let go.
	drains = 2
	// seldom is how many times as long as doubt takes passes before it may take as long again.
	seldom = 10
)

func newHold(length time.Duration) hold {
	return hold{length: length, left: length, until: math.MinInt64}
}

// keeps reports whether a request that would be refused at now, for its delay, waits on.
func (g *Gate) keeps(now mono.Time) bool {
	if g.watch(now); !g.hold.open && g.stalled(now) {
		g.keep(now)
	}
	return g.hold.open
}

// watch closes the hold when its time is over.
func (g *Gate) watch(now mono.Time) {
	if h := &g.hold; h.open && now >= h.until {
		g.release(h.until)
	}
}

// keep opens the hold, if doubt may take half of its time again: opened for an instant at
// each departure of a server that has become slow, it would keep that from being learned.
func (g *Gate) keep(now mono.Time) {
	h := &g.hold
	if h.until > math.MinInt64 {
		h.left = min(h.length, h.left+now.Sub(h.filled)/seldom)
	}
	h.filled = now
	if h.left >= h.length/2 {
		h.open, h.named, h.found, h.resumed = true, false, false, mono.Never
		h.began, h.until = now, now.Add(h.left)
	}
}

// release closes the hold at an instant.
func (g *Gate) release(at mono.Time) {
	h := &g.hold
	if h.left -= at.Sub(h.began); h.found {
		h.left = max(h.left, 0) // it was right
	}
	h.open, h.until, h.filled = false, at, at
	g.limit.Forget(at)
}

// OnCulprit says that one request is suspected of keeping the others waiting, or was
// cancelled for it: found. Only the latter opens a hold that the gate has no reason for.
func (g *Gate) OnCulprit(now mono.Time, found bool) {
	h := &g.hold
	if h.length == 0 {
		return
	}
	if g.watch(now); !h.open && found {
		h.left = h.length
		g.keep(now)
	}
	if !h.open {
		return
	}
	h.named, h.found = true, h.found || found
	if most := h.began.Add(mostHold * g.cfg.Objective); h.found {
		h.until = most
	} else {
		h.until = min(now.Add(h.length), h.began.Add(suspects*h.length), most)
	}
}

// Holding reports whether requests are kept at now that the delay AQM would refuse.
func (g *Gate) Holding(now mono.Time) bool { return g.hold.open && now < g.hold.until }

// sample reports whether what becomes of t tells of the service: not if it met a hold.
func (g *Gate) sample(t *Ticket) bool { return !g.hold.open && t.since >= g.hold.until }

// count adds what should have left up to now. It comes before what runs changes.
func (g *Gate) count(now mono.Time) {
	h := &g.hold
	if h.length == 0 {
		return
	}
	if mean := g.pace.residence(); mean > 0 && now > h.counted {
		h.hazard += float64(g.limit.InUse()) * float64(now.Sub(h.counted)) / mean
	}
	h.counted = now
}

// departs counts a departure. Before the first one after a stall it is seen whether that was
// one: how long those took that were in it is no sample either.
func (g *Gate) departs(now mono.Time) {
	if g.watch(now); !g.hold.open && g.queue.Len() > 0 && g.stalled(now) {
		g.keep(now)
	}
	g.count(now)
	h := &g.hold
	h.hazard = 0
	switch {
	case !h.open || !h.found:
	case h.resumed == mono.Never:
		h.resumed, h.backlog = now, g.queue.Len()
	case now >= h.resumed.Add(drains*g.cfg.Objective) && g.queue.Len() >= h.backlog:
		g.release(now) // more come than are served: kept, they would make all the others late
	}
}

// stalled reports whether nothing has left the slots for so long that it is no chance.
func (g *Gate) stalled(now mono.Time) bool {
	oldest := g.running.head
	if oldest == nil || g.hold.length == 0 {
		return false
	}
	g.count(now)
	none := float64(now.Sub(max(g.pace.last, oldest.started)))
	return g.hold.hazard > improbable && none > max(overdue*g.pace.residence(), lull*float64(g.cfg.Objective))
}
