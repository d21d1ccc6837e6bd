package admission

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// hold keeps requests that the delay AQM would refuse, while one request that is about to be
// cancelled may be what delays them. Refusing them frees nothing then.
//
//	           nothing has ended for too long,
//	           and one would be refused                OnCulprit
//	as always ────────────────────────────▶ in doubt ────────────▶ named
//	    ▲ │    the queue is empty, requests      │                 ▲ │ Config.Hold after the last
//	    │ │    go on to end, or Config.Hold      │                 │ │ suspicion, or after a cancel
//	    └─┼────is used up ───────────────────────┴─────────────────┼─┘ once the queue is empty
//	      └────────────────────────────────────────────────────────┘
//	        far fewer end than usual, and OnCulprit
//
// The gate's own evidence opens the hold: nothing ends, or far fewer end than usual while an
// engine suspects one request. In an overload as many end as before, so the hold stays closed
// whatever is suspected. Requests of a service that is slow for all go on to end, too, which ends
// a doubt that began with a mere pause. Doubt may take a tenth of the time, and mostHold bounds
// the whole. Meanwhile requests wait for as long as their callers do, and the credits and the
// knowledge of the service stay as they are.
type hold struct {
	length   time.Duration // Config.Hold; 0: never
	open     bool
	named    bool
	found    bool          // and was cancelled
	resumed  mono.Time     // the first departure after that; mono.Never: not yet
	backlog  int           // requests that waited then, in the queue or aside
	left     time.Duration // that doubt may take, when it closed last; below 0 after a suspicion
	filled   mono.Time     // up to when left has grown
	began    mono.Time
	until    mono.Time // no request that came before is a sample of anything
	hazard   float64   // departures that should have been since the last
	departed float64   // departures in the time of usual objectives, which fade
	missing  float64   // evidence that half as many leave as usual, or fewer
	missed   mono.Time // since when there is any
	slowed   mono.Time // when that was enough last
	went     int       // departures since it was opened
	counted  mono.Time // up to when
}

const (
	// improbable is how many expected departures must be missing: chance makes that once in a
	// million times, e^-14.
	improbable = 14
	// overdue is how many residences must pass without a departure, because requests that take
	// equally long and began together leave together.
	overdue = 2
	// lull is the part of the objective that must pass without a departure: shorter pauses are
	// over before they matter.
	lull = 1.0 / 8
	// mostHold bounds the time for which requests are kept, in objectives.
	mostHold = 10
	// suspects bounds it for a suspicion alone, in units of Config.Hold.
	suspects = 2
	// drains is after how many objectives the victims must be fewer than when the culprit let go, unless far
	// fewer requests end than usual: the service may recover slowly, as a cache is filled again by as many
	// requests as there are slots.
	drains = 4
	// usual is over how many objectives the usual rate of departures is averaged, fewer the part of it
	// that counts as far less, and scarce the evidence of that which is enough beside a suspicion:
	// chance makes as much once in twenty thousand times, e^-10.
	usual  = 10
	fewer  = 1.0 / 2
	scarce = 10
	// disproof is how many departures end a doubt that no suspicion confirms. One or two requests
	// may not need what the others wait for.
	disproof = 3
	// disproved is the part of Config.Hold that doubt may take after that.
	disproved = 1.0 / 4
	// seldom is how many times the length of a doubt must pass before another may take as long.
	seldom = 10
)

// perDeparture is what a departure adds to the evidence: the logarithm of fewer, the ratio of its likelihoods
// at the lower and at the usual rate.
const perDeparture = -math.Ln2

func newHold(length time.Duration) hold {
	return hold{length: length, left: length, until: math.MinInt64, slowed: math.MinInt64}
}

// keeps reports whether a request that would be refused at now, for its delay, waits on.
func (g *Gate) keeps(now mono.Time) bool {
	if g.watch(now); !g.hold.open && g.stalled(now) {
		g.keep(now, g.hold.length/2)
	}
	return g.hold.open
}

// watch closes the hold when its time is over.
func (g *Gate) watch(now mono.Time) {
	if h := &g.hold; h.open && now >= h.until {
		g.release(h.until)
	}
}

