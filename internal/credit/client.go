package credit

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// demandLimit is the most demand of one client that counts, in requests: what is
// claimed beyond it changes nothing until the client has sent some.
const demandLimit = 1024

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
	spoke     mono.Time     // its last request or word of demand
	replied   mono.Time     // when a reply freed a credit that a request waited for; 0: not so
	due       mono.Time     // of a client of ByReply that holds nothing: when it was told to ask; 0: it was not
	again     time.Duration // how long before that it was told
	number    uint64
	part      float64 // see Pool.dueOfAll, as of an era
	era       uint64
	told      telling
	use       int32  // its window when it last had demand: see uses
	usedIn    uint32 // the season of that
	links     [numLinks]link
	in        [numLinks]uint8 // the mark of the list, 0: in none
	gone      bool
	byReply   bool // see Pool.ByReply
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
	c.spoke = now
	p.count(c)
	p.undrain(c)
	if c.replied != 0 {
		// What it waited with may have been given up meanwhile, and its next request comes when it comes.
		p.turnaround += (min(now.Sub(c.replied), p.cfg.TargetDelay) - p.turnaround) / 32
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
	if c.byReply {
		allowed = max(allowed, 1) // it asks
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
	c.spoke = now
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
	c.demand = d
}
