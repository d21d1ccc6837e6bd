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
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Verdict is what becomes of a ticket.
type Verdict uint8

const (
	// Wait: the ticket is in the queue until Next names it.
	Wait Verdict = iota
	// Run: the ticket holds a slot until Leave.
	Run
	// Shed: the request is refused for Ticket.Reason. It still must be replied
	// to through Reply, which carries the client's credits.
	Shed
)

// String names v as scripts and logs do.
func (v Verdict) String() string {
	switch v {
	case Wait:
		return "wait"
	case Run:
		return "run"
	case Shed:
		return "shed"
	}
	return "unknown"
}

// Ticket is one request's passage through a Gate. The driver allocates it, fills
// the exported fields and passes it to Arrive; it may use it again once it was
// replied to.
type Ticket struct {
	work.Request
	// Client is the account that pays for the request, nil for a client that
	// knows no credits.
	Client *credit.Client
	// Arrived is the instant at which the request reached this server, if the driver
	// knows that it was earlier than Arrive: what lies between counts as queueing delay.
	// Zero means the instant of Arrive, less what requests lie in sockets: see OnLag.
	Arrived mono.Time
	// Waited is for how long the request waited at its client before it was sent. It
	// is part of what the caller sees of the objective, and no queueing delay.
	Waited time.Duration
	// Flow is the small number that the driver gave to the workflow, for the order
	// of the queue: see schedule.Task.Workflow.
	Flow int
	// Remaining is the service that the request still needs, here and further on;
	// Total what it needs altogether; Done what it has had. From progress metrics,
	// 0 if unknown.
	Remaining, Total, Done time.Duration
	// Least is what of Remaining is likely to be needed: see schedule.Task.
	Least time.Duration
	// From is the process that sent the request, and Claim the rate at which it
	// would send requests of this workflow if nothing held it back, in requests/s, 0
	// if it did not say. They count where workflows have rates: see rates.Request.
	From  rates.Peer
	Claim float64
	// Source is the sender of the request, and Peer the party that answers for all of its
	// sources, as an address does for its connections: numbers that the driver chose, 0
	// if it does not know. When the queue is full, requests of those that had more than
	// others are refused first: peers among each other, sources among those of one peer.
	// Without a Source, the Client is the sender.
	Source, Peer uint64
	// Whom is whose turn the request takes, with Schedule.Senders: for whom its sender asks, if the
	// driver knows that and believes it. 0 means the Peer, or of one that is not known the Source.
	Whom uint64
	// Objective is the time within which an answer to this request helps its caller, for a
	// method whose objective is not the gate's. 0 means the gate's.
	Objective time.Duration
	// Barred is why the driver has the request refused on arrival, work.None if it has
	// no reason of its own.
	Barred work.Reason
	// Owner is for the driver.
	Owner any
	// Mark is for a policy other than Gate, to find on Leave what it noted on
	// Arrive; Stay is the same for what stands around the policy.
	Mark int
	Stay any

	reason     work.Reason
	state      state
	plain      bool // over its window or without one: stricter AQM
	started    mono.Time
	since      mono.Time     // in the queue for a slot
	due        mono.Time     // its objective ends, counted from its start
	overdue    bool          // it has, and the slot is still held
	answered   mono.Time     // its answer began, 0 before
	scale      float64       // of residences, when it started
	promised   time.Duration // the wait that was expected then
	slot       slots.Place   // see slots.Limit
	lent       bool          // ran for longer than the objective and gave its slot back
	pushed     bool          // out of the queue, for somebody who had less
	spared     bool          // at its turn, as those behind it had more
	overtaken  bool          // by others whose turns were before its sender's
	senders    senders       // in Gate.usage
	had        float64       // what its source had when it came, and its peer
	peerHad    float64
	place      int // in Gate.waiters
	task       schedule.Task
	rated      rates.Request
	prev, next *Ticket
}

type state uint8

const (
	fresh  state = iota
	shaped       // waits for its workflow's rate
	waiting
	running
	ended
)

// Reason says why the ticket was shed; work.None if it was not.
func (t *Ticket) Reason() work.Reason { return t.reason }

// Running reports whether the ticket runs, with a slot or after it gave that back: see
// Lent.
func (t *Ticket) Running() bool { return t.state == running }

// Lent reports whether the ticket, which runs, gave its slot back: see
// slots.Limit.Lend.
func (t *Ticket) Lent() bool { return t.lent }

// Waiting reports since when the ticket waits for a slot, if it does.
func (t *Ticket) Waiting() (since mono.Time, waits bool) { return t.since, t.state == waiting }

// useful is the instant after which an answer is late: for its caller, or for the
// objective, which counts from the instant at which the client meant to send.
func (t *Ticket) useful(objective time.Duration) mono.Time {
	return min(t.Deadline, t.Arrived.Add(t.objective(objective)-t.Waited))
}