// keep opens the hold if doubt may take at least some time again. A hold that opened for an instant
// at each departure of a server that has become slow would keep the gate from learning that.
func (g *Gate) keep(now mono.Time, least time.Duration) {
	h := &g.hold
	if h.until > math.MinInt64 {
		h.left = min(h.length, h.left+now.Sub(h.filled)/seldom)
	}
	h.filled = now
	if h.left >= least {
		h.open, h.named, h.found, h.resumed, h.went = true, false, false, mono.Never, 0
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

// OnCulprit says that one request is suspected of blocking the others, or was cancelled for it
// (found). A cancel opens the hold in any case, a suspicion only if far fewer requests end than
// usual.
func (g *Gate) OnCulprit(now mono.Time, found bool) {
	h := &g.hold
	if h.length == 0 {
		return
	}
	g.watch(now)
	g.count(now)
	g.suspect(now, found)
	switch {
	case h.open:
	case found:
		h.left = h.length
		g.keep(now, 0)
	case g.slowed(now):
		g.keep(now, 1)
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

// OnDoubt says that one request may be suspected soon: those that wait aside wait for longer.
func (g *Gate) OnDoubt(now mono.Time) {
	if g.hold.length > 0 {
		g.watch(now)
		g.count(now)
		g.suspect(now, false)
	}
}

// Holding reports whether requests are kept at now that the delay AQM would refuse.
func (g *Gate) Holding(now mono.Time) bool { return g.hold.open && now < g.hold.until }

// sample reports whether t's end tells of the service: not if t met a hold.
func (g *Gate) sample(t *Ticket) bool { return !g.hold.open && t.since >= g.hold.until }

// count adds the departures expected up to now. It comes before the number of running requests changes.
func (g *Gate) count(now mono.Time) {
	h := &g.hold
	if h.length == 0 {
		return
	}
	if mean := g.pace.residence(); mean > 0 && now > h.counted {
		h.hazard += float64(g.limit.InUse()) * float64(now.Sub(h.counted)) / mean
	}
	span := float64(now.Sub(h.counted)) / float64(usual*g.cfg.Objective)
	if g.Waiting() > 0 {
		if h.missing == 0 {
			h.missed = h.counted
		}
		if h.missing += (1 - fewer) * h.departed * span; h.missing > scarce {
			h.missing, h.slowed = scarce, now
		}
	}
	h.departed *= math.Exp(-span)
	h.counted = now
	g.weigh(now)
}

// slowed reports whether far fewer requests than usual left a moment ago although some waited,
// by more than chance. It is a sequential test of the rate: expected departures speak for a lower
// one, each actual departure speaks against it, and the sum does not fall below 0.
func (g *Gate) slowed(now mono.Time) bool {
	g.count(now)
	return g.hold.slowed >= now.Add(-g.hold.length)
}

// departs counts a departure. The first one after a pause opens the hold if the pause was a stall,
// so that requests of the stall are no samples.
func (g *Gate) departs(now mono.Time) {
	if g.hold.length == 0 {
		return // it never opens
	}
	if g.watch(now); !g.hold.open && g.Waiting() > 0 && g.stalled(now) {
		g.keep(now, g.hold.length/2)
	}
	g.count(now)
	h := &g.hold
	h.hazard, h.missing = 0, max(h.missing+perDeparture, 0)
	h.departed++
	h.went++
	g.weigh(now)
	switch {
	case h.open && !h.named && h.went > disproof: // the first of them opened it, or found it open
		// It was the service itself that was slow.
		h.open, h.until, h.filled = false, h.began, now
		h.left = min(h.left-now.Sub(h.began), time.Duration(disproved*float64(h.length)))
	case !h.open || !h.found:
	case h.resumed == mono.Never:
		h.resumed, h.backlog = now, g.Waiting()
	case now >= h.resumed.Add(drains*g.cfg.Objective) && g.Waiting() >= h.backlog && !g.slowed(now):
		g.release(now) // more come than are served; kept, they would make all the others late
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
