package live

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// A call that is made for a request is counted at the gate that admitted the
// request, whatever protocols are on either side: the request's context leads to
// the ticket, and the ticket to the gate.
//
//	handler ─ ctx ─▶ BeginCall ─▶ wire.Tags: elapsed, process, claim ──▶
//	                 Answered  ◀─ wire.Reply: rate, refusal            ◀── callee
//	                 End       ◀─ wire.Reply: progress

// TicketKey is the key under which a context holds the *Ticket of its request. An
// edge that has a context of its own for each request answers to it; others use
// WithTicket.
type TicketKey struct{}

// WithTicket returns a context of the request that t admitted: calls made with it
// count at t's gate.
func WithTicket(ctx context.Context, t *Ticket) context.Context {
	ctx = context.WithValue(ctx, TicketKey{}, t)
	if t.Span() != nil {
		ctx = context.WithValue(ctx, SpanKey{}, t.span)
	}
	return ctx
}

// TicketFrom returns the ticket of the request that ctx belongs to, nil if there is none.
func TicketFrom(ctx context.Context) *Ticket { return ticketFrom(ctx) }

func ticketFrom(ctx context.Context) *Ticket {
	t, _ := ctx.Value(TicketKey{}).(*Ticket)
	return t
}

// Callee is a server as its callers know it. Which process it is, and of which
// service, its replies say; where several answer at one address, the last one
// counts. Its methods may be called at once from any goroutine.
type Callee struct {
	name string
	ask  func(wire.Tags)
	id   atomic.Pointer[node.Process]

	mu     sync.Mutex
	askers []*Gate
}

// NewCallee returns a server of which nothing is known but a name for its service,
// in case it does not tell one: its address. ask, if not nil, sends a question
// for a rate (wire/FORMAT.md) without a request; it must not block, and Announced
// takes the answer. Without it, rates come with answers alone.
func NewCallee(name string, ask func(wire.Tags)) *Callee { return &Callee{name: name, ask: ask} }

// Who returns the process that answered last, nil before any did.
func (c *Callee) Who() *node.Process { return c.id.Load() }

// Asks reports whether the callee can be asked for a rate without a request.
func (c *Callee) Asks() bool { return c.ask != nil }

// learn takes who answered.
func (c *Callee) learn(r *wire.Reply) {
	who := c.Who()
	if who != nil && who.Number == r.Process && (r.Service == "" || r.Service == who.Service) {
		return
	}
	service := r.Service
	if service == "" {
		service = c.name
	}
	c.id.Store(node.NewProcess(r.Process, service))
}

// Announced takes the answer to a question.
func (c *Callee) Announced(r wire.Reply) {
	if r.Process == 0 || r.Asker == 0 {
		return
	}
	c.mu.Lock()
	i := slices.IndexFunc(c.askers, func(g *Gate) bool { return g.id == r.Asker })
	var g *Gate
	if i >= 0 {
		g = c.askers[i]
	}
	c.mu.Unlock()
	if g != nil {
		g.answered(c, &r)
	}
}

// question is what one gate asks, to be called without a lock.
func (c *Callee) question(g *Gate, tags wire.Tags) func() {
	return func() {
		c.mu.Lock()
		if !slices.Contains(c.askers, g) {
			c.askers = slices.DeleteFunc(c.askers, (*Gate).isClosed)
			c.askers = append(c.askers, g)
		}
		c.mu.Unlock()
		c.ask(tags)
	}
}

// Outgoing is a call that is under way for a request. The zero Outgoing is of a
// call that nobody makes for anybody.
type Outgoing struct {
	ticket  *Ticket
	span    Call
	try     int
	counted bool // by the rates
}

// BeginCall begins a call to a server for the request that ctx belongs to, and
// returns the tags that travel with it; what is of the connection alone, Budget,
// Credits, Demand and Client, the edge fills in. try is 0 for a first attempt. to
// is nil if it is not known yet who is called. End must follow. What is called
// after the request has left its gate, as by a stream that gave its slot back, does
// not count for the rates.
func BeginCall(ctx context.Context, to *Callee, try int) (Outgoing, wire.Tags) {
	tags := Onward(ctx)
	tags.Attempt += try
	o := Outgoing{ticket: ticketFrom(ctx), span: SpanFrom(ctx).Call(), try: try}
	t := o.ticket
	if t == nil || t.Span() == nil {
		o.ticket = nil
		return o, tags
	}
	tags.Process = t.gate.id
	if t.visit != nil && try == 0 {
		t.visit.calls.Add(1)
	}
	if !t.gate.node.Rated() {
		o.ticket = nil
		return o, tags
	}
	if to != nil {
		if who := to.Who(); who != nil && who.Number != t.gate.id {
			t.gate.mu.Lock()
			now := t.gate.now()
			if o.counted = !t.left; o.counted {
				tags.Claim = t.gate.node.Call(now, t.core, who, try)
			}
			t.gate.mu.Unlock()
		}
	}
	return o, tags
}

