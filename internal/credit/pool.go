package credit

import (
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// headroom bounds the pool to this many credits per client and per request
// recently pending. Credits far beyond what clients use say nothing, and at a
// spike the pool would take long to shrink to where they bind.
const headroom = 8

// usedFor is after how many intervals without demand a use of credits is forgotten, by a factor of e. The
// use shows again only when clients are short of credits. With 64, as peak has, a lone client with 64 requests
// under way waited for credits in 27 % of the intervals, with 128, 256 and 512 in 11, 6 and 3 %
// (TestCreditsOnTheWay).
const usedFor = 512

// usedSeasons is the same for one client, in seasons: usedFor intervals at the default Lease.
const usedSeasons = usedFor / 64

// demandLimit is the most demand of one client that counts, in requests: what is
// claimed beyond it changes nothing until the client has sent some.
const demandLimit = 1024

// askShare bounds the messages of clients without credits: one in so many
// requests.
const askShare = 32

// quantum is how many intervals a client keeps its only credit while others wait
// for one.
const quantum = 8

// Client is one client's account in a Pool: made by Register, ended by
// Deregister, and never used with another pool.
type Client struct {
	window  int
	pending int
	demand  int
	seq     uint32
	attendance
	party *party
	// overdrawn is the largest window the client may still believe in: what it
	// held before its last cut. Requests within it, sent before the cut
	// arrived, are not an overrun.
	overdrawn int
	cutAt     mono.Time
	turn      mono.Time // when the window last rose from zero
	heard     mono.Time
	replied   mono.Time // when a reply freed a credit that a request waited for; 0: not so
	number    uint64
	due       float64 // see Pool.dueOfAll, as of an era
	era       uint64
	told      telling
	use       int32  // its window when it last had demand: see uses
	usedIn    uint32 // the season of that
	links     [numLinks]link
	in        [numLinks]uint8 // the mark of the list, 0: in none
	gone      bool
	// Owner is for the driver: whatever it needs to reach the client.
	Owner any
}

// Number tells the client from all others of its pool, earlier ones too. It is above 0.
func (c *Client) Number() uint64 { return c.number }

// Window returns the most requests the client may have outstanding.
func (c *Client) Window() int { return c.window }

// Pending returns the client's requests at the server.
func (c *Client) Pending() int { return c.pending }

// Demand returns the further requests the client last said it had ready.
func (c *Client) Demand() int { return c.demand }

// Pool divides a server's credits among its clients. A Pool is not safe for
// concurrent use. No call allocates but Register, and the first that says something new of a
// client; every call but Check takes constant time.
type Pool struct {
	cfg, asked  Config // with defaults, and as configured
	total       float64
	issued      int
	clients     int
	pending     int
	registered  uint64  // clients so far
	heavyDemand int     // of demand
	kept        int     // of the issued, what modest clients have: not of the pool
	demand      int     // sum over the clients
	peak        float64 // of pending, decaying
	used        float64 // most credits seen in use, decaying: see ceiling
	wanting     int     // windows of the clients with demand
	delay       time.Duration
	worst       time.Duration // largest sample of the running interval
	calm        int           // intervals of low delay in a row
	silent      bool          // requests were here at the last wake, and none has left since
	late        int           // intervals over the target in a row
	arrived     int           // requests in the running interval
	shed        int           // and how many of them were refused
	rate        float64       // requests per interval, smoothed
	quiet       time.Duration // revive as of the last change of what it depends on: each grant says it
	refused     float64       // share refused, smoothed over intervals
	// tolerated is the share that may be; see Tolerate.
	tolerated float64
	excused   bool
	wake      mono.Time
	// Clients that asked for something, their parties, and those of which a workflow is
	// known.
	everyone, parties, known census
	holding                  int // parties of whom somebody has something or wants it
	workflows                [maxWorkflows]workflow
	peers                    map[uint64]*party
	season                   uint32
	seasonEnds               mono.Time
	era                      uint64 // ends whenever what is due to somebody may have changed
	// turnaround is the time from a reply to the request that waited for its
	// credit, smoothed: what a change of a window takes to be felt.
	turnaround time.Duration
	hungry     list // drained, demand known
	idle       list // drained, demand unknown
	heard      list
	dirty      list
}

// NewPool returns an empty pool, or every mistake in its configuration.
func NewPool(asked Config) (*Pool, error) {
	cfg, err := asked.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Pool{
		cfg:    cfg,
		asked:  asked,
		total:  float64(cfg.MinTotal),
		calm:   calmIntervals,
		season: 2, // a new client was active in none before
		peers:  map[uint64]*party{},
		hungry: list{which: linkDrained, mark: 1},
		idle:   list{which: linkDrained, mark: 2},
		heard:  list{which: linkHeard, mark: 3},
		dirty:  list{which: linkDirty, mark: 4},
	}
	for i := range p.workflows {
		p.workflows[i].share = 1
	}
	return p, nil
}

// SetObjective changes Config.TargetDelay and Objective, and what follows from them unless it was
// configured. The pool, the windows and what was learned of the clients stay. A client hears of the new
// objective with its next grant, which is at most sixteen replies away. With a mistake nothing changes.
func (p *Pool) SetObjective(target, objective time.Duration) error {
	asked := p.asked
	asked.TargetDelay, asked.Objective = target, objective
	cfg, err := asked.withDefaults()
	if err != nil {
		return err
	}
	p.rate *= float64(cfg.Interval) / float64(p.cfg.Interval) // it counts by the interval
	p.cfg, p.asked = cfg, asked
	return nil
}

// Total returns the size of the pool in credits. It may be smaller than Issued
// while windows shrink, one request a reply.
func (p *Pool) Total() int { return int(p.total) }

// Issued returns the sum of all windows.
func (p *Pool) Issued() int { return p.issued }

// Clients returns the number of registered clients.
func (p *Pool) Clients() int { return p.clients }

// Pending returns the requests of registered clients at the server.
func (p *Pool) Pending() int { return p.pending }

// Demand returns the further requests that all clients together last said they
// had ready.
func (p *Pool) Demand() int { return p.demand }

// Drained returns the clients that have no credit and nothing pending, and how
// many of them are known to have requests ready.
func (p *Pool) Drained() (clients, hungry int) { return p.hungry.len + p.idle.len, p.hungry.len }

// Delay returns the queueing delay of the last whole interval, the one the pool
// acted on.
func (p *Pool) Delay() time.Duration { return p.delay }

// Refused returns the share of the requests that the server refused for want of
// time, smoothed over about eight intervals.
func (p *Pool) Refused() float64 { return p.refused }

// Config returns the configuration with its defaults filled in.
func (p *Pool) Config() Config { return p.cfg }

// Register adds a client that connected. Its first grant waits in NextGrant.
// While the server is far from its target delay it brings credits of its own with
// it: a new client is unmeasured demand, and making it wait for a
// cold pool to grow would refuse work that the server could do. Otherwise it
// waits with the drained: opening connections must not make credits.
func (p *Pool) Register(now mono.Time) *Client {
	p.registered++
	c := &Client{heard: now, number: p.registered, told: untold(), attendance: attendance{season: p.season - 2}}
	p.holding++
	if p.clients == 0 {
		// An empty pool has not been woken: its interval starts here.
		p.wake, p.seasonEnds = now, now.Add(p.cfg.Lease)
	}
	p.clients++
	p.era++
	p.quiet = p.revive()
	p.heard.pushBack(c)
	w := 0
	if calm := p.cfg.TargetDelay / 4; p.delay < calm && p.worst < calm && !p.cfg.NoSpeculation {
		w = min(p.cfg.InitialWindow, p.cfg.MaxWindow)
		p.total = min(p.total+float64(w), p.ceiling())
	}
	p.setWindow(now, c, w)
	p.announce(c)
	return c
}

// Deregister ends a client that disconnected; its credits return to the pool at
// once. Its requests still at the server must not be reported any more. A
// second call does nothing.
func (p *Pool) Deregister(now mono.Time, c *Client) {
	if c.gone {
		return
	}
	p.rank(c, usual)
	p.undrain(c)
	p.forget(c)
	p.setDemand(c, 0)
	p.issued -= c.window
	p.pending -= c.pending
	p.clients--
	p.era++
	p.quiet = p.revive()
	p.heard.remove(c)
	p.dirty.remove(c)
	c.gone, c.window, c.pending = true, 0, 0
	p.total = p.bounded(p.total)
	p.feed(now)
}

// OnRequest counts a request that arrived from c and takes the demand it
// carried. It reports false when c overran every window it could still believe
// in, as it does with the one request that it may send unasked: the caller may
// then refuse the request, which counts as pending until its OnReply all the
// same.
func (p *Pool) OnRequest(now mono.Time, c *Client, demand int) (withinWindow bool) {
	if c.gone {
		return false
	}
	p.hear(now, c)
	p.count(c)
	p.undrain(c)
	if c.replied != 0 {
		p.turnaround += (now.Sub(c.replied) - p.turnaround) / 32
		c.replied = 0
	}
	c.pending++
	p.pending++
	p.arrived++
	p.peak = max(p.peak, float64(p.pending))
	p.setDemand(c, demand)
	if c.demand > 0 {
		// A little more than it has: with one credit too few, each of its requests waits. Not all of the demand, which
		// those under way repeat until the client hears of its larger window.
		c.use, c.usedIn = int32(c.window+(c.demand+tellGrowth-1)/tellGrowth), p.season
	}
	allowed := c.window
	if c.standing == modest {
		allowed = max(allowed, p.room(c)) // it has that as soon as it is told
	}
	if c.standing != heavy && c.overdrawn > allowed && now.Sub(c.cutAt) <= p.cfg.Lease {
		allowed = c.overdrawn
	}
	return c.pending <= allowed
}

// OnDemand takes the demand of a client that reports it without a request: it
// has no credit and nothing pending, or only what takes long, or its demand
// vanished.
func (p *Pool) OnDemand(now mono.Time, c *Client, demand int) {
	if c.gone {
		return
	}
	p.hear(now, c)
	p.count(c)
	p.setDemand(c, demand)
	if c.in[linkDrained] != 0 && c.standing != modest {
		p.undrain(c)
		p.drainIfEmpty(c)
	} else if free := p.free(); c.demand > 0 && (free > 0 || c.standing == modest) {
		w := p.bound(now, c, min(c.pending+c.demand+p.overcommit(c), c.window+max(free, 0)))
		if w > c.window {
			p.setWindow(now, c, w)
			p.announce(c)
		}
	}
	p.feed(now)
}

// OnReply counts that a request of c leaves the server, answered or refused,
// and returns the grant to put on the reply (Breakwater §3.2, lazy
// distribution), if Tells says so.
func (p *Pool) OnReply(now mono.Time, c *Client) wire.Grant {
	if c.gone {
		return wire.Grant{Epoch: p.cfg.Epoch}
	}
	p.reply(now, c)
	return p.grant(c)
}

// Reply is OnReply and Tells: it writes the grant to g if the reply must carry it, and reports that. A grant
// that no reply carries would take a tenth of the time of a reply.
func (p *Pool) Reply(now mono.Time, c *Client, asked, part bool, g *wire.Grant) (tells bool) {
	if !c.gone {
		p.reply(now, c)
	}
	if !p.Tells(c, asked, part) {
		c.seq++ // as with the grant that OnReply makes: grants have the same numbers either way
		return false
	}
	if *g = (wire.Grant{Epoch: p.cfg.Epoch}); !c.gone {
		*g = p.grant(c)
	}
	return true
}

// reply is OnReply without the grant, of a client that is not gone.
func (p *Pool) reply(now mono.Time, c *Client) {
	p.hear(now, c)
	p.silent = false
	full := c.pending >= c.window
	if c.pending > 0 {
		c.pending--
		p.pending--
	}
	free := p.free()
	w, share := c.window, 0
	if p.hungry.len > 0 {
		share = p.share(c)
	}
	switch {
	case p.hungry.len > 0 && w <= share && c.standing != modest && p.settled():
		// Free credits go to the clients that wait, which may be due less than one each. If too
		// many are issued, another client has more than its share.
		w = min(share, w+1, max(c.pending+c.demand, w))
	case free >= 0:
		w = p.steady(c, min(p.uses(c)+c.demand+p.overcommit(c), c.window+free))
	case p.hungry.len > 0 || w > p.uses(c): // who uses all that it has is not the first to give
		w--
	}
	w = p.bound(now, c, w)
	// Not under what is pending, which the client cannot take back. A client
	// that overran its window does not widen it by that.
	p.setWindow(now, c, max(w, min(c.pending, c.window)))
	c.replied = 0
	if full && c.demand > 0 && c.window > c.pending {
		c.replied = now
	}
	p.feed(now) // may give c a credit too, which this grant then carries
	if c.in[linkDirty] != 0 {
		p.dirty.remove(c)
		c.told = untold()
	}
}

// OnDelay takes a sample of the queueing delay. The largest sample of an
// interval counts; an interval without samples keeps the delay that OnWake is
// given, so a stale delay can never linger.
func (p *Pool) OnDelay(d time.Duration) { p.worst = max(p.worst, d) }

// OnShed counts a request that the server refused because it had no time for it.
// Refusing costs the server too: when most of what arrives is refused, there are
// too many credits, whatever the delay of the rest, and the pool shrinks fast.
func (p *Pool) OnShed() { p.shed++ }

// Tolerate sets the share of the requests, 0 to 1, that may be refused without a
// cut, and up to which the pool grows whatever the delay. Where the queue is too
// short to smooth the arrivals, just enough credits for the capacity leave it
// empty for part of the time. Zero, as at the start, in the original.
func (p *Pool) Tolerate(share float64) {
	if share != share {
		return
	}
	p.tolerated = max(0, min(share, 1))
}

// Interval is that of Config.
func (p *Pool) Interval() time.Duration { return p.cfg.Interval }

// NextWake returns the instant of the next OnWake that would do something, or
// mono.Never. While it returns Never the driver may leave the pool alone.
func (p *Pool) NextWake() mono.Time {
	if p.clients == 0 {
		return mono.Never
	}
	return p.wake
}

// Due reports whether OnWake would do something at now.
func (p *Pool) Due(now mono.Time) bool { return p.clients > 0 && now >= p.wake }

// Wanted reports whether a client waits for the next interval: one without a credit or, if the last
// request came at most a lease ago, at seen, one that wants more.
func (p *Pool) Wanted(seen mono.Time) bool {
	return p.hungry.head != nil || p.idle.head != nil || p.demand > 0 && p.NextWake() <= seen.Add(p.cfg.Lease)
}

// OnWake ends the interval if it is over and resizes the pool from d, the
// queueing delay at this instant, and the samples of OnDelay, of which the
// largest counts. Early and repeated calls do nothing; a late call ends one
// interval, not several, because one stale sample must not be acted on twice.
func (p *Pool) OnWake(now mono.Time, d time.Duration) {
	if now < p.wake {
		return
	}
	// No sooner than the last change was felt, or it is made again and again.
	p.wake = now.Add(max(p.cfg.Interval, min(p.turnaround, p.cfg.TargetDelay)))
	d = max(d, p.worst, 0)
	p.delay, p.worst = d, 0
	if now >= p.seasonEnds {
		p.nextSeason()
		p.seasonEnds = now.Add(p.cfg.Lease)
	}
	p.divide()
	p.rate += (float64(p.arrived) - p.rate) / 16
	p.quiet = p.revive()
	if p.arrived > 0 && !p.excused {
		p.refused += (min(float64(p.shed)/float64(p.arrived), 1) - p.refused) / 8
	}
	p.arrived, p.shed = 0, 0
	if !p.excused {
		p.resize(d)
	}
	p.silent = p.pending > 0
	p.peak = max(float64(p.pending), p.peak*(1-1.0/64))
	p.used = max(float64(p.wanting), p.used*(1-1.0/usedFor))
	p.reclaim(now)
	p.feed(now)
}

// SetTotal sizes the pool to total, within its bounds, for a policy that shares
// the distribution of credits and has a control law of its own. Such a policy
// calls OnWake with a delay of exactly TargetDelay, which leaves the size alone.
func (p *Pool) SetTotal(now mono.Time, total float64) {
	if total != total {
		return
	}
	p.total = p.bounded(total)
	p.feed(now)
}

// Fill sizes the pool to n, within its bounds, if it is smaller, clients wait for credits and the delay has
// been low for some intervals or since the start: the server has room for n requests at once. Where a
// request takes long, a pool that grows by the interval lets the clients wait in vain until replies bring
// them larger windows.
func (p *Pool) Fill(now mono.Time, n int) {
	if p.calm >= calmIntervals && p.demand > 0 && p.total < float64(n) {
		p.SetTotal(now, float64(n))
	}
}

// Excuse, while on, has the pool keep its size: the delay and the refusals of now are
// those of a cause that is known and about to go.
func (p *Pool) Excuse(on bool) { p.excused = on }

// recovered is the part of the pool that a disturbance took away which comes back at
// once when its cause is gone. The rest is found as always.
const recovered = 0.8

// Recover sizes the pool to four fifths of what it was before something that is over
// now, if it is smaller, and to what it was if it is larger, within its bounds: neither
// the delay that made it shrink nor the empty queue of a server that refused all the
// others said anything of what the server can do. A before of 0 is unknown.
func (p *Pool) Recover(now mono.Time, before int) {
	if before > 0 {
		p.SetTotal(now, min(max(p.total, recovered*float64(before)), float64(before)))
	}
}

// NextGrant returns a client that must get a grant without a reply, until
// there is none. Several changes since the last call are one grant. A driver
// that cannot reach the client drops the grant: the client revives by itself.
func (p *Pool) NextGrant() (*Client, wire.Grant, bool) {
	if p.dirty.head == nil { // as nearly always
		return nil, wire.Grant{}, false
	}
	return p.nextGrant()
}

// Granting reports whether NextGrant returns one.
func (p *Pool) Granting() bool { return p.dirty.head != nil }

// nextGrant is apart so that NextGrant can be inlined.
func (p *Pool) nextGrant() (*Client, wire.Grant, bool) {
	c := p.dirty.head
	p.dirty.remove(c)
	c.told = untold() // whether this grant arrives is not known
	return c, p.grant(c), true
}

// bounded returns total, or the nearest size that the pool may have.
func (p *Pool) bounded(total float64) float64 {
	return max(float64(p.cfg.MinTotal), min(total, p.ceiling()))
}

// ceiling is the most credits the pool may hold. A request on its way, there or back, uses a credit
// too, and the pool does not see it; but a client with demand has all of its window in use. A lone client
// that had 64 requests under way at once, two of them at the server, was else held at 42 credits, and
// each of its calls waited for one (lab run bench/edges).
func (p *Pool) ceiling() float64 {
	most := headroom*float64(p.clients) + max(headroom*p.peak, p.used) + float64(p.demand)
	if p.demand > 0 && p.calm > calmIntervals {
		most = max(most, float64(p.divided()+p.demand)) // credits that others have do not help those who wait
	}
	return max(float64(p.cfg.MinTotal), min(most, float64(p.clients)*float64(p.cfg.MaxWindow)))
}

// overcommit is what c gets beyond its known demand: its part of the credits that
// are free or its own. The original leaves out its own, and so takes from a lone
// client at each second reply what it gave at the first.
func (p *Pool) overcommit(c *Client) int {
	if p.cfg.NoSpeculation {
		return 0
	}
	return max(int(float64(p.free()+c.window)*p.dueOfAll(c)/float64(p.clients)), 1)
}

// uses returns how many of its credits c uses, as far as is known: those of the requests that are here, or all that
// it had when it last had too few, because requests on their way use credits too, and the pool does not see them
// (see ceiling). By the requests here alone, a client with 64 requests under way, of which the server saw two at a
// time, had 40 credits beside one that needs eight, and nearly each of its requests waited for a credit (lab run
// bench/edges; TestCreditsOnTheWayBesideOthers). While requests are delayed, a credit does more for a client whose
// request is here.
func (p *Pool) uses(c *Client) int {
	if p.calm > calmIntervals && p.season-c.usedIn <= usedSeasons {
		return max(c.pending, int(c.use))
	}
	return c.pending
}

// fair is the largest window for c. While others wait for credits, or active ones
// have none, it is an equal share, approached by one a reply. With less than one credit a client, those
// with demand take turns of a quantum: handing the credit on at each reply would cost a message a request.
// The original has neither: the first client that asks gets everything free, and keeps a last credit for
// as long as the pool does not shrink.
func (p *Pool) fair(now mono.Time, c *Client) int {
	if c.standing == modest || !p.short(c) {
		return p.cfg.MaxWindow
	}
	share, least := p.share(c), c.window-1
	overdue := c.standing == heavy && p.delay >= p.cfg.TargetDelay/2
	if overdue {
		least = 0
	}
	switch {
	case share >= 1:
		return max(share, least)
	case p.hungry.len > 0 && (overdue || now.Sub(c.turn) > quantum*p.cfg.Interval):
		return 0
	}
	return max(1, least)
}

// share returns the part of the pool that is due to c. Where shares differ, one has a part of a credit for that part of
// the seasons in which others have none: where few clients of a heavy workflow are due one and nine tenths each, cut off
// they had one, beside many of a light one that take turns. Among equal clients a rounded-off part harms none.
func (p *Pool) share(c *Client) int {
	part := p.dueOfRest(c)
	due := min(p.total*part/float64(p.others()), float64(p.cfg.MaxWindow))
	if due < 1 || math.Abs(part-1) <= nearlyEqual {
		return int(due)
	}
	_, phase := math.Modf(golden * float64(c.number+uint64(p.season)))
	return int(due + phase)
}

// nearlyEqual is how far a share is from an equal one by chance: parties are counted by season.
const nearlyEqual = 0.25

// golden is the fraction whose multiples fill the time from one whole number to the next most evenly.
const golden = 0.6180339887

func (p *Pool) setWindow(now mono.Time, c *Client, w int) {
	w = min(w, p.cfg.MaxWindow)
	if w == c.window && w > 0 {
		return // such a client is not drained
	}
	if w < c.window {
		if now.Sub(c.cutAt) > p.cfg.Lease || c.window > c.overdrawn {
			c.overdrawn = c.window
		}
		c.cutAt = now
	}
	if c.window == 0 {
		c.turn = now
	}
	p.issued += w - c.window
	if c.demand > 0 {
		p.wanting += w - c.window
	}
	if c.party != nil {
		c.party.issued += int32(w - c.window)
	}
	if c.standing == modest {
		p.kept += w - c.window
	}
	c.window = w
	p.undrain(c)
	p.drainIfEmpty(c)
}

func (p *Pool) drainIfEmpty(c *Client) {
	if c.window > 0 || c.pending > 0 {
		return
	}
	if c.demand > 0 {
		p.hungry.pushBack(c)
	} else {
		p.idle.pushBack(c)
		p.rest(c.party, 1)
	}
}

func (p *Pool) undrain(c *Client) {
	if c.in[linkDrained] != 0 {
		p.leaveDrained(c)
	}
}

// leaveDrained is apart so that undrain can be inlined: nearly always there is nothing to do.
func (p *Pool) leaveDrained(c *Client) {
	switch c.in[linkDrained] {
	case p.hungry.mark:
		p.hungry.remove(c)
	case p.idle.mark:
		p.idle.remove(c)
		p.rest(c.party, -1)
	}
}

// feed gives free credits to drained clients, one each, known demand first.
func (p *Pool) feed(now mono.Time) {
	if p.hungry.head != nil || p.idle.head != nil {
		p.feedDrained(now)
	}
}

// feedDrained is apart so that feed can be inlined.
func (p *Pool) feedDrained(now mono.Time) {
	for p.free() > 0 {
		c := p.next()
		if c == nil {
			return
		}
		p.hear(now, c) // its lease starts with the grant
		p.setWindow(now, c, 1)
		p.announce(c)
	}
}

// next returns the client that gets a free credit, nil if there is none. A client whose party has
// its share lets one go before it.
func (p *Pool) next() *Client {
	if c := p.hungry.head; c != nil && p.sated(c) {
		p.hungry.remove(c)
		p.hungry.pushBack(c)
	}
	if p.hungry.len > 0 || p.cfg.NoSpeculation {
		return p.hungry.head
	}
	return p.idle.head
}

// reclaim takes back the credits of the client silent for longest, if its lease
// is over and others wait for credits.
func (p *Pool) reclaim(now mono.Time) {
	for n := 0; n < 8; n++ { // a few an interval: constant time, and enough
		c := p.heard.head
		if c == nil || now.Sub(c.heard) <= p.cfg.Lease {
			return
		}
		if p.hungry.len == 0 && p.free() >= 0 {
			return
		}
		p.hear(now, c)
		if c.window == 0 || c.pending > 0 {
			continue
		}
		p.setDemand(c, 0)
		p.setWindow(now, c, 0)
		p.announce(c)
	}
}

func (p *Pool) announce(c *Client) {
	if c.in[linkDirty] == 0 {
		p.dirty.pushBack(c)
	}
}

func (p *Pool) grant(c *Client) wire.Grant {
	c.seq++
	return wire.Grant{Epoch: p.cfg.Epoch, Seq: c.seq, Window: uint32(c.window), Revive: p.quiet, Objective: p.cfg.Objective}
}

// revive is how long a client without credits keeps quiet: as long as the lease,
// and with many clients so long that what they send unasked is at most one in
// askShare of the requests.
func (p *Pool) revive() time.Duration {
	all := askShare * float64(p.clients) / max(p.rate, 1) * float64(p.cfg.Interval)
	return max(p.cfg.Lease, min(time.Duration(all), 64*p.cfg.Lease))
}

// hear moves c to the end of the list of clients by last sign of life.
func (p *Pool) hear(now mono.Time, c *Client) {
	c.heard = now
	if p.heard.tail != c {
		p.heard.renew(c)
	}
}

// setDemand takes a number that a client claims, within reason.
func (p *Pool) setDemand(c *Client, d int) {
	d = min(max(d, 0), demandLimit)
	p.demand += d - c.demand
	if (d > 0) != (c.demand > 0) {
		if d > 0 {
			p.wanting += c.window
		} else {
			p.wanting -= c.window
		}
	}
	if c.standing == heavy {
		p.heavyDemand += d - c.demand
	}
	c.demand = d
}

// actives returns how many clients asked for something of late, or have something.
func (p *Pool) actives() int {
	return min(max(p.everyone.all(), p.clients-p.idle.len), p.clients)
}

// Check returns an error if an invariant of the package comment is broken. It
// walks all clients and is meant for tests and simulations.
func (p *Pool) Check() error {
	var issued, pending, demand, clients, drained, kept, heavyDemand, holding, wanting int
	ofParty := map[*party][3]int{} // clients, idle, windows
	var heard mono.Time
	for c := p.heard.head; c != nil; c = c.links[linkHeard].next {
		issued += c.window
		pending += c.pending
		demand += c.demand
		if c.demand > 0 {
			wanting += c.window
		}
		clients++
		switch c.standing {
		case modest:
			kept += c.window
		case heavy:
			heavyDemand += c.demand
		}
		isIdle := c.in[linkDrained] == p.idle.mark
		if c.party == nil && !isIdle {
			holding++
		} else if c.party != nil {
			of := ofParty[c.party]
			of[0], of[2] = of[0]+1, of[2]+c.window
			if isIdle {
				of[1]++
			}
			ofParty[c.party] = of
		}
		if due := p.dueNow(c); c.era == p.era && c.due != due {
			return fmt.Errorf("credit: %v is due to a client, the books say %v", due, c.due)
		}
		isDrained := c.in[linkDrained] != 0
		if isDrained {
			drained++
		}
		if want := c.window == 0 && c.pending == 0; isDrained != want {
			return fmt.Errorf("credit: window %d, pending %d: drained is %v, expected %v", c.window, c.pending, isDrained, want)
		}
		if c.heard < heard {
			return fmt.Errorf("credit: a client heard of at %v comes after one at %v", c.heard, heard)
		}
		heard = c.heard
		if c.window < 0 || c.window > p.cfg.MaxWindow || c.pending < 0 {
			return fmt.Errorf("credit: window %d, pending %d out of range", c.window, c.pending)
		}
	}
	if issued != p.issued || pending != p.pending || demand != p.demand || clients != p.clients || drained != p.hungry.len+p.idle.len {
		return fmt.Errorf("credit: counted issued %d pending %d clients %d drained %d, the books say %d %d %d %d",
			issued, pending, clients, drained, p.issued, p.pending, p.clients, p.hungry.len+p.idle.len)
	}
	for a, of := range ofParty { //lint:ordered any mistake will do
		if of != [3]int{int(a.clients), int(a.idle), int(a.issued)} {
			return fmt.Errorf("credit: peer %d has %v clients, idle ones and windows, the books say %d %d %d", a.number, of, a.clients, a.idle, a.issued)
		}
		if a.clients > a.idle {
			holding++
		}
	}
	if holding != p.holding {
		return fmt.Errorf("credit: %d parties have or want something, the books say %d", holding, p.holding)
	}
	if wanting != p.wanting {
		return fmt.Errorf("credit: the clients with demand have %d credits, the books say %d", wanting, p.wanting)
	}
	if kept != p.kept || heavyDemand != p.heavyDemand {
		return fmt.Errorf("credit: the modest hold %d credits and the heavy ask for %d, the books say %d and %d", kept, heavyDemand, p.kept, p.heavyDemand)
	}
	return nil
}
