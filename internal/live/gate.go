package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// GateConfig describes a Gate. Only the objective is required.
type GateConfig struct {
	admission.Config
	// Mode is how far decisions go. Default Enforce.
	Mode Mode
	// Service names what the gate stands in front of to the processes that call
	// it, by a name that wire.ValidWorkflow accepts, common to those that can stand
	// in for each other. They need it where Rates are announced. Default none: the
	// address they call names it.
	Service string
	// Shares is what workflows get of what their class gets of the slots, by name,
	// from schedule.MinWeight to MaxWeight. They count with Schedule.Fair. Default
	// 1 each. SetShare changes them.
	Shares map[string]float64
	// NoTurns has waiting requests go by Schedule alone, so a sender that sends more gets more. Default: while requests
	// wait for a slot, their senders take turns inside a class and a workflow, those of one priority: who answers for a
	// connection, by a verified client certificate or else by the address, of IPv6 its network of 64 bits. Schedule.Senders
	// is then by default 1024 of those that wait at the same time, where the order is FIFO. Another order would rule among
	// the requests whose turns have come alone, and a service that passes on the requests of many has one turn.
	NoTurns bool
	// ClassShares, if not nil, has the gate learn which requests are interactive, by
	// Request.Key, and divide the slots between them and others: see package share.
	// Its Servers is by default Slots.Initial. Default nil: a request has the class
	// that its tags say, and classes have equal weights until SetWeight.
	ClassShares *SharesConfig
	// Culprit says how the gate looks for requests that keep others waiting. Default: it
	// names them.
	Culprit CulpritConfig
	// Learned, if not nil, is what the gate knows from the first request on: what another gate
	// of the same service has found out, as Gate.Learned returns it. The bounds in Slots hold. Default: nothing.
	Learned *Learned
	// Observe, if set, is told the end of every request's passage. It is called
	// on the request's goroutine, outside the lock, and must not block.
	Observe func(Event)
}

// Request is one request at a Gate.
type Request struct {
	work.Request
	// Client is the account of a client that knows credits, nil of others.
	Client *Client
	// Sender is the connection that the request came by.
	Sender Sender
	// Arrived is when the request reached this process, if the edge knows it better than
	// Enter. Default: the instant of Enter, less what requests lie in sockets (see
	// WatchNetwork).
	Arrived mono.Time
	// Waited is that of the request's wire.Tags.
	Waited time.Duration
	// Objective is that of the request's method or route, 0 if that has none of its
	// own: see admission.Ticket.
	Objective time.Duration
	// Total, Elapsed, Process and Claim are those of the request's wire.Tags, as
	// far as the edge believes them. A request without any of them enters the
	// system here.
	Total, Elapsed wire.Progress
	Process        uint64
	Claim          float64
	// Key is the kind of the request, for GateConfig.ClassShares. Its Callee is by
	// default GateConfig.Service.
	Key share.Key
	// Kind is what the request does, for GateConfig.Culprit; nil if unknown. Token is
	// that of its wire.Tags.
	Kind  Kind
	Token wire.Token
	// Untrusted says that the edge does not believe the sender. Where the order of waiting
	// requests is by deadline, a budget shorter than the objective puts such a request before
	// no other.
	Untrusted bool
}

// Gate admits requests to a server. All its methods may be called at once from
// any goroutine.
type Gate struct {
	observe   atomic.Pointer[func(Event)] // nil: nobody is told
	lag       atomic.Pointer[lag]
	busy      busy         // of onLag alone
	others    float64      // the part of the host's processors that other programs use, as onLag measured it
	lack      float64      // and the most that a goroutine lacked one: see busy
	othersAt  mono.Time    // when that was
	id        uint64       // of this gate among processes
	service   string       // "" if it has no name
	objective atomic.Int64 // ns; see SetObjective
	urgent    bool         // see ByDeadline
	shares    *Shares      // nil: classes are not learned
	untagged  Untagged
	calls     Calls

	mode   atomic.Uint32          // a Mode
	shut   atomic.Bool            // as closed, without the lock
	handed atomic.Pointer[Ticket] // see leave
	// spares are tickets of the core for later requests: to allocate one takes longer than to decide. A
	// processor gets back those that it used last.
	spares sync.Pool

	mu      sync.Mutex
	latest  mono.Time // instant that the node was told of
	node    *node.Node
	timer   *time.Timer
	armed   mono.Time // of timer; mono.Never: not running
	closed  bool
	off     int           // running tickets that bypassed the node
	edges   int           // that had the network watched
	refusal time.Duration // of the dearest of them; 0: as over gRPC
	tallies Tallies
	explanations
	watched []watched
	tasks   tasks

	finder  *finder // nil: no culprits are looked for
	cancels bool    // and they are cancelled
	tracing atomic.Pointer[Tracing]
}