// objective is what counts for t at a gate with an objective.
func (t *Ticket) objective(gate time.Duration) time.Duration {
	if t.Objective > 0 {
		return t.Objective
	}
	return gate
}

// Late reports whether an answer at now comes too late for t, which arrived: after the
// deadline of its caller or after the objective.
func (g *Gate) Late(now mono.Time, t *Ticket) bool { return now > t.useful(g.cfg.Objective) }

// Queued returns how long the ticket waited before it ran, or was shed.
func (t *Ticket) Queued() time.Duration { return t.started.Sub(t.Arrived) }

// refusalCost is the processor time that a refusal costs: 17 µs for a call that an
// interceptor of grpc-go refuses, and what its client costs. A server whose
// requests take less than twice that gains nothing by refusing some.
const refusalCost = 20 * time.Microsecond

const (
	// noDelay is which part of TargetDelay, inverted, messages may wait for in sockets where nothing is queued: 1.2 ms of
	// an objective of 100 ms. They wait for some microseconds in every process. With a quarter a fan-out in a spike did 14 %
	// less.
	noDelay = 32
	// decideEvery is after how many departures it is decided anew what a wait is worth.
	decideEvery = 16
	// arrivalMemory is over how many arrivals the time between them, and the share of
	// those refused, is smoothed.
	arrivalMemory = 64
	// refusedMuch is the share of refusals that is an overload, and no burst.
	refusedMuch = 0.15
)

// forgotten is where a mean that fades away becomes 0: the processor takes a hundred
// times as long for numbers that are nearly too small to be written down.
const forgotten = 1e-30

// A process is short of processors if its CPU utilization, averaged over busyCalls calls of OnBusy, reaches
// busyFrom, until it falls to busyUntil. It is short at once if it uses allBusy of them, all but for chance, while
// messages wait, because a burst ends before the average has risen. The CPU time of refusals does not count, because
// more running requests can be useful beside them. A refusal takes refusalTime, system and gRPC included, at 5,000
// refusals/s; at 1,000/s, between running requests, it takes sparseRefusalTime, because it has to wake up everything
// that takes part in it (measured with a server on one core that refuses everything).
const (
	busyFrom          = 0.8
	busyUntil         = 0.6
	allBusy           = 0.95
	busyCalls         = 10
	refusalTime       = 100 * time.Microsecond
	sparseRefusalTime = 250 * time.Microsecond
)

// The host's processors are short if hostShort of them are in use and messages have waited for this process for
// hostLag of the objective within the last hostLagged objectives. Without the second condition a neighbour that uses
// only what others leave counted as a shortage, and four of five short requests beside late long polls were refused.
// With a tenth of the objective the worst call graphs that share a machine lose a twentieth.
const (
	hostShort  = 0.95
	hostLag    = 1.0 / 100
	hostLagged = 256
)

// shortLag is the part of the objective from which on a lag shows that the processors are
// short, whatever uses them: otherwise messages do not wait. Without it, refusals of 17 µs
// that counted as refusalTime let the limit for handlers of 100 µs grow without end. A
// fifth, a twentieth and a fortieth are no better (simulation).
const shortLag = 1.0 / 10

// changed is how long, in objectives, credits stay out that were granted before a server became
// slower: a second where the objective is 200 ms.
const changed = 5

// lagIntervals is how many intervals of the pool a short lag counts.
const lagIntervals = 8

