package live

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// visit is what the Shares of a gate know of one of its requests:
//
//	Admit ─ begin: class ─▶ arrive, wait ─▶ handler, its calls ─▶ Leave ─ end: learn
type visit struct {
	node.Visit
	shares *Shares
	ctx    context.Context
	before time.Duration // service that the request had before it came here
	calls  atomic.Int32
	stint  *stint // that of the request, in one allocation with v
	did    share.Course
	// What the request took, of progress.Result, once it is known: see Ticket.depart.
	measured     bool
	service, own time.Duration
}

// passage is a visit and a stint.
type passage struct {
	visit
	stint
}

// begin gives a request its class, and its visit, which is that of the request before it with the ticket t
// if there was one. It returns nil for a gate without ClassShares.
func (g *Gate) begin(ctx context.Context, arrived mono.Time, r *Request, t *Ticket) *visit {
	if g.shares == nil {
		return nil
	}
	if r.Arrived != 0 {
		arrived = min(arrived, r.Arrived)
	}
	if r.Key.Callee == "" {
		r.Key.Callee = g.service
	}
	r.Class = node.Classify(g.shares.classes, r.Key, r.Class)
	var v *visit
	if t.room != nil {
		v = t.room.home
	}
	if v == nil {
		both := new(passage)
		v = &both.visit
		v.stint, both.stint.home = &both.stint, v
	}
	v.Visit.Begin(&r.Key, r.Class, arrived, r.Deadline)
	v.shares, v.ctx = g.shares, ctx
	v.before = min(max(r.Elapsed.Service, 0), wire.MaxDuration)
	v.calls.Store(0)
	v.did, v.measured = share.Course{}, false
	return v
}

// refused notes that the request of v does not run. If its caller left while it
// waited, it was let in to wait, and was not refused.
func (v *visit) refused(err *Refusal, gone bool) {
	if v == nil || gone || v.ctx.Err() == nil || !errors.Is(err, v.ctx.Err()) {
		return
	}
	s := v.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.GaveUpWaiting(Now(), &v.Visit)
}

// admitted notes that the request of v runs.
func (v *visit) admitted() {
	v.shares.admit(v.Class)
}

// end ends the visit of a ticket that has left. A request that failed is no example
// of what its kind does.
func (v *visit) end(t *Ticket, now mono.Time, o work.Outcome) {
	did, gone := v.did, v.ctx.Err() != nil && o != work.Cancelled
	if !v.measured {
		v.took(t.span.end(now))
	}
	did.Hops = max(did.Hops, int(v.calls.Load()))
	if did.Service <= 0 {
		did.Service, did.Own = v.service, v.own
	}
	if did.Total <= 0 {
		did.Total = v.before + did.Service
	}
	if o.Executed() && t.failed.Load() {
		o = work.Dropped
	}
	s := v.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.End(now, &v.Visit, o, t.queued, now.Sub(t.started), gone, did)
}

// took notes what the request took.
func (v *visit) took(r progress.Result) { v.measured, v.service, v.own = true, r.Service, r.Own }

// Did says what the request does that its calls and its span do not show, of what is
// not 0: how many services it goes to, or what it takes. It is called before Leave.
// Without GateConfig.ClassShares it does nothing.
func (t *Ticket) Did(course share.Course) {
	if t.stint != nil && t.visit != nil {
		t.visit.did = course
	}
}

// Class returns the class that the gate's ClassShares gave the request, and false
// without GateConfig.ClassShares.
func (t *Ticket) Class() (work.Class, bool) {
	if t.stint == nil || t.visit == nil {
		return work.Default, false
	}
	return t.visit.Class, true
}

// Shares returns what divides the slots between the classes, nil without
// GateConfig.ClassShares.
func (g *Gate) Shares() *Shares { return g.shares }