// Answered takes the reply of the server that a call, or one attempt of it, was
// sent to: the rate that it announces and whether it refused. A reply that says
// nothing changes nothing.
func (o *Outgoing) Answered(from *Callee, r wire.Reply) {
	if r.Process == 0 || from == nil {
		return
	}
	from.learn(&r)
	t := o.ticket
	if t == nil || r.Process == t.gate.id {
		return
	}
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if t.left {
		return
	}
	if !o.counted { // nobody knew whom it was for
		o.counted = true
		g.node.Call(now, t.core, from.Who(), o.try)
	}
	f := baseline.Feedback{Rate: r.Rate, HasRate: r.HasRate}
	if r.HasShed {
		if f.Reason = r.Shed.Reason; f.Reason == work.None {
			f.Reason = work.Delay // a newer server's, which this one does not know
		}
	}
	g.node.OnAnswer(now, t.core, from, &f)
}

// End ends the call with what its last reply says it took, nil if there was none; see Call.End.
func (o *Outgoing) End(r *wire.Reply) {
	switch {
	case o.span.span == nil: // as mostly
	case r == nil:
		o.span.End(wire.Reply{})
	default:
		o.span.End(*r)
	}
}

// questions returns what is to be asked now. It is called with the lock held.
func (g *Gate) questions(now mono.Time) []func() {
	var out []func()
	for p, ok := g.node.NextPoll(now); ok; p, ok = g.node.NextPoll(now) {
		out = append(out, p.Callee.(*Callee).question(g, p.Tags))
	}
	return out
}

// answered takes the answer to a question.
func (g *Gate) answered(from *Callee, r *wire.Reply) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.node.OnPollAnswer(g.now(), from, r)
	}
}

// Ask answers the question of another process, as far as the edge believes its
// tags, for the rate that it may send at; false if there is no answer.
func (g *Gate) Ask(tags wire.Tags) (wire.Reply, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || Mode(g.mode.Load()) == Off {
		return wire.Reply{}, false
	}
	return g.node.OnPoll(g.now(), &tags, Mode(g.mode.Load()) == Enforce)
}

func (g *Gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// WatchResource makes r, which must be one of Config.Rates.Resources by name, known
// to the rates of this gate: who uses it for how long, how many it has, and how
// long they wait for it. A mean of more than the gate's TargetDelay is overload. It is called
// once for a resource, and reports false if there is no resource of that name or a
// gate watches r already.
func (g *Gate) WatchResource(name string, r *Resource) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.node.Rated() || g.closed {
		return false
	}
	i := slices.IndexFunc(g.node.Gate().Config().Rates.Resources, func(c rates.Resource) bool { return c.Name == name })
	if i < 0 || !r.watch(func(workflow string, busy time.Duration) { g.use(workflow, i, busy) }) {
		return false
	}
	g.watched = append(g.watched, watched{resource: r, place: i})
	return true
}

// watched is a resource and its place in Config.Rates.Resources.
type watched struct {
	resource *Resource
	place    int
	last     ResourceStats // at the last look
}

// pressure returns how the resource did since the last look: the mean wait of those
// who got it, or, if nobody did, the wait of the first in line. The latter alone would be
// a glance: in an overload of a few per cent, no two in a row need see it.
func (w *watched) pressure() rates.Pressure {
	s := w.resource.Stats()
	p := rates.Pressure{Delay: s.Delay, Capacity: float64(s.Capacity)}
	if n := s.Granted - w.last.Granted; n > 0 {
		p.Delay = (s.Waited - w.last.Waited) / time.Duration(n)
	}
	w.last = s
	return p
}

// use counts a use of a resource.
func (g *Gate) use(workflow string, resource int, busy time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.node.OnUse(g.now(), workflow, resource, busy)
}

// look tells the node how its resources are doing, if a period ends at now. It is
// called with the lock held, and takes those of the resources.
func (g *Gate) look(now mono.Time) {
	if len(g.watched) == 0 || !g.node.Due(now) {
		return
	}
	for i := range g.watched {
		g.node.OnPressure(g.watched[i].place, g.watched[i].pressure())
	}
}
