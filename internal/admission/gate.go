package admission

import (
	"errors"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

// Gate is a server's control in one machine. It is not safe for concurrent use;
// calls take constant time, but for a Next that sheds many, and do not allocate.
type Gate struct {
	cfg       Config // with defaults
	asked     Config // as configured
	limit     *slots.Limit
	kinds     slots.Kinds
	pool      *credit.Pool
	queue     *schedule.Queue
	waiters   waiters   // what is in queue
	pushed    []*Ticket // out of queue, for Next to name
	usage     *usage
	shaper    *shaper // nil without rates
	pace      pace
	worth     worth
	demand    demand
	filled    filled
	undecided int // departures since what a wait is worth was decided
	draining  bool
	running   runList
	overdue   int       // of those, as the limit was told
	lends     bool      // what runs for long gives its slot back: see slots.Limit.Lends
	lendAt    mono.Time // no slot is taken back before
	unasked   int       // requests of clients without credits, in the queue or in slots
	cpu       processors
	ticked    mono.Time     // when the pool was last woken
	bound     time.Duration // for how long credits bound, in this period of the rates
	hold      hold
	aside     aside
	lengths   lengths
}

// New returns an open gate, or every mistake in its configuration.
func New(asked Config) (*Gate, error) {
	cfg, err := asked.withDefaults()
	if err != nil {
		return nil, err
	}
	limit, errSlots := slots.New(cfg.Slots)
	pool, errCredit := credit.NewPool(cfg.Credit)
	queue, errQueue := schedule.New(cfg.Schedule)
	shaper, errRates := newShaper(cfg)
	if err := errors.Join(errSlots, errCredit, errQueue, errRates); err != nil {
		return nil, err
	}
	limit.SetOrdered(cfg.Rates != nil || cfg.Schedule.Fair || cfg.Schedule.Order != schedule.FIFO)
	return &Gate{cfg: cfg, asked: asked, limit: limit, pool: pool, queue: queue, shaper: shaper, lends: limit.Lends(), lendAt: math.MinInt64, worth: newWorth(cfg.Objective), usage: newUsage(), pace: pace{slots: limit.Limit(), scale: 1}, hold: newHold(cfg.Hold), aside: newAside()}, nil // time may begin anywhere
}

// Config returns the configuration with its defaults filled in.
func (g *Gate) Config() Config { return g.cfg }

// Objective is that of Config, which takes longer to copy than to decide about a request.
func (g *Gate) Objective() time.Duration { return g.cfg.Objective }

// Pool returns the credit pool, for registering clients and sending their
// grants. Only the gate may wake it.
func (g *Gate) Pool() *credit.Pool { return g.pool }

// Slots returns the limit on running requests, for looking at.
func (g *Gate) Slots() *slots.Limit { return g.limit }

// Waiting returns the number of requests that wait for a slot, in the queue or aside.
func (g *Gate) Waiting() int { return g.queue.Len() + g.aside.Len() }

// Shaping returns the number of requests that wait for their workflow's rate.
func (g *Gate) Shaping() int {
	if g.shaper == nil {
		return 0
	}
	return g.shaper.waiting
}

// SetWeight changes what a class gets of the slots relative to the others: see
// schedule.Queue.SetWeight.
func (g *Gate) SetWeight(class work.Class, weight float64) bool {
	g.limit.SetOrdered(true)
	return g.queue.SetWeight(class, weight)
}

// SetShare changes what a workflow gets of what its class gets, by the number that
// tickets carry as Flow: see schedule.Queue.SetShare.
func (g *Gate) SetShare(flow int, share float64) bool {
	if !g.queue.SetShare(flow, share) {
		return false
	}
	g.pool.SetShare(flow, share)
	return true
}

// Drain refuses every request that arrives from now on; those inside finish.
func (g *Gate) Drain() { g.draining = true }

// Delay returns the queueing delay at now: the age of the oldest waiting
// request, and the lag of messages in sockets. The hidden queue inside the server concerns the slots alone:
// counted here as well, it made credits and slots shrink each other, down to 7 % of the capacity of a server
// that had become slow (simulation).
func (g *Gate) Delay(now mono.Time) time.Duration {
	// What the oldest waited unseen is part of its age. A processor that comes late to
	// read a request comes late to write its answer.
	in, out := g.unseen(now), g.unseen(now)
	if oldest := g.queue.Oldest(); oldest != nil {
		in = max(in, now.Sub(oldest.Arrived))
	}
	return in + out
}

// begin begins t. The socket wait on the way in counts once: here, unless the driver knows when
// t arrived. The answer waits for a processor as long again, which shortens the objective.
func (g *Gate) begin(now mono.Time, t *Ticket) {
	if t.Arrived == 0 {
		t.Arrived = now.Add(-time.Duration(socketWait * float64(g.unseen(now))))
	}
	t.Waited += g.unseen(now)
	t.Begin(now)
}

// Expect returns the wait that a request of the class, workflow, priority and sender of t would have for a slot that
// arrived at now.
func (g *Gate) Expect(now mono.Time, t *Ticket) time.Duration {
	oldest := g.queue.Oldest()
	if oldest == nil && g.limit.Free() {
		return 0
	}
	ahead := g.queue.Ahead(t.Class, t.Flow, t.Priority, t.whom(), t.length.kind()) + 1 + max(g.limit.InUse()-g.limit.Limit(), 0)
	wait := time.Duration(g.pace.gap.value * float64(ahead))
	if oldest != nil {
		// Should departures have stopped, that tells before the length of the
		// queue does. The age of its head would tell as well, but is long by chance
		// too: refusing for that as well emptied the queue of a server with two
		// slots, at 1 % of the goodput (simulation).
		wait = max(wait, now.Sub(max(g.pace.last, oldest.Arrived)))
	}
	return wait
}

// meet takes what t tells as it comes, whatever becomes of it.
func (g *Gate) meet(now mono.Time, t *Ticket) {
	g.begin(now, t)
	g.demand.arrive(now, t.Done, g.cfg.Objective)
	g.tick(now)
	if late := now.Sub(t.Arrived); late > 0 {
		g.pool.OnDelay(g.pressure(late))
	}
	g.filled.pass(now, g.part(g.busy()), g.cfg.Objective)
	g.note(t)
	if t.Client != nil {
		g.pool.OnPeer(t.Client, t.Peer)
		if g.cfg.Schedule.Fair {
			g.pool.OnWorkflow(t.Client, t.Flow)
		}
		g.pool.OnUse(now, t.Client, t.had, t.peerHad, g.usage.total())
		t.plain = !g.pool.OnRequest(now, t.Client, t.Demand)
	}
	if g.shaper != nil {
		g.shaper.arrive(now, t, g.limit.Service())
	}
	g.watch(now)
	if g.hold.length == 0 && g.pace.slows(now) {
		g.limit.Slow(now, g.pace.gap.value)
		g.pace.follow(g.limit)
		g.decide(now)
	}
}

// Arrive decides about a request. After Wait, the driver calls Next when another
// call may have freed a slot, and no later than NextWake.
func (g *Gate) Arrive(now mono.Time, t *Ticket) Verdict {
	g.meet(now, t)
	if g.beside(now, t) {
		return t.Start(now)
	}
	g.measure(t)
	if r := g.judge(now, t, true); r != work.None {
		if g.shaper == nil && g.patient(now, r) {
			g.enter(t)
			g.setAside(now, t)
			return Wait
		}
		return g.refuse(now, t, r)
	}
	if g.shaper != nil {
		switch v, r := g.shaper.enter(now, t); v {
		case rates.Wait:
			return Wait
		case rates.Drop:
			return g.refuse(now, t, r)
		}
	}
	return g.admit(now, t, t.Arrived)
}

// admit lets t run or wait for a slot, in which it has been since an instant.
func (g *Gate) admit(now mono.Time, t *Ticket, since mono.Time) Verdict {
	t.since = since
	g.enter(t)
	if g.queue.Len() == 0 && g.limit.Free() {
		return g.run(now, t, 0)
	}
	t.fill(since, g.limit.Service())
	g.queue.Push(now, &t.task)
	if g.queue.Mixed() {
		g.limit.SetOrdered(true) // what waits inside the service, no priority orders
	}
	g.waiters.push(t)
	t.state = waiting
	return Wait
}

// enter counts t, which is let in.
func (g *Gate) enter(t *Ticket) {
	g.here(t)
	g.usage.let(&t.senders)
}

// busy reports whether a request that comes now would have to wait for a slot.
func (g *Gate) busy() bool { return g.queue.Len() > 0 || !g.limit.Free() }

// part is how much of the slots is in use, all if requests wait.
func (g *Gate) part(busy bool) float64 {
	if busy {
		return 1
	}
	return float64(g.limit.InUse()) / float64(g.limit.Limit())
}

// Observe decides about a request as Arrive does, and lets it run all the same:
// the ticket holds a slot, over the limit if need be, or runs beside as after Arrive, and must Leave. It returns
// what Arrive would have said, Wait with how long for.
func (g *Gate) Observe(now mono.Time, t *Ticket) (Verdict, time.Duration) {
	g.meet(now, t)
	g.measure(t)
	queued := g.Expect(now, t)
	wait := queued
	if t.observed = true; g.beside(now, t) {
		t.Start(now)
		return Run, 0
	}
	t.reason = g.judge(now, t, false)
	t.promised = 0 // it does not wait
	if g.shaper != nil && t.reason == work.None {
		var shaping time.Duration
		shaping, t.reason = g.shaper.observe(now, t)
		wait += shaping
	}
	g.enter(t)
	g.run(now, t, queued)
	switch {
	case t.reason != work.None:
		return Shed, 0
	case wait > 0:
		return Wait, wait
	}
	return Run, 0
}

// Next returns the next ticket that leaves the gate's queues and whether it runs or
// is shed, until it returns nil. Call it after Leave, Cancel and OnWake.
func (g *Gate) Next(now mono.Time) (*Ticket, Verdict) {
	if g.shaper != nil {
		if t, v := g.released(now); t != nil {
			return t, v
		}
	}
	if n := len(g.pushed); n > 0 {
		t := g.pushed[n-1]
		g.pushed[n-1], g.pushed = nil, g.pushed[:n-1]
		return t, Shed
	}
	g.watch(now)
	if t, r := g.weary(now); t != nil {
		return t, g.forgo(now, t, r)
	}
	for g.queue.Len() > 0 {
		if task := g.queue.Expired(now); task != nil {
			t := task.Owner.(*Ticket)
			return t, g.dismiss(now, t, late(now, t.Deadline))
		}
		oldest := g.queue.Oldest()
		t := oldest.Owner.(*Ticket)
		if r := g.stale(now, t); r != work.None {
			if g.queue.Remove(oldest); g.lays(now, t, r) {
				continue
			}
			return t, g.dismiss(now, t, r)
		}
		if !g.limit.Free() {
			return nil, Wait
		}
		if t := g.takeAside(now); g.precedes(now, t) {
			return t, g.serve(now, t)
		}
		task, _ := g.queue.Next(now) // runs: what cannot was taken out above
		t = task.Owner.(*Ticket)
		t.overtaken = task.Overtaken()
		r := g.stale(now, t)
		if r == work.None && g.hold.open && !g.cfg.NoAQM && g.hopeless(now, t) {
			r = work.Delay // but kept
		}
		if r == work.None {
			g.waiters.remove(t)
			return t, g.run(now, t, now.Sub(task.Arrived))
		}
		if g.queue.Settle(task, 0); g.lays(now, t, r) {
			continue
		}
		return t, g.dismiss(now, t, r)
	}
	if t := g.takeAside(now); t != nil && g.limit.Free() {
		return t, g.serve(now, t)
	}
	return nil, Wait
}

// lays has t, which was taken out of the queue for r, wait aside if it may, and reports whether it does.
func (g *Gate) lays(now mono.Time, t *Ticket, r work.Reason) bool {
	if !g.patient(now, r) {
		return false
	}
	g.waiters.remove(t)
	g.setAside(now, t)
	return true
}

// serve runs t, which waits aside.
func (g *Gate) serve(now mono.Time, t *Ticket) Verdict {
	g.comeBack(t)
	g.here(t)
	if g.queue.Len() == 0 {
		g.demand.idle = now // what comes now waits for a slot for the sake of t alone
	}
	return g.run(now, t, now.Sub(t.since))
}

// released takes the requests that their rates let through out of the shaper. It returns each one
// that does not go on to wait for a slot.
func (g *Gate) released(now mono.Time) (*Ticket, Verdict) {
	for {
		t, r := g.shaper.next(now)
		switch {
		case t == nil:
			return nil, Wait
		case r != work.None:
			return t, g.refuse(now, t, r)
		}
		// With a free slot it runs: see tooLong.
		if wait := g.Expect(now, t); wait > 0 && t.Deadline != mono.Never && wait+g.worth.need > t.Deadline.Sub(now) {
			return t, g.turnAway(now, t, late(now, t.Deadline))
		}
		// It was held back on purpose: no queueing delay.
		t.promised = g.Expect(now, t)
		if v := g.admit(now, t, now); v == Run {
			return t, v
		}
	}
}

// dismiss refuses a ticket that was taken out of the queue.
func (g *Gate) dismiss(now mono.Time, t *Ticket, r work.Reason) Verdict {
	g.gone(t)
	g.waiters.remove(t)
	g.usage.add(&t.senders, -1)
	return g.turnAway(now, t, r)
}

// turnAway refuses a ticket that its rate let through and of which nothing ran.
func (g *Gate) turnAway(now mono.Time, t *Ticket, r work.Reason) Verdict {
	if g.shaper != nil {
		g.shaper.adapter.OnCancel(&t.rated)
	}
	return g.refuse(now, t, r)
}

// refuse counts what is refused: see OnBusy.
func (g *Gate) refuse(now mono.Time, t *Ticket, r work.Reason) Verdict {
	g.cpu.turned++
	return t.Refuse(now, r)
}

// Cancel takes a waiting ticket out of the queue whose caller gave up. It
// reports false if the ticket was not waiting: then it runs or was shed.
func (g *Gate) Cancel(now mono.Time, t *Ticket) bool { return g.Refuse(now, t, work.Canceled) }

// Refuse takes a waiting ticket out of the queue for a reason of the driver's,
// as Cancel does.
func (g *Gate) Refuse(now mono.Time, t *Ticket, r work.Reason) bool {
	switch {
	case t.state == shaped:
		g.shaper.cancel(t)
		t.Refuse(now, r)
	case t.aside != nil:
		g.forgo(now, t, r)
	case g.queue.Remove(&t.task):
		g.dismiss(now, t, r)
	default:
		return false
	}
	return true
}

// Oldest returns a ticket that waits, the one that has waited longest if all wait
// in the queue; nil if none does.
func (g *Gate) Oldest() *Ticket {
	if oldest := g.queue.Oldest(); oldest != nil {
		return oldest.Owner.(*Ticket)
	}
	if t := g.aside.head(); t != nil {
		return t
	}
	if g.shaper != nil {
		return g.shaper.any()
	}
	return nil
}

// run gives t, which waited for it, a slot.
func (g *Gate) run(now mono.Time, t *Ticket, waited time.Duration) Verdict {
	if g.shaper != nil {
		g.shaper.waits.Add(now, max(waited, 0))
	}
	g.count(now)
	t.slot = g.limit.Acquire(now)
	t.slot.Waited = now.Sub(t.since) + g.cfg.Objective - t.objective(g.cfg.Objective)
	if !g.limit.Free() {
		g.pace.full(now)
	}
	t.scale = g.pace.scale
	if waited > 0 && g.sample(t) && !t.overtaken {
		g.worth.kept(waited-t.promised, float64(t.promised)*g.pace.gap.value)
	}
	g.begins(t)
	g.running.push(t, now.Add(t.objective(g.cfg.Objective)))
	return t.Start(now)
}
