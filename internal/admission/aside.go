package admission

import (
	"math"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// aside is the requests that wait for what the queue leaves them, because one request may be to blame for the delay of all:
//
//	judge: too long a wait ─────────────▶ hopeful ── before younger ones of the queue, while ──▶ runs
//	                                         │       the hold is open, else behind the queue
//	                                         ▼ can be in time no more
//	Next: can be in time no more ──────────▶ late ──── nothing else waits ────────────────────▶ runs
//	                                           └────── patience is over ──────────────────────▶ refused
//
// They delay none that can be in time, so what sets them aside may be weak evidence: fewer departures than usual, by more
// than chance makes once in twenty times (little); or that suddenly requests would be refused although no more come than usual. In an overload
// more come and as many end as usual, and in a service that has become slow patience ends, so requests are refused on arrival there, but for a
// moment. To the credits and to the measure of the demand a request that was set aside on arrival is a refused one.
type aside struct {
	hopeful, late Queue
	doubted       mono.Time // since when there is evidence; mono.Never: there is none
	began         mono.Time // when requests began to wait for that, or because it is sudden
	until         mono.Time // up to when they wait for that
	grace         mono.Time // and because it is sudden
	mercy         mono.Time // and for a culprit that was cancelled
}

// merciful is for how many objectives after a cancel, or after the last look that found the cancelled request inside, its victims
// wait aside at most, for what the others leave: of a load of 0.9 a backlog of three objectives takes 27.
const merciful = 30

const (
	// unusual is how many times as many requests as usually end must come for that to be the reason of refusals. It is three deviations of a rate
	// that is measured over 64 arrivals.
	unusual = 1.4
	// atFirst is the largest share of refused requests at which refusals are sudden: two of the last 64 arrivals.
	atFirst = 2.0 / arrivalMemory
)

// little is the evidence of fewer departures that sets requests aside: e^-3 is one in twenty.
const little = 3

func newAside() aside {
	return aside{doubted: mono.Never, began: math.MinInt64, until: math.MinInt64, grace: math.MinInt64, mercy: math.MinInt64}
}

// Len returns how many wait aside.
func (a *aside) Len() int { return a.hopeful.Len() + a.late.Len() }

// head returns the one that has waited longest, nil if none waits.
func (a *aside) head() *Ticket {
	if t := a.late.Head(); t != nil {
		return t
	}
	return a.hopeful.Head()
}

// weigh takes the evidence of fewer departures as it is at now. Between the ends of requests that began together it means nothing.
func (g *Gate) weigh(now mono.Time) {
	a := &g.aside
	spans := min(overdue*g.pace.residence(), float64(g.cfg.Objective)/4) // the residence of a service that seems slow is long
	doubts := g.hold.missing >= little && float64(now.Sub(g.hold.missed)) > spans
	switch {
	case doubts && a.doubted == mono.Never:
		a.doubted, a.began, a.until = now, now, now.Add(g.hold.length)
	case g.hold.missing == 0 && a.doubted != mono.Never: // all evidence is gone: each departure takes some away
		a.doubted, a.until = mono.Never, now
	}
}

// suspect has requests wait aside for longer, because a request is suspected or, found, was cancelled.
func (g *Gate) suspect(now mono.Time, found bool) {
	a := &g.aside
	switch {
	case found:
		a.mercy = now.Add(merciful * g.cfg.Objective)
	case a.doubted != mono.Never, now < max(a.until, a.grace):
		a.until = max(a.until, min(now.Add(g.hold.length), a.began.Add(max(suspects*g.hold.length, mostHold*g.cfg.Objective))))
	}
}

// patience is up to when requests wait aside.
func (g *Gate) patience() mono.Time {
	at := max(g.aside.until, g.aside.grace, g.aside.mercy)
	if g.hold.open {
		at = max(at, g.hold.until)
	}
	return at
}

// patient reports whether a request with r against it waits aside at now and is not refused: what comes when as many requests end
// as usual again is refused as always.
func (g *Gate) patient(now mono.Time, r work.Reason) bool {
	if r != work.Delay || g.hold.length == 0 || g.aside.Len() >= g.cfg.QueueLimit {
		return false
	}
	g.count(now)
	if a := &g.aside; g.sudden(now) {
		a.began, a.grace = now, now.Add(g.hold.length)
	}
	return g.hold.open || now < max(g.aside.until, g.aside.grace) || now < g.aside.mercy && g.aside.doubted != mono.Never
}

// sudden reports whether requests would be refused that no greater demand explains, as hardly any were before. That may take a tenth of the time.
func (g *Gate) sudden(now mono.Time) bool {
	d, a := &g.demand, &g.aside
	if d.refused > atFirst || a.grace > math.MinInt64 && now < a.grace.Add(seldom*g.hold.length) {
		return false
	}
	ends := g.hold.departed / float64(usual*g.cfg.Objective)
	return d.between*ends*unusual >= 1
}

// hopeless reports whether t, if it started at now, would likely be late: one that waits behind it has a better chance.
func (g *Gate) hopeless(now mono.Time, t *Ticket) bool {
	return now.Add(g.worth.credited) > t.useful(g.cfg.Objective)
}

// setAside has t, which waits in no queue, wait aside.
func (g *Gate) setAside(now mono.Time, t *Ticket) {
	g.gone(t)
	t.overtaken = true // by all that come later
	if t.aside = &g.aside.hopeful; g.hopeless(now, t) {
		t.aside = &g.aside.late
	}
	t.aside.Push(t)
}

// takeAside returns the next of those that wait aside, nil if there is none.
func (g *Gate) takeAside(now mono.Time) *Ticket {
	a := &g.aside
	t := a.hopeful.Head()
	for ; t != nil && g.hopeless(now, t); t = a.hopeful.Head() {
		a.hopeful.Remove(t)
		t.aside = &a.late
		a.late.Push(t)
	}
	if t == nil {
		t = a.late.Head()
	}
	return t
}

// comeBack takes t, which waits aside, out.
func (g *Gate) comeBack(t *Ticket) {
	t.aside.Remove(t)
	t.aside = nil
}

// precedes reports whether t, which waits aside, is before the next of the queue: while victims are kept all that can be in time are
// in the order in which they came. It does not go before another class or workflow.
func (g *Gate) precedes(now mono.Time, t *Ticket) bool {
	if t == nil || !g.hold.open || t.aside != &g.aside.hopeful {
		return false
	}
	next, _ := g.queue.Peek(now)
	o := next.Owner.(*Ticket)
	return t.since < o.since && o.Class == t.Class && o.Flow == t.Flow && o.Priority >= t.Priority
}

// weary returns one that waits aside and is refused now, with the reason; nil if none is. Patience that ends as a slot comes free
// refuses none that can have it.
func (g *Gate) weary(now mono.Time) (*Ticket, work.Reason) {
	a := &g.aside
	left := g.queue.Len() == 0 && g.limit.Free()
	for _, t := range [...]*Ticket{a.late.Head(), a.hopeful.Head()} {
		switch {
		case t == nil:
		case t.Budget(now) <= 0:
			return t, work.Expired
		case now >= g.patience() && !left:
			return t, work.Delay
		}
	}
	return nil, work.None
}

// wakeAside is when one that waits aside is refused next.
func (g *Gate) wakeAside() mono.Time {
	at := mono.Never
	for _, t := range [...]*Ticket{g.aside.late.Head(), g.aside.hopeful.Head()} {
		if t != nil {
			at = min(at, t.Deadline, g.patience())
		}
	}
	return at
}

// forgo refuses t, which waits aside.
func (g *Gate) forgo(now mono.Time, t *Ticket, r work.Reason) Verdict {
	g.comeBack(t)
	g.usage.add(&t.senders, -1)
	return g.turnAway(now, t, r)
}
