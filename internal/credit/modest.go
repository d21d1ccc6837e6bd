package credit

import (
	"math"

	"github.com/spillgate/spillgate/internal/mono"
)

// standing is how much a client had of late beside the others.
type standing uint8

const (
	usual  standing = iota
	modest          // clearly less than an equal share
	heavy           // clearly more
	standings
)

// A client is modest if it had less than modestShare of an active client's average, and heavy
// if it had more than heavyShare of it, each by some deviations of a count, so not by chance.
const (
	modestShare, heavyShare = 0.9, 1.1
	deviations              = 2
	// alone is the share of all requests that shows that there is no other peer: many
	// clients behind one proxy are told apart by what they are.
	alone = 0.95
	// enough requests of each on average tell something: first flights come in clumps.
	enough = 16
)

// OnUse takes what a client had of late, its peer, and all together, in requests. A client
// that had clearly less than an equal share gets a credit for every request, beside the
// pool, and the other clients divide the pool. A client that had clearly more waits while
// others do. Peers are compared with each other, and clients with those of their peer.
func (p *Pool) OnUse(now mono.Time, c *Client, had, peerHad, all float64) {
	if c.gone || p.cfg.NoSpeculation {
		return
	}
	p.count(c)
	a := c.party
	if a.number == 0 {
		peerHad = had
	}
	worth, _ := p.worth(a)
	equal := worth * all / float64(p.Parties())
	s := usual
	if p.Parties() > 1 {
		s = compare(peerHad, equal)
	}
	p.rankParty(a, s)
	if s == heavy && peerHad >= alone*all {
		s, equal = usual, all
	}
	if n := p.active(a); s == usual && n > 1 {
		s = compare(had, equal/float64(n))
	}
	was := c.standing
	p.rank(c, s)
	if was == modest && c.standing != modest && p.free() < 0 {
		// What it had beside the pool it does not bring in.
		p.setWindow(now, c, min(c.window, max(c.pending, p.share(c), 1)))
	}
}

// compare returns the standing of a party that had a number of requests, beside an equal share.
func compare(had, equal float64) standing {
	switch {
	case equal < enough:
		return usual
	case had+deviations*math.Sqrt(had+1) < modestShare*equal:
		return modest
	case had > heavyShare*equal+deviations*math.Sqrt(equal+1):
		return heavy
	}
	return usual
}

// rank moves what c has into the pool or out of it.
func (p *Pool) rank(c *Client, s standing) {
	if c.standing == s {
		return
	}
	if c.standing == modest {
		p.kept -= c.window
	} else if s == modest {
		p.kept += c.window
	}
	c.standing = s
	p.recount(c)
}

// short reports whether others than c wait for credits, or active ones have none.
func (p *Pool) short(c *Client) bool {
	holders := p.clients - p.waiting() - p.resting()
	return p.demand > c.demand || p.waiting() > 0 || p.actives() > holders
}

// ranked returns how many of the actives have a standing.
func (p *Pool) ranked(s standing) int { return p.everyone.of(s) }

// others returns how many active clients share the pool, 1 at least.
func (p *Pool) others() int { return max(p.actives()-p.ranked(modest), 1) }

// room returns the least window of a modest client: as much as a new client has, or a
// burst of an equal share of what is here. A burst need not wait: the server would not hear of
// requests that wait for no longer than the answer to the one before takes.
func (p *Pool) room(c *Client) int {
	equal := p.dueOfAll(c) * p.peak / float64(max(p.actives(), 1))
	return min(max(p.cfg.InitialWindow, int(burst*equal), 1), p.cfg.MaxWindow)
}

// burst is how many times what a client has here on average it has at most, at an arrival
// in a thousand, if that is some ten requests.
const burst = 2

// divided returns the credits that are issued from the pool, without those of modest
// clients.
func (p *Pool) divided() int { return p.issued - p.kept }

// free returns how many credits may be issued: below 0 if there are too many.
func (p *Pool) free() int { return int(p.total) - p.divided() }

// bound returns the nearest window to w that c may have.
func (p *Pool) bound(now mono.Time, c *Client, w int) int {
	if c.standing == modest {
		w = max(w, p.room(c))
	}
	return min(w, p.fair(now, c))
}