// defaultSenders is how many senders that wait at the same time take turns. A queue of more than half as many, of one
// request each, is as long as an objective where 5,000 requests/s are served within 100 ms, and they cost 32 kB.
const defaultSenders = 1024

// NewGate returns an open gate, or every mistake in cfg.
func NewGate(cfg GateConfig) (*Gate, error) {
	var errs []error
	if int(cfg.Mode) >= len(modeNames) {
		errs = append(errs, fmt.Errorf("live: Mode is %d, expected Enforce, Monitor or Off", cfg.Mode))
	}
	errs = append(errs, cfg.ClassShares.check())
	if cfg.Credit.Epoch == 0 {
		cfg.Credit.Epoch = rand.Uint32()
	}
	if cfg.Hold == 0 {
		cfg.Hold = cfg.Culprit.hold(cfg.Objective)
	}
	switch {
	case cfg.NoTurns:
		cfg.Schedule.Senders = 0
	case cfg.Schedule.Senders == 0 && cfg.Schedule.Order == schedule.FIFO:
		cfg.Schedule.Senders = defaultSenders
	}
	id := rand.Uint64() | 1
	n, err := node.New(node.Config{Config: cfg.Config, Service: cfg.Service, Number: id, Shares: cfg.Shares})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	if cfg.Learned != nil {
		if err := n.Gate().Learn(cfg.Learned.Learned); err != nil { // cannot be: it is new
			return nil, err
		}
	}
	g := openGate(n, id, cfg.Objective)
	g.mode.Store(uint32(cfg.Mode))
	g.service, g.urgent = cfg.Service, n.Gate().Config().Schedule.Order.ByDeadline()
	if cfg.Observe != nil {
		g.observe.Store(&cfg.Observe)
	}
	if err := g.find(cfg.Culprit, n.Gate().Config().Objective, cfg.Service); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	if cfg.ClassShares != nil {
		own := *cfg.ClassShares
		if own.Servers == 0 {
			own.Servers = float64(cfg.Slots.Initial)
		}
		if g.shares, err = NewShares(g, own); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	return g, nil
}

// Observe has f told the end of every request's passage from now on, as
// GateConfig.Observe is, which still is told first.
func (g *Gate) Observe(f func(Event)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	both := f
	if first := g.observe.Load(); first != nil {
		both = func(e Event) {
			(*first)(e)
			f(e)
		}
	}
	g.observe.Store(&both)
}

// NewGateOf returns an open gate in which another policy decides, for comparisons
// on the real clock: the edges treat its requests as they treat those of any gate,
// but no handler waits for its turn at the network. objective is the latency
// objective, from which hints to refused clients follow. Nothing else may call
// the policy any more. After Close, what waits at the policy ends with its context.
func NewGateOf(policy baseline.Door, objective time.Duration) *Gate {
	return openGate(node.Around(policy), rand.Uint64()|1, objective)
}

func openGate(n *node.Node, id uint64, objective time.Duration) *Gate {
	g := &Gate{node: n, id: id, armed: mono.Never, latest: math.MinInt64} // time may begin anywhere
	g.objective.Store(int64(objective))
	g.timer = time.AfterFunc(time.Hour, g.onTimer)
	g.timer.Stop()
	return g
}

// ByDeadline reports whether the order of waiting requests is by deadline, so that a short
// budget puts a request before others: see Request.Untrusted.
func (g *Gate) ByDeadline() bool { return g.urgent }

// WatchNetwork makes the gate measure how long bytes lie in sockets, and count
// it as queueing delay. Edges whose requests come from connections that goroutines
// read call it. It costs two file descriptors, a goroutine and a byte through a
// pipe now and then while requests come. Further calls cost nothing more, and calls after Close do
// nothing.
func (g *Gate) WatchNetwork() { g.watch(0) }

// WatchCheap is WatchNetwork for an edge whose refusals take so much processor time, above 0 and less than over gRPC. Of
// several edges of a gate, the one with the dearest refusals counts.
func (g *Gate) WatchCheap(refusal time.Duration) { g.watch(refusal) }

// watch is WatchNetwork for an edge whose refusals take so much processor time, 0 for that of gRPC and HTTP.
func (g *Gate) watch(refusal time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	if g.edges++; g.edges == 1 {
		g.refusal = refusal
	} else if g.refusal > 0 && (refusal == 0 || refusal > g.refusal) {
		g.refusal = refusal
	}
	if own := g.node.Gate(); own != nil {
		own.SetRefusal(g.refusal)
	}
	if g.lag.Load() == nil {
		g.lag.Store(newLag(g.lagGap(), g.onLag))
	}
}

// lagGap is the time between two measurements of the network. It is called with the lock held.
func (g *Gate) lagGap() time.Duration {
	if own := g.node.Gate(); own != nil {
		return own.Pool().Config().Interval
	}
	return g.Objective() / lagsInObjective
}

// lagsInObjective is how often the network is looked at in an objective for another
// policy than the gate: as often as for a gate with the default configuration.
const lagsInObjective = 20

// onLag takes a measurement of the time that bytes lie in sockets.
func (g *Gate) onLag(d time.Duration) {
	used, all, processors, host, ok := g.busy.look(Now()) // takes longer than the lock is to be held
	g.mu.Lock()
	now := g.now()
	g.look(now)
	g.node.OnLag(now, d)
	if ok {
		g.node.OnBusy(used, all, processors, host)
		g.others, g.lack, g.othersAt = g.busy.others, g.busy.lack, now
	}
	if core, l := g.node.Gate(), g.lag.Load(); core != nil && l != nil {
		l.turns.busy.Store(core.Busy())
	}
	g.finish(now)
}

// lagUnderWay comes before every event of the node. It tells it of a lag that is
// known to be long before it is known how long: without it, the pool would grow
// until the next measurement is in, which takes as long as the lag itself. It is
// called with the lock held.
func (g *Gate) lagUnderWay(now mono.Time) {
	if lag := g.lag.Load(); lag != nil && lag.sent.Load() != 0 || len(g.watched) > 0 {
		g.measure(now, lag)
	}
}

// measure is apart so that lagUnderWay can be inlined.
func (g *Gate) measure(now mono.Time, lag *lag) {
	g.look(now)
	if d := lag.underWay(now); d > 0 {
		g.node.OnLag(now, d)
	}
}

// Client is a connected client that knows credits.
type Client struct {
	gate    *Gate
	account *credit.Client // nil if the policy knows no clients
	notify  func(wire.Grant)
}

// Connect opens an account for a client. notify, if not nil, is called for
// grants that have no reply to ride on; not under a lock, possibly from several
// goroutines at once with the newest grant being the one that counts, and it
// must not block. A nil notify is a client that lives by Grant.Revive.
func (g *Gate) Connect(notify func(wire.Grant)) *Client {
	c := &Client{gate: g, notify: notify}
	g.mu.Lock()
	now := g.now()
	if c.account = g.node.Connect(now); c.account != nil {
		c.account.Owner = c
	}
	g.finish(now)
	return c
}

// ByReply says whether the client hears of credits with replies alone, because notify has no way to reach it. Then it
// gets none while it holds none, and may ask for one soon, with a request. Default false.
func (c *Client) ByReply(yes bool) {
	c.gate.mu.Lock()
	now := c.gate.now()
	c.gate.node.ByReply(c.account, yes)
	c.gate.finish(now)
}

// OnDemand takes the number of requests that the client has ready and cannot
// send for want of credit.
func (c *Client) OnDemand(n int) {
	c.gate.mu.Lock()
	now := c.gate.now()
	c.gate.node.OnDemand(now, c.account, n)
	c.gate.finish(now)
}

// Close ends the account; its credits go to other clients at once. Requests of
// the client that still run keep their slots. Further calls do nothing.
func (c *Client) Close() {
	c.gate.mu.Lock()
	now := c.gate.now()
	c.gate.node.Disconnect(now, c.account)
	c.gate.finish(now)
}

// Ticket is the right to run one request, from Enter or Admit to Leave. It must not be
// copied.
type Ticket struct {
	core   *admission.Ticket // nil once it has left, if it never waited
	gate   *Gate
	*stint // nil unless workflows matter
	task
	mode     Mode
	verdict  admission.Verdict // on arrival
	closed   bool              // the gate was
	hasGrant bool
	left     bool
	would    work.Reason
	wake     chan admission.Verdict
	started  mono.Time
	began    mono.Time // the handler
	queued   time.Duration
	grant    wire.Grant
	pushback time.Duration
	refusal  RefusalID
	parting  parting
	room     *stint // that of the request before, if t is used again
}

// prepare gives t its ticket of the core, with what r says. Nobody else knows t yet, so the lock is not needed.
func (t *Ticket) prepare(now mono.Time, r *Request) {
	c, _ := t.gate.spares.Get().(*admission.Ticket)
	if c == nil {
		c = new(admission.Ticket)
	}
	c.Request = r.Request
	c.Arrived = r.Arrived
	c.Waited, c.Objective = r.Waited, r.Objective
	c.Owner = t
	c.Source, c.Peer, c.Whom = r.Sender.source, r.Sender.peer, r.Sender.whom
	if r.Client != nil && r.Client.account != nil {
		// An account is of one client, by however many connections.
		c.Client, c.Source = r.Client.account, 0
	}
	switch g := t.gate; {
	case c.Deadline == 0:
		c.Deadline = mono.Never
	case g.urgent && r.Untrusted && c.Deadline > now:
		// Its context still ends at its own deadline.
		c.Deadline = max(c.Deadline, now.Add(cmp.Or(r.Objective, g.Objective())))
	}
	t.core = c
}

// recycle keeps the core's ticket of a request that has left for another one. One that has
// waited is in nobody's queue any more, and yet not as new; those are left to the
// garbage collector.
func (t *Ticket) recycle() {
	if t.verdict != admission.Run {
		return
	}
	c := t.core
	t.core = nil
	c.Owner, c.Client, c.Arrived, c.Barred = nil, nil, 0, work.None
	c.Flow, c.Remaining, c.Total, c.Done, c.Least, c.From, c.Claim, c.Mark, c.Stay = 0, 0, 0, 0, 0, 0, 0, 0, nil
	t.gate.spares.Put(c)
}

// Began returns when the handler of an admitted request could begin.
func (t *Ticket) Began() mono.Time { return t.began }

// Waited reports whether the request had to wait for a slot. If not, Queued tells of the way to the gate alone.
func (t *Ticket) Waited() bool { return t.verdict == admission.Wait }

// Queued returns how long the request waited for its turn.
func (t *Ticket) Queued() time.Duration { return t.queued }

// Would returns why the request would have been refused that a gate with mode Monitor let
// in, work.None if it would not.
func (t *Ticket) Would() work.Reason { return t.would }

// Grant returns the credits for the reply, after Leave; false for a client that
// has no account.
func (t *Ticket) Grant() (wire.Grant, bool) { return t.grant, t.hasGrant }

// GrantAhead is Grant for an answer whose header goes before Leave: what the request will bring its client back is decided
// now, and Grant says nothing of it. It returns false, and changes nothing, if there is no account, or the ticket has left.
func (t *Ticket) GrantAhead() (grant wire.Grant, ok bool) {
	if t.mode == Off {
		return grant, false
	}
	g, now := t.gate, Now()
	g.lock()
	now = g.at(now)
	if !t.left {
		ok = g.node.Ahead(now, t.core, &grant)
	}
	g.finish(now)
	return grant, ok
}

// Enter admits r, at once or after a wait, or refuses it with a *Refusal. A wait
// ends with ctx, and the refusal then wraps ctx's error. An admitted request must
// be followed by Leave, also when its handler panics. The deadline of r counts if
// it is sooner than that of ctx.
func (g *Gate) Enter(ctx context.Context, r Request) (*Ticket, error) {
	t := new(Ticket)
	if err := g.Admit(ctx, r, t); err != nil {
		return nil, err
	}
	return t, nil
}

// Admit is Enter for who has room for a ticket in something of his own, and allocates
// nothing for a request that need not wait. What t was before does not matter, but
// no request may be in a gate with it, and nobody may still mean that one by it, or by its Span: both are used again.
func (g *Gate) Admit(ctx context.Context, r Request, t *Ticket) error {
	turn := g.take(ctx, &r, t)
	return turn.Await(ctx)
}

// arrive is the middle of Arrive: the request is in the gate from now on, with the
// ticket t. It never waits.
func (g *Gate) arrive(now mono.Time, r *Request, t *Ticket, v *visit) {
	mode, room := Mode(g.mode.Load()), t.room // in the literal they would make a copy of it
	*t = Ticket{gate: g, mode: mode, verdict: admission.Run, room: room}
	if t.mode != Off {
		t.prepare(now, r)
	}
	if !g.mu.TryLock() {
		g.lock()
	}
	now = g.at(now)
	t.started = now
	g.lagUnderWay(now)
	if t.mode == Off && !g.closed {
		g.off++
		g.mu.Unlock()
		return
	}
	if t.core == nil {
		t.prepare(now, r)
	}
	if g.closed {
		t.closed = true
		t.verdict = admission.Shed
		g.mu.Unlock()
		return
	}
	if g.node.Described() || g.shares != nil || r.Process != 0 || r.Elapsed != (wire.Progress{}) {
		t.describe(now, r, v)
	}
	if g.tasks.on {
		t.kind = r.Kind
		if !g.tasks.readmit.Empty() {
			g.tasks.knock(now, r, t)
		}
	}
	if r.Token != (wire.Token{}) && !t.protected {
		token := r.Token
		t.shown = &token
	}
	if t.mode != Monitor {
		t.verdict = g.node.Arrive(now, t.core)
	} else if would, _ := g.node.Observe(now, t.core); would == admission.Shed {
		t.would = t.core.Reason()
		g.tallies.Would[t.would]++
		g.explain(now, t, true)
	}
	switch t.verdict {
	case admission.Shed:
		g.shed(now, t)
	case admission.Wait:
		t.wake = make(chan admission.Verdict, 1)
		fallthrough
	case admission.Run:
		if g.tasks.on {
			g.tasks.enter(t)
		}
	}
	g.finish(now)
}

// wait is what Await waits for.
func (t *Ticket) wait(ctx context.Context) *Refusal {
	g, verdict := t.gate, t.verdict
	if verdict == admission.Wait {
		select {
		case verdict = <-t.wake:
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if t.giveUp(cause) {
				return g.refuse(t, t.core.Reason(), t.pushback, cause)
			}
			verdict = <-t.wake
		}
		t.started = t.core.Started()
	}
	if t.mode != Off && !t.closed {
		t.queued = t.core.Queued()
	}
	switch {
	case t.closed:
		return g.refuse(t, work.Draining, g.Objective(), nil)
	case verdict == admission.Shed:
		return g.refuse(t, t.core.Reason(), t.pushback, nil)
	}
	return nil
}

// giveUp takes a waiting ticket out of the queue, and reports false if it does
// not wait any more.
func (t *Ticket) giveUp(cause error) bool {
	g, reason := t.gate, work.Canceled
	if errors.Is(cause, context.DeadlineExceeded) {
		reason = work.Expired
	}
	g.mu.Lock()
	now := g.now()
	if !g.node.Refuse(now, t.core, reason) {
		g.mu.Unlock()
		return false
	}
	g.shed(now, t)
	g.finish(now)
	return true
}

// shed notes what the refusal of t will say. It is called with the lock held.
func (g *Gate) shed(now mono.Time, t *Ticket) {
	told := t.pushback
	t.reply(now)
	if t.core.Reason() == work.Culprit {
		t.pushback = told
	}
	g.tasks.refused(t)
	g.tasks.leave(t)
	g.tallies.Shed[t.core.Reason()]++
	t.refusal = g.explain(now, t, false)
}

// reply takes what the answer will say. It is called with the lock held.
func (t *Ticket) reply(now mono.Time) {
	var f baseline.Feedback
	t.gate.node.Reply(now, t.core, &f)
	if t.hasGrant = f.HasGrant; t.hasGrant {
		t.grant = f.Grant
	}
	if t.stint != nil {
		t.announce(f.Announces, f.Rate, f.HasRate)
	}
	if !f.Shed() {
		return
	}
	switch t.pushback = f.Pushback; {
	case t.pushback != 0: // else the policy does not say
	case f.Reason.Retryable():
		t.pushback = t.gate.Objective()
	default:
		t.pushback = -1
	}
}

func (g *Gate) refuse(t *Ticket, r work.Reason, pushback time.Duration, cause error) *Refusal {
	if observe := g.observe.Load(); observe != nil {
		(*observe)(Event{
			Reason: r, Enforced: true, Class: t.core.Class, Workflow: t.core.Workflow, Priority: t.core.Priority,
			Queued: max(t.core.Queued(), 0),
		})
	}
	refusal := &Refusal{ID: t.refusal, Reason: r, Pushback: pushback, Grant: t.grant, HasGrant: t.hasGrant, cause: cause}
	if t.stint != nil {
		refusal.announced = t.announced
	}
	return refusal
}

// Begun says that the answer has begun. Should it go on for so long that the slot comes back
// before its end (work.Released), the time up to here says how long such work takes. Calls at once from several
// goroutines are allowed; only the first counts.
func (t *Ticket) Begun() {
	g, now := t.gate, Now()
	g.lock()
	now = g.at(now)
	if t.left || t.mode == Off {
		g.mu.Unlock()
		return
	}
	g.node.Answer(now, t.core)
	g.finish(now)
}

// Leave returns the ticket's slot and says how the request ended. Work that is Done
// after the deadline of its caller, or after the objective, is Late. Only the first
// call counts; calls at once from several goroutines are allowed.
func (t *Ticket) Leave(o work.Outcome) {
	g, now := t.gate, Now()
	if !g.leave(t, now, o) || t.mode == Off {
		return
	}
	o = t.parting.outcome
	observe := g.observe.Load()
	var event Event
	if observe != nil {
		event = Event{
			Reason: t.core.Reason(), Enforced: t.mode == Enforce, Class: t.core.Class, Workflow: t.core.Workflow,
			Priority: t.core.Priority, Outcome: o, Queued: t.queued, Service: now.Sub(t.started), Reach: t.parting.reach,
		}
		if o == work.Cancelled {
			event.Reason, event.Enforced = work.Culprit, true
		}
	}
	t.recycle()
	if t.traced.now.Load() != nil || g.tracing.Load() != nil {
		t.traced.end()
	}
	if t.stint != nil && t.visit != nil {
		t.visit.end(t, now, o)
	}
	if observe != nil {
		(*observe)(event)
	}
}

// depart tells the node that t leaves at now, and reports false if it has before. It is called with the lock
// held.
func (t *Ticket) depart(now mono.Time, o work.Outcome) bool {
	g := t.gate
	if t.left || t.mode != Off && !t.core.Running() {
		return false
	}
	t.left = true
	if t.mode == Off {
		g.off--
		return true
	}
	g.lagUnderWay(now)
	if t.cancelled {
		o = work.Cancelled
	} else {
		o, t.parting.reach = g.node.End(now, t.core, o)
	}
	if t.Span() != nil && o.Executed() && !t.failed.Load() {
		took := t.span.end(now)
		g.node.Took(now, t.core, took, o)
		if t.visit != nil {
			t.visit.took(took)
		}
	}
	g.node.Leave(now, t.core, o)
	t.reply(now)
	g.tallies.Served[o]++
	g.tasks.ended(t, o)
	g.tasks.leave(t)
	if lag := g.lag.Load(); lag != nil {
		lag.turns.ran(now.Sub(t.began))
	}
	t.parting.outcome = o
	return true
}

// finish delivers what a call to the node made due, releases the lock, and sends
// grants. It is called with the lock held.
func (g *Gate) finish(now mono.Time) {
	if g.handed.Load() != nil {
		now = g.takeOver(now)
	}
	if g.node.Queueing() {
		now = g.tell(now)
	}
	if at := g.node.NextWake(); at < g.armed && !g.closed {
		g.arm(now, at)
	}
	if !g.node.Granting() {
		g.mu.Unlock()
		return
	}
	g.deliver()
}

// tell has what waits, and leaves, hear its verdict. It returns the instant of the last. It is called with the
// lock held, and may release it for a moment.
func (g *Gate) tell(now mono.Time) mono.Time {
	for verdicts := 1; ; verdicts++ {
		t, v := g.node.Next(now)
		if t == nil {
			return now
		}
		waiter := t.Owner.(*Ticket)
		if v == admission.Shed {
			g.shed(now, waiter)
		}
		waiter.wake <- v // never blocks: one verdict a ticket
		if verdicts%verdictsHeld == 0 {
			g.mu.Unlock() // the rest is as due for the next call, or for this one
			g.mu.Lock()
			now = g.now()
		}
	}
}

// deliver releases the lock, with which it is called, and sends grants.
func (g *Gate) deliver() {
	c, grant, ok := g.node.NextGrant()
	if !ok {
		g.mu.Unlock()
		return
	}
	first := delivery{c.Owner, grant}
	var more []delivery
	for c, grant, ok = g.node.NextGrant(); ok; c, grant, ok = g.node.NextGrant() {
		more = append(more, delivery{c.Owner, grant})
	}
	g.mu.Unlock()
	first.send()
	for _, d := range more {
		d.send()
	}
}

// verdictsHeld is how many waiting requests are told of their verdicts while the lock is
// held: when the deadline of 10,000 passes at once, that takes 5 ms, and arrivals would
// wait for all of it.
const verdictsHeld = 64

// delivery is a grant on its way to a client's notify.
type delivery struct {
	owner any
	grant wire.Grant
}

func (d delivery) send() {
	if c, ok := d.owner.(*Client); ok && c.notify != nil {
		c.notify(d.grant)
	}
}

// arm starts the timer, as the node must be woken at an instant before it would fire.
func (g *Gate) arm(now, at mono.Time) {
	g.armed = at
	g.timer.Reset(max(at.Sub(now), 0))
}

func (g *Gate) onTimer() {
	g.mu.Lock()
	now := g.now()
	if g.closed {
		g.mu.Unlock()
		return
	}
	g.armed = mono.Never
	g.lagUnderWay(now)
	g.node.OnWake(now)
	questions := g.questions(now)
	g.finish(now)
	for _, ask := range questions {
		ask()
	}
}

// SetMode changes how far decisions go. Requests that wait keep waiting for
// their turn.
func (g *Gate) SetMode(m Mode) {
	g.mode.Store(uint32(m))
}

// Drain refuses every request that comes from now on; those inside finish.
func (g *Gate) Drain() {
	g.mu.Lock()
	g.node.Drain()
	g.mu.Unlock()
}

// Close refuses what comes and what waits, and stops the timer. Requests that
// run finish. Further calls do nothing.
func (g *Gate) Close() error {
	g.mu.Lock()
	now := g.now()
	g.closed = true
	g.shut.Store(true)
	g.timer.Stop()
	g.node.Drain()
	for t := g.node.Oldest(); t != nil; t = g.node.Oldest() {
		g.node.Refuse(now, t, work.Draining)
		g.shed(now, t.Owner.(*Ticket))
		t.Owner.(*Ticket).wake <- admission.Shed
	}
	g.finish(now)
	g.lag.Load().close()
	g.finder.close()
	if g.shares != nil {
		g.shares.Close()
	}
	return nil
}
