package credit

import (
	"math"

	"github.com/spillgate/spillgate/internal/mono"
)

// nearlyEqual is how far a share is from an equal one by chance: parties are counted by season.
const nearlyEqual = 0.25

// golden is the fraction whose multiples fill the time from one whole number to the next most evenly.
const golden = 0.6180339887

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
	case p.waiting() > 0 && (overdue || now.Sub(c.turn) > quantum*p.cfg.Interval):
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
	if w > 0 {
		c.due = 0
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

// actives returns how many clients asked for something of late, or have something.
func (p *Pool) actives() int {
	return min(max(p.everyone.all(), p.clients-p.resting()), p.clients)
}
