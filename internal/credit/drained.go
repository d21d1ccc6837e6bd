package credit

import (
	"github.com/spillgate/spillgate/internal/mono"
)

// quantum is how many intervals a client keeps its only credit while others wait
// for one.
const quantum = 8

func (p *Pool) drainIfEmpty(c *Client) {
	if c.window > 0 || c.pending > 0 {
		return
	}
	hungry, idle := &p.hungry, &p.idle
	if c.byReply {
		hungry, idle = &p.asking, &p.absent
	}
	if c.demand > 0 || c.due != 0 {
		hungry.pushBack(c)
	} else {
		idle.pushBack(c)
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
	case p.asking.mark:
		p.asking.remove(c)
	case p.idle.mark:
		p.idle.remove(c)
		p.rest(c.party, -1)
	case p.absent.mark:
		p.absent.remove(c)
		p.rest(c.party, -1)
	}
}

// feed gives free credits to drained clients that hear of it, one each, known demand first.
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
	if p.waiting() > 0 || p.cfg.NoSpeculation {
		return p.hungry.head
	}
	return p.idle.head
}

// reclaim takes back the credits of the clients silent for longest, if their leases
// are over and others wait for credits.
func (p *Pool) reclaim(now mono.Time) {
	p.tidyLine(now)
	for n := 0; n < 8; n++ { // a few an interval: constant time, and enough
		c := p.heard.head
		if c == nil || now.Sub(c.heard) <= p.cfg.Lease {
			return
		}
		if p.waiting() == 0 && p.free() >= 0 {
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
