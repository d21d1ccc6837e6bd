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
//	    ▲ │    the queue is empty, requests      │                 ▲ │ Config.Hold after the last
//	    │ │    go on to end, or Config.Hold      │                 │ │ suspicion, or after a cancel
//	    └─┼────is used up ───────────────────────┴─────────────────┼─┘ once the queue is empty
//	      └────────────────────────────────────────────────────────┘
//	        far fewer end than usual, and OnCulprit
//
// The gate's own evidence opens it: nothing ends, or far less than usual and an engine suspects
// one request. In an overload as many go on to end, so it stays closed whatever is suspected.
// A service that is slow for all goes on, too: that ends a doubt which nothing but a pause
// began. Doubt may take a tenth of the time, and mostHold bounds the whole. Meanwhile requests
// wait for as long as their callers do, and neither the credits nor what is known of the
// service follow what is seen: when it closes they are what they were.
type hold struct {
	length   time.Duration // Config.Hold; 0: never
	open     bool
	named    bool
	found    bool          // and was cancelled
	resumed  mono.Time     // the first departure after that; mono.Never: not yet
	backlog  int           // requests that waited then
	left     time.Duration // that doubt may take, when it closed last; below 0 after a suspicion
	filled   mono.Time     // up to when left has grown
	began    mono.Time
	until    mono.Time // no request that came before is a sample of anything
	hazard   float64   // departures that should have been since the last
	departed float64   // departures in the time of usual objectives, which fade
	missing  float64   // evidence that half as many leave as usual, or fewer
	slowed   mono.Time // when that was enough last
	went     int       // departures since it was opened
	counted  mono.Time // up to when
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
	// culprit let go, unless far fewer end than usual: what it took may come back slowly, as
	// a cache that is filled again by as many requests as there are slots.
	drains = 4
	// usual is for how many objectives the usual rate of departures is averaged, fewer the part of
	// it that counts as far less, and scarce how much evidence of that is enough beside a
	// suspicion: by chance there is as much once in twenty thousand times, e^-10.
	usual  = 10
	fewer  = 1.0 / 2
	scarce = 10
	// disproof is how many departures end a doubt that no suspicion confirms. One or two may be
	// of requests that needed nothing of what the others wait for.
	disproof = 3
	// disproved is the part of Config.Hold that doubt may take at most after that.
	disproved = 1.0 / 4
	// seldom is how many times as long as doubt takes passes before it may take as long again.
	seldom = 10
)

// perDeparture is what a departure adds to the evidence: the logarithm of fewer, by which part it is likelier
// where as many leave as usual.
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

// keep opens the hold, if doubt may take a time again: opened for an instant at each departure
// of a server that has become slow, it would keep that from being learned.
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

// OnCulprit says that one request is suspected of keeping the others waiting, or was
// cancelled for it: found. Only the latter opens a hold that the gate has no reason for; for
// a suspicion it is reason enough that far fewer end than usual.
func (g *Gate) OnCulprit(now mono.Time, found bool) {
	h := &g.hold
	if h.length == 0 {
		return
	}
	switch g.watch(now); {
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
	span := float64(now.Sub(h.counted)) / float64(usual*g.cfg.Objective)
	if g.queue.Len() > 0 {
		if h.missing += (1 - fewer) * h.departed * span; h.missing > scarce {
			h.missing, h.slowed = scarce, now
		}
	}
	h.departed *= math.Exp(-span)
	h.counted = now
}

// slowed reports whether far fewer requests than usual left a moment ago although some waited,
// by more than chance. It is a sequential test of their rate: what was expected speaks for it,
// each departure against it, and evidence against it is not saved up.
func (g *Gate) slowed(now mono.Time) bool {
	g.count(now)
	return g.hold.slowed >= now.Add(-g.hold.length)
}

// departs counts a departure. Before the first one after a stall it is seen whether that was
// one: how long those took that were in it is no sample either.
func (g *Gate) departs(now mono.Time) {
	if g.hold.length == 0 {
		return // it never opens
	}
	if g.watch(now); !g.hold.open && g.queue.Len() > 0 && g.stalled(now) {
		g.keep(now, g.hold.length/2)
	}
	g.count(now)
	h := &g.hold
	h.hazard, h.missing = 0, max(h.missing+perDeparture, 0)
	h.departed++
	h.went++
	switch {
	case h.open && !h.named && h.went > disproof: // the first of them opened it, or found it open
		// What was seen since is what the service is like.
		h.open, h.until, h.filled = false, h.began, now
		h.left = min(h.left-now.Sub(h.began), time.Duration(disproved*float64(h.length)))
	case !h.open || !h.found:
	case h.resumed == mono.Never:
		h.resumed, h.backlog = now, g.queue.Len()
	case now >= h.resumed.Add(drains*g.cfg.Objective) && g.queue.Len() >= h.backlog && !g.slowed(now):
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
