package credit

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// askEvery is the time from one message by which a client asks for a credit to the next, of whomever: a request that
	// is refused costs some 100 µs of a processor, so that these take a twentieth of one.
	askEvery = 2 * time.Millisecond
	// asksWait is for how many served requests a client that asks waits for each other one that does, if that is shorter
	// than askEvery. With 1, of 500 clients at twice the capacity a tenth more of the requests were refused at the server;
	// with 4 nothing was better (lab run wild/replies).
	asksWait = 2
)

// ByReply says whether the replies to c are all that it hears: no grant reaches it otherwise, as over HTTP. While such a
// client holds nothing it gets nothing, because a credit that it does not know of is one less for the others. It may ask
// when its grant's Revive is over, with a request, which is no overrun; a credit that is free is its then. So Revive is the
// time in which the others that ask have had a turn, and not a lease: see callUp.
func (p *Pool) ByReply(c *Client, yes bool) {
	if c.gone || c.byReply == yes {
		return
	}
	p.undrain(c)
	c.byReply, c.due = yes, 0
	p.drainIfEmpty(c)
}

// waiting returns how many clients that hold nothing are known to have requests ready.
func (p *Pool) waiting() int { return p.hungry.len + p.asking.len }

// resting returns how many clients hold nothing and are not known to want anything.
func (p *Pool) resting() int { return p.idle.len + p.absent.len }

// callUp decides about a client of ByReply that is to have no window, with the reply to a request that was refused or
// served. If it held nothing and a credit is free, the credit is its own: a later grant would not reach it. Else it is
// told when to ask. Who was served, or whose turn is over, comes behind the others that ask. Who was refused asks as soon as
// that costs no more than askEvery, so that its wait goes on and does not begin anew.
//
// So nearly each of n clients that ask all the time is served at least once in the time in which the server answers 8n
// requests: all of 50, and all but one of 500 (lab run wild/replies). No client keeps quiet for longer than 64 leases: with so many that this is not
// enough for all, asking costs more.
func (p *Pool) callUp(now mono.Time, c *Client, free int, refused bool) (window int) {
	if c.window == 0 && free > 0 {
		return 1
	}
	if refused && c.due > now {
		c.again = c.due.Sub(now) // told before, to another of its requests
		return 0
	}
	gap := askEvery
	if served := p.rate * (1 - p.refused); served > 0 {
		gap = min(gap, time.Duration(asksWait*float64(p.cfg.Interval)/served))
	}
	c.again = max(quantum*p.cfg.Interval, min(gap*time.Duration(p.asking.len), 64*p.cfg.Lease))
	if refused {
		at := max(now.Add(p.cfg.Interval), p.askAt)
		p.askAt = min(at.Add(askEvery), now.Add(2*c.again)) // it ends with the line
		c.again = min(c.again, at.Sub(now))
	}
	// Not in step with the server's work and with each other, or the same client comes too late each time.
	_, phase := math.Modf(golden * float64(c.number+uint64(c.seq)))
	c.again = time.Duration((0.75 + phase/2) * float64(c.again))
	c.due = now.Add(c.again)
	return 0
}

// tidyLine takes those out of the line that were told to ask and did not: nobody waits for them.
func (p *Pool) tidyLine(now mono.Time) {
	for range 8 { // as in reclaim
		c := p.asking.head
		if c == nil || now.Sub(max(c.due, c.spoke)) <= max(p.cfg.Lease, c.again) {
			return
		}
		p.undrain(c)
		p.setDemand(c, 0)
		c.due = 0
		p.drainIfEmpty(c)
	}
}