// Gate is a server's control in one machine. It is not safe for concurrent use;
// calls take constant time, but for a Next that sheds many, and do not allocate.
type Gate struct {
	cfg      Config // with defaults
	asked    Config // as configured
	limit    *slots.Limit
	pool     *credit.Pool
	queue    *schedule.Queue
	waiters  waiters   // what is in queue
	pushed   []*Ticket // out of queue, for Next to name
	usage    *usage
	shaper   *shaper // nil without rates
	pace     pace
	sunk     float64 // ns of work that requests have had before they come here, smoothed
	worth    worth
	between  float64   // ns between two arrivals, smoothed
	arrived  bool      // something has, at seen
	idle     mono.Time // when a slot was free last
	refused  float64   // share of the arrivals that waited too long, smoothed
	filled   filled
	events   int // since what a wait is worth was decided
	draining bool
	running  runList
	overdue  int           // of those, as the limit was told
	lends    bool          // what runs for long gives its slot back: see slots.Limit.Lends
	lendAt   mono.Time     // no slot is taken back before
	seen     mono.Time     // of the last arrival
	unasked  int           // requests of clients without credits, waiting or running
	lag      time.Duration // before requests are seen; see OnLag
	burnt    float64       // share of the processors that is used; see OnBusy
	own      float64       // the same, with what refusals use
	turned   int           // refusals since
	lagged   time.Duration // for so long the host's processors are short for this process, if they are all used
	host     float64       // share of the host's processors that is used, by all
	lagUntil mono.Time     // when it is too old to count
	ticked   mono.Time     // when the pool was last woken
	bound    time.Duration // for how long credits bound, in this period of the rates
	hold     hold
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
	return &Gate{cfg: cfg, asked: asked, limit: limit, pool: pool, queue: queue, shaper: shaper, lends: limit.Lends(), lendAt: math.MinInt64, worth: newWorth(cfg.Objective), usage: newUsage(), pace: pace{slots: limit.Limit(), scale: 1}, hold: newHold(cfg.Hold)}, nil // time may begin anywhere
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

// Waiting returns the number of requests in the queue for a slot.
func (g *Gate) Waiting() int { return g.queue.Len() }

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

// socketWait is the part of the lag that a request has waited before it is seen: that of
// a byte which is sent as others are read is the longest. With handlers that burn a
// processor, 32 connections and lags of more than 2 ms, requests waited 0.5 to 1.1 times
// the lag from their sending to their handler, on average, 0.8 in most runs, over gRPC as
// over HTTP/1.1 and 2; from the reader of the connection to the handler it was a tenth.
const socketWait = 0.75

// begin begins t. The socket wait on the way in counts once: here, unless the driver knows when
// t arrived. The answer waits for a processor as long again, which shortens the objective.
func (g *Gate) begin(now mono.Time, t *Ticket) {
	if t.Arrived == 0 {
		t.Arrived = now.Add(-time.Duration(socketWait * float64(g.unseen(now))))
	}
	t.Waited += g.unseen(now)
	t.Begin(now)
}

// Expect returns the wait that a request of the default class and workflow, and of a sender of
// which nothing waits, arriving at now would have for a slot.
func (g *Gate) Expect(now mono.Time) time.Duration { return g.expect(now, work.Default, 0, 0) }

func (g *Gate) expect(now mono.Time, class work.Class, flow int, whom uint64) time.Duration {
	oldest := g.queue.Oldest()
	if oldest == nil && g.limit.Free() {
		return 0
	}
	ahead := g.queue.Ahead(class, flow, whom) + 1 + max(g.limit.InUse()-g.limit.Limit(), 0)
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

// Arrive decides about a request. After Wait, the driver calls Next when another
// call may have freed a slot, and no later than NextWake.
func (g *Gate) Arrive(now mono.Time, t *Ticket) Verdict {
	g.begin(now, t)
	if g.arrived {
		apart := float64(min(max(now.Sub(g.seen), 1), g.cfg.Objective))
		if g.between == 0 {
			g.between = apart
		}
		g.between += (apart - g.between) / arrivalMemory
	}
	g.seen, g.arrived = now, true
	if t.Done > 0 || g.sunk > 0 {
		g.sink(t.Done)
	}
	g.tick(now)
	if late := now.Sub(t.Arrived); late > 0 {
		g.pool.OnDelay(g.pressure(late))
	}
	g.filled.pass(now, g.part(), g.cfg.Objective)
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
	if r := g.judge(now, t, true); r != work.None {
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

// sink takes what a request has had before it came here.
func (g *Gate) sink(done time.Duration) {
	if g.sunk += (float64(max(done, 0)) - g.sunk) / 16; g.sunk < forgotten {
		g.sunk = 0
	}
}

// admit lets t run or wait for a slot, in which it has been since an instant.
func (g *Gate) admit(now mono.Time, t *Ticket, since mono.Time) Verdict {
	t.since = since
	if t.Client == nil {
		g.unasked++
	}
	g.usage.let(&t.senders)
	if g.queue.Len() == 0 && g.limit.Free() {
		return g.run(now, t, 0)
	}
	t.fill(since, g.limit.Service())
	g.queue.Push(now, &t.task)
	g.waiters.push(t)
	t.state, t.overtaken = waiting, t.task.Overtaken()
	return Wait
}

// fill tells the queue about t.
func (t *Ticket) fill(since mono.Time, cost time.Duration) {
	k := &t.task
	k.Sender = t.whom()
	k.Workflow, k.Class, k.Priority, k.Arrived, k.Deadline = t.Flow, t.Class, t.Priority, since, t.Deadline
	k.Remaining, k.Total, k.Done, k.Least, k.Cost, k.Owner = t.Remaining, t.Total, t.Done, t.Least, cost, t
}

// OnLag takes a measurement of the time that requests lie in sockets before this
// process sees them: queueing delay that no ticket shows. It counts until the next
// one, for about as long again at most.
func (g *Gate) OnLag(now mono.Time, d time.Duration) {
	g.lag = d
	g.lagUntil = now.Add(max(2*d, lagIntervals*g.pool.Interval()))
	g.tick(now)
}

// OnBusy takes the CPU time that this process used since the last call, about 20 ms ago, and
// the most that it could have used of its processors. If the two are close, more running
// requests than processors only share these. The CPU time of refusals does not count, unless
// messages wait for the processors: its estimate is too rough then. host is the CPU utilization
// of the host by all processes, 0 if unknown. The processors of a machine that runs a whole call
// graph may be short although this process uses few of them; messages wait for this process
// then (OnLag).
func (g *Gate) OnBusy(used, all time.Duration, processors int, host float64) {
	g.host += (host - g.host) / busyCalls
	if g.lagged -= all / time.Duration(max(processors, 1)); float64(g.lag) >= hostLag*float64(g.cfg.Objective) {
		g.lagged = hostLagged * g.cfg.Objective
	}
	g.limit.SetShort(g.host >= hostShort && g.lagged > 0)
	g.own += (float64(used)/float64(all) - g.own) / busyCalls
	if g.limit.Useful() == 0 && float64(g.lag) < shortLag*float64(g.cfg.Objective) {
		used = max(used-time.Duration(g.turned)*refusalTime, 0)
	}
	share := float64(used) / float64(all)
	if g.burnt += (share - g.burnt) / busyCalls; share >= allBusy && float64(g.lag) >= shortLag*float64(g.cfg.Objective) {
		g.burnt = max(g.burnt, busyFrom)
	}
	g.turned = 0
	switch {
	case g.burnt >= busyFrom:
		g.limit.SetUseful(processors)
	case g.burnt <= busyUntil:
		g.limit.SetUseful(0)
	}
}

// Busy reports whether this process itself uses most of its processors: see OnBusy. If it does not, messages
// that wait do so because of other processes.
func (g *Gate) Busy() bool { return g.own >= busyUntil }

// behind is how long the messages of a request wait for this process's own work, on the way in
// and on the way out: a part of what many slots cost. If other processes use the processors,
// fewer slots would change nothing.
func (g *Gate) behind(now mono.Time) time.Duration {
	if !g.Busy() {
		return 0
	}
	return 2 * g.unseen(now)
}

// unseen returns the lag at now.
func (g *Gate) unseen(now mono.Time) time.Duration {
	if now > g.lagUntil {
		return 0
	}
	return g.lag
}

// busy reports whether a request that comes now would have to wait for a slot.
func (g *Gate) busy() bool { return g.queue.Len() > 0 || !g.limit.Free() }

// part is how much of the slots is in use, all if requests wait.
func (g *Gate) part() float64 {
	if g.busy() {
		return 1
	}
	return float64(g.limit.InUse()) / float64(g.limit.Limit())
}

// Observe decides about a request as Arrive does, and lets it run all the same:
// the ticket holds a slot, over the limit if need be, and must Leave. It returns
// what Arrive would have said, Wait with how long for.
func (g *Gate) Observe(now mono.Time, t *Ticket) (Verdict, time.Duration) {
	g.begin(now, t)
	g.tick(now)
	g.note(t)
	if t.Client != nil && !g.pool.OnRequest(now, t.Client, t.Demand) {
		t.plain = true
	}
	queued := g.expect(now, t.Class, t.Flow, t.whom())
	wait := queued
	if g.shaper != nil {
		g.shaper.arrive(now, t, g.limit.Service())
	}
	t.reason = g.judge(now, t, false)
	t.promised = 0 // it does not wait
	if g.shaper != nil && t.reason == work.None {
		var shaping time.Duration
		shaping, t.reason = g.shaper.observe(now, t)
		wait += shaping
	}
	if t.Client == nil {
		g.unasked++
	}
	g.usage.let(&t.senders)
	g.run(now, t, queued)
	switch {
	case t.reason != work.None:
		return Shed, 0
	case wait > 0:
		return Wait, wait
	}
	return Run, 0
}

// judge returns why t is refused on arrival, if it is. With room, it may push out another request for it.
func (g *Gate) judge(now mono.Time, t *Ticket, room bool) work.Reason {
	switch {
	case g.draining:
		return work.Draining
	case t.Barred != work.None:
		return t.Barred
	case t.Budget(now) <= 0:
		return work.Expired
	case g.queue.Len() >= g.cfg.QueueLimit && (t.Attempt > 0 || !(room && g.makeRoom(now, t, true))):
		return work.QueueFull
	case g.cfg.NoAQM:
		return work.None
	}
	var expected time.Duration
	if g.busy() {
		expected = g.expect(now, t.Class, t.Flow, t.whom())
	}
	if expected == 0 {
		g.idle = now
	}
	wait := now.Sub(t.Arrived) + expected
	t.promised = wait
	if t.Attempt > 0 {
		if g.yields(now, wait, expected > 0) && !g.keeps(now) {
			return work.Delay
		}
	} else if g.refused > 0 {
		if g.refused -= g.refused / arrivalMemory; g.refused < forgotten {
			g.refused = 0
		}
	}
	if t.Client != nil && t.plain && (expected > 0 || g.pool.Demand() > t.Client.Demand()) {
		// Beyond its grant. A free slot belongs to the clients that wait for a grant.
		return work.Share
	}
	if wait <= 0 {
		return work.None
	}
	if r := g.tooLong(t, wait, expected > 0); r != work.None && !g.keeps(now) {
		g.refused += 1.0 / arrivalMemory
		g.pool.OnDelay(g.pressure(wait))
		wait -= time.Duration(g.pace.gap.value)
		if late := wait > t.useful(g.cfg.Objective).Sub(t.Arrived)-g.worth.hope; late || expected == 0 || !room || !g.makeRoom(now, t, false) {
			return r
		}
		t.promised = wait // with one less ahead
		return work.None
	}
	if t.Client == nil && expected > 0 && wait > g.cfg.TargetDelay/2 && g.crowded() && !g.keeps(now) {
		return work.Share
	}
	return work.None
}

// yields reports whether a retry that would wait so long is refused in favour of fresh
// requests, which have more of their objectives left. The heavier the overload, the shorter
// a retry may wait; in a full overload it may not wait at all. A free slot serves a retry,
// too. Retries and their refusals are no sign of overload: first attempts are the load.
func (g *Gate) yields(now mono.Time, wait time.Duration, queued bool) bool {
	return queued && float64(wait) > (1-g.overload(now))*float64(g.maxDelay())
}

// tooLong returns why a request with an expected wait above 0 is refused, if it is. While a slot is
// free, no request is refused for its deadline by estimate: if the estimate were too high,
// nothing would run to correct it.
func (g *Gate) tooLong(t *Ticket, wait time.Duration, queued bool) work.Reason {
	most := g.maxDelay()
	if !queued {
		most = max(most, max(g.cfg.Objective-g.worth.need, 0)/2)
	}
	switch {
	case wait > most:
		return work.Delay
	case !queued || g.cfg.Schedule.Order.ByDeadline():
		return work.None // who has little time left goes first, and what is lost leaves the queue
	}
	budget := t.useful(g.cfg.Objective).Sub(t.Arrived)
	switch {
	case budget >= g.cfg.Objective || wait <= g.worth.worthwhile(budget):
		return work.None
	case t.Deadline.Sub(t.Arrived) > budget:
		return work.Delay // its caller would wait, the objective would be missed
	}
	return work.Infeasible
}

// crowded reports whether clients without credits, taken together, have half of the
// gate beside clients with credits. A queue of their requests would take the credits of
// the clients that wait for one.
func (g *Gate) crowded() bool {
	return g.pool.Clients() > 0 && 2*g.unasked >= g.queue.Len()+g.limit.InUse()
}

// maxDelay is the expected wait beyond which a request is refused on arrival.
func (g *Gate) maxDelay() time.Duration { return min(g.cfg.MaxDelay, g.worth.wait) }

// overload is 1 if many requests are refused or the queue stands for long, and 0 if few are
// refused and the queue runs empty now and then.
func (g *Gate) overload(now mono.Time) float64 {
	return max(0, min(max(g.refused/refusedMuch, g.standing(now)), 1))
}

// sustained is overload, but refusals count only as far as the slots have had no pauses.
func (g *Gate) sustained(now mono.Time) float64 {
	if g.limit.Sharing() {
		return g.overload(now) // the processors have no pauses, whatever the slots have
	}
	return max(0, min(max(min(g.refused/refusedMuch, g.filled.sustained()), g.standing(now)), 1))
}

// standing is above 0 if for longer than an objective a request would have had to wait, and 1 after two.
func (g *Gate) standing(now mono.Time) float64 {
	return float64(now.Sub(g.idle))/float64(g.cfg.Objective) - 1
}

// decide decides anew what a wait is worth, every few events.
func (g *Gate) decide(now mono.Time) {
	if g.events++; g.events < decideEvery && g.worth.count >= decideEvery && !g.worth.outdated(&g.pace) {
		return
	}
	g.events = 0
	if g.sunk > 0 {
		// Services further up hold requests back if they see this one's queue.
		g.limit.SetOrdered(true)
	}
	load := 0.0
	if g.between > 0 {
		load = g.pace.gap.value / g.between
	}
	// One wait in a hundred is then longer than promised by so much that it ends with a
	// refusal. While processors are short, a late start or refusal waits for one once more on
	// its way out.
	deviations := 3.0
	if g.limit.Useful() > 0 {
		deviations = 4
	}
	g.worth.refresh(&g.pace, load, deviations, g.sustained(now))
}

// tolerated is the share of the arrivals that is worth refusing, for the queue not
// to run empty. At an offered load of 1+y, a server whose queue may hold n requests
// idles for about y/(exp(ny)−1) of its time, and spends c·y on refusals of c
// services each. The sum is least at ny = 1.8·ln(1/2c), within a tenth for c from
// 0.01 to 0.5. With two slots and exponential times, at twice the capacity, that
// is 5 % of the goodput (simulation).
//
// The upstream work already spent on a request counts as a cost of its refusal: far down a
// call graph, requests are better held back at the entry.
func (g *Gate) tolerated() float64 {
	refusal := refusalCost
	if g.limit.Useful() > 0 {
		refusal = sparseRefusalTime
	}
	cost := (float64(refusal) + g.sunk) / g.pace.gap.value // infinite before the first departure
	ny := 1.8 * math.Log(0.5/cost)
	if !(ny > 0) {
		return 0
	}
	n := max(float64(min(g.cfg.MaxDelay, g.worth.strict))/g.pace.gap.value, ny)
	return ny / (n + ny)
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
	if g.queue.Len() == 0 {
		return nil, Wait
	}
	if task := g.queue.Expired(now); task != nil {
		t := task.Owner.(*Ticket)
		return t, g.dismiss(now, t, late(now, t.Deadline))
	}
	g.watch(now)
	oldest := g.queue.Oldest()
	t := oldest.Owner.(*Ticket)
	if r := g.stale(now, t); r != work.None {
		g.queue.Remove(oldest)
		return t, g.dismiss(now, t, r)
	}
	if !g.limit.Free() {
		return nil, Wait
	}
	task, _ := g.queue.Next(now) // runs: what cannot was taken out above
	t = task.Owner.(*Ticket)
	if r := g.stale(now, t); r != work.None {
		g.queue.Settle(task, 0)
		return t, g.dismiss(now, t, r)
	}
	g.waiters.remove(t)
	return t, g.run(now, t, now.Sub(task.Arrived))
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
		if wait := g.expect(now, t.Class, t.Flow, t.whom()); wait > 0 && t.Deadline != mono.Never && wait+g.worth.need > t.Deadline.Sub(now) {
			return t, g.turnAway(now, t, late(now, t.Deadline))
		}
		// It was held back on purpose: no queueing delay.
		t.promised = g.expect(now, t.Class, t.Flow, t.whom())
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
	g.turned++
	return t.Refuse(now, r)
}

// late is why a request was dropped that cannot meet its deadline.
func late(now, deadline mono.Time) work.Reason {
	if deadline <= now {
		return work.Expired
	}
	return work.Infeasible
}

// stale returns why t has waited too long to be of use, if it has.
func (g *Gate) stale(now mono.Time, t *Ticket) work.Reason {
	switch {
	case g.cfg.NoAQM || now <= g.staleAt(t) || g.spare(now, t) || g.keeps(now) && t.Budget(now) > g.worth.hope:
		return work.None
	case t.Budget(now) <= g.worth.hope:
		return work.Infeasible
	}
	return work.Delay
}

// staleAt is the last instant at which t may still start: later its answer would
// likely miss its deadline or the objective. While others wait behind it, the time is
// better spent on one of them. While processors are short it is not, because a late
// refusal costs as much as an answer.
func (g *Gate) staleAt(t *Ticket) mono.Time {
	need := g.worth.hope
	switch {
	case g.queue.Len() <= 1 || g.limit.Useful() > 0 || t.spared:
	case t.plain || g.pace.slowed(changed*g.cfg.Objective): // the credits are those of a faster server
		need = g.worth.need
	default:
		need = g.worth.credited
	}
	at := t.task.Arrived.Add(max(g.cfg.Objective-t.Waited-need, g.cfg.Objective/16))
	if g.hold.open {
		at = max(at, g.hold.until)
		need = g.worth.hope
	}
	if t.Deadline != mono.Never {
		at = min(at, t.Deadline.Add(-need))
	}
	return at
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
	case g.queue.Remove(&t.task):
		g.dismiss(now, t, r)
	default:
		return false
	}
	return true
}

// Oldest returns a ticket that waits, the one that has waited longest if all wait
// for a slot; nil if none does.
func (g *Gate) Oldest() *Ticket {
	if oldest := g.queue.Oldest(); oldest != nil {
		return oldest.Owner.(*Ticket)
	}
	if g.shaper != nil {
		return g.shaper.any()
	}
	return nil
}

// Answer says that the answer to a ticket that runs has begun. Should the ticket leave as work.Released
// its time up to here is a sample of the service. A second call does nothing.
func (g *Gate) Answer(now mono.Time, t *Ticket) {
	if t.answered != 0 || t.state != running {
		return
	}
	t.answered = now
	if !t.lent {
		g.limit.Answer(now, &t.slot)
	}
}

// Leave returns the slot of a ticket that ran. A second call does nothing.
func (g *Gate) Leave(now mono.Time, t *Ticket, o work.Outcome) {
	if !t.End() {
		return
	}
	g.departs(now)
	g.gone(t)
	g.pass(now)
	g.running.remove(t)
	until, executed, sample := now, o.Executed(), g.sample(t)
	if o == work.Released {
		executed = t.answered != 0
		if sample = sample && executed; executed {
			until = t.answered
		}
	}
	ran := until.Sub(t.started)
	took := g.pace.ran.value // where this one tells nothing
	if sample && !t.lent && o != work.Cancelled && (executed || float64(ran) > g.pace.ran.value) {
		g.pace.ran.add(float64(ran))
		took = float64(ran)
		all := until.Sub(t.since) - t.promised
		if g.cfg.Schedule.Order.ByDeadline() || t.overtaken {
			all = ran // to be overtaken is no doubt about how long a service takes
		}
		g.worth.add(g.pace.share(all, t.scale))
	}
	if !t.lent && g.pace.ran.value > 0 {
		g.usage.add(&t.senders, min(float64(ran)/g.pace.ran.value, longest)-1)
	}
	if sample {
		g.decide(now)
	}
	if g.shaper != nil {
		used := ran
		if g.settling() || !sample {
			used = min(used, g.limit.Service()) // the rest is a queue that there should not have been
		}
		g.shaper.leave(now, t, o, used/time.Duration(g.limit.Limit()))
	}
	g.free(now, t, o, sample)
	g.pace.follow(g.limit)
	busy := g.busy()
	g.filled.pass(now, g.part(), g.cfg.Objective)
	if !busy {
		g.idle = now
	}
	if sample {
		g.pace.left(now, busy, g.cfg.Objective, took)
	} else {
		g.pace.busy, g.pace.last, g.pace.quiet = false, now, silence{last: now}
	}
	if g.hold.open && (g.hold.found || !g.hold.named) && !busy {
		g.release(now)
	}
	g.queue.Settle(&t.task, ran)
	g.tick(now)
}

// free returns the slot of t, which is a sample of the service or is none.
func (g *Gate) free(now mono.Time, t *Ticket, o work.Outcome, sample bool) {
	if o == work.Dropped {
		g.limit.Barren()
	}
	switch {
	case t.lent:
		g.limit.Repay(now, t.started, t.slot, o.Executed() || o == work.Released)
	case !sample:
		g.limit.Return(now, t.slot)
	case o == work.Released:
		g.limit.Part(now, t.started.Add(-g.behind(now)), t.slot)
	default:
		g.limit.Release(now, t.started.Add(-g.behind(now)), t.slot, o.Executed())
	}
}

// Reply returns the grant for the reply to t, and false if that carries none, as it would tell the
// client nothing new: see credit.Pool.Tells. It must be called once for every
// ticket that arrived and has a Client, whatever became of it, after Leave, Shed
// or Cancel; later calls return the zero Grant and false.
func (g *Gate) Reply(now mono.Time, t *Ticket) (grant wire.Grant, tells bool) {
	tells = g.ReplyTo(now, t, &grant)
	return grant, tells
}

// ReplyTo is Reply that writes to grant, and only if the reply carries it.
func (g *Gate) ReplyTo(now mono.Time, t *Ticket, grant *wire.Grant) (tells bool) {
	c := t.Client
	if c == nil || t.state != ended {
		return false
	}
	t.Client = nil
	if t.reason == work.Delay || t.reason == work.QueueFull || t.reason == work.Infeasible || t.pushed {
		g.pool.OnShed()
	}
	if !g.pool.Reply(now, c, t.Asks || t.reason != work.None, g.cfg.Schedule.Fair, grant) {
		return false
	}
	if g.cfg.Schedule.Fair {
		grant.Part = g.pool.Part(t.Flow)
	}
	return true
}

// NextWake returns the instant at which a waiting ticket becomes too old, or the
// pool must act on its own, or mono.Never.
func (g *Gate) NextWake() mono.Time {
	at := mono.Never
	if t := g.running.head; t != nil && g.lends {
		at = max(t.due+1, g.lendAt)
	}
	if g.pool.Wanted(g.seen) {
		at = min(at, g.pool.NextWake())
	}
	if g.shaper != nil && g.shaper.adapter != nil {
		at = min(at, g.shaper.adapter.NextWake())
	}
	if g.Queueing() {
		at = g.turns(at)
	}
	return at
}

// turns returns when something that waits leaves or has a turn, if it is before at.
func (g *Gate) turns(at mono.Time) mono.Time {
	if len(g.pushed) > 0 {
		return g.pushed[0].started
	}
	if oldest := g.queue.Oldest(); oldest != nil {
		at = min(at, g.staleAt(oldest.Owner.(*Ticket)).Add(1), g.queue.NextWake())
	}
	if g.shaper != nil {
		at = min(at, g.shaper.nextWake())
	}
	return at
}

// Queueing reports whether Next may return a ticket: not while nothing waits, as mostly.
func (g *Gate) Queueing() bool {
	return g.queue.Len() > 0 || len(g.pushed) > 0 || g.shaper != nil && len(g.shaper.busy) > 0
}

// OnWake does what is due at now. Early, late and repeated calls are harmless.
// Call Next and Pool().NextGrant after it.
func (g *Gate) OnWake(now mono.Time) { g.tick(now) }

// tick does what is due at now. Mostly that is nothing.
func (g *Gate) tick(now mono.Time) {
	if head := g.running.head; g.pool.Due(now) || g.overdue > 0 || head != nil && now > head.due || g.shaper != nil && g.shaper.due(now) {
		g.act(now)
	}
}

// act is what tick does when something may be due.
func (g *Gate) act(now mono.Time) {
	g.lend(now)
	if g.shaper != nil {
		g.adapt(now)
	}
	if g.pool.Due(now) {
		if g.pool.Demand() > 0 && g.pool.Issued() >= g.pool.Total() {
			g.bound += min(now.Sub(g.ticked), 2*g.pool.Interval()) // a pool that rests binds nobody
		}
		g.ticked = now
		g.pool.Tolerate(g.tolerated())
		pressure := g.pressure(g.Delay(now))
		if pressure > g.cfg.TargetDelay && g.keeps(now) {
			pressure = g.cfg.TargetDelay // the credits keep their size too
		}
		if (pressure == 0 || g.queue.Len() == 0 && pressure <= g.cfg.TargetDelay/noDelay) && g.limit.Free() {
			g.pool.Fill(now, g.limit.Limit()) // to hold requests back would leave slots empty
		}
		g.pool.OnWake(now, pressure)
	}
}

// pressure is what the pool is told of a delay d: d itself, or more when the
// service takes so much of the objective that credits have to steer to a shorter
// queue than TargetDelay. The pool's target stays half of what the AQM refuses,
// or bursts would be refused all the time. While the limit is lower than it need be, to
// learn from it, the queue tells nothing about the demand.
func (g *Gate) pressure(d time.Duration) time.Duration {
	if target := max(min(g.cfg.MaxDelay, g.worth.strict)/2, 1); target < g.cfg.TargetDelay {
		d = time.Duration(float64(d) * float64(g.cfg.TargetDelay) / float64(target))
	}
	if g.limit.Trying() || g.hold.open {
		return min(d, g.cfg.TargetDelay) // at which the pool stays as it is
	}
	return d
}

// settling reports whether more run than the limit allows, because it was lowered, or
// fewer than could, to learn from it: neither the queue nor how long they take tells what
// the server can do.
func (g *Gate) settling() bool { return g.limit.InUse() > g.limit.Limit() || g.limit.Trying() }

// gone counts that t, which was let in, is not in the gate any more.
func (g *Gate) gone(t *Ticket) {
	if t.Client == nil {
		g.unasked--
	}
}

// run gives t, which waited for it, a slot.
func (g *Gate) run(now mono.Time, t *Ticket, waited time.Duration) Verdict {
	if g.shaper != nil {
		g.shaper.waits.Add(now, max(waited, 0))
	}
	g.count(now)
	t.slot = g.limit.Acquire(now)
	if !g.limit.Free() {
		g.pace.full(now)
	}
	t.scale = g.pace.scale
	if waited > 0 && g.sample(t) && !t.overtaken {
		g.worth.kept(waited-t.promised, float64(t.promised)*g.pace.gap.value)
	}
	t.lent = false
	g.running.push(t, now.Add(t.objective(g.cfg.Objective)))
	return t.Start(now)
}

// pass tells the limit how many of those that run have passed their objectives.
func (g *Gate) pass(now mono.Time) {
	g.running.pass(now)
	if g.overdue > 0 || g.running.overdue > 0 {
		g.overdue = g.running.overdue
		g.limit.SetOverdue(g.overdue)
	}
}

// lend takes back the slots of requests that run for longer than the objective. NextWake
// names the instant, so that it does not depend on other events.
func (g *Gate) lend(now mono.Time) {
	if !g.lends {
		return
	}
	g.pass(now)
	for t := g.running.head; t != nil && now > t.due && now >= g.lendAt; t = g.running.head {
		if !g.limit.Lend(now, t.started, t.slot) {
			g.lendAt = now.Add(g.cfg.Objective / 8) // ask again when others have ended
			return
		}
		t.lent = true
		g.running.remove(t)
	}
}
