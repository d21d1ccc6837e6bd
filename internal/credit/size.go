package credit

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
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

// recovered is the part of the pool that a disturbance took away which comes back at
// once when its cause is gone. The rest is found as always.
const recovered = 0.8

// OnDelay takes a sample of the queueing delay. The largest sample of an
// interval counts; an interval without samples keeps the delay that OnWake is
// given, so a stale delay can never linger.
func (p *Pool) OnDelay(d time.Duration) { p.worst = max(p.worst, d) }

// OnShed counts a request that the server refused because it had no time for it.
// Refusing costs the server too: when most of what arrives is refused, there are
// too many credits, whatever the delay of the rest, and the pool shrinks fast. A client of ByReply that holds nothing
// asked, and used no credit: fewer credits would make more clients ask.
func (p *Pool) OnShed(c *Client) {
	if c.byReply && c.window == 0 {
		p.arrived = max(p.arrived-1, 0)
		return
	}
	p.shed++
}

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

// Fill makes the pool larger by as many credits as a server in which nothing waits has free slots, as far as clients want
// credits or hold none, if the delay has been low for some intervals or since the start. Those that hold credits may want
// nothing, and those without may not say what they want: what they sent was refused, and demand is told seldom. Without
// this, 420 clients found 20 % of their requests refused in the second after a spike, at 0.4 of the capacity
// (TestSecondAfterASpike in lab/worlds).
func (p *Pool) Fill(now mono.Time, free int) {
	if n := float64(p.divided() + min(free, p.demand+p.idle.len)); p.calm >= calmIntervals && p.total < n {
		p.SetTotal(now, n)
	}
}

// Excuse, while on, has the pool keep its size: the delay and the refusals of now are
// those of a cause that is known and about to go.
func (p *Pool) Excuse(on bool) { p.excused = on }

// Recover sizes the pool to four fifths of what it was before something that is over
// now, if it is smaller, and to what it was if it is larger, within its bounds: neither
// the delay that made it shrink nor the empty queue of a server that refused all the
// others said anything of what the server can do. A before of 0 is unknown.
func (p *Pool) Recover(now mono.Time, before int) {
	if before > 0 {
		p.SetTotal(now, min(max(p.total, recovered*float64(before)), float64(before)))
	}
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
	return max(float64(p.cfg.MinTotal), min(most, float64(p.clients)*float64(p.cfg.MaxWindow)))
}
