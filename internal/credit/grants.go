package credit

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// askShare bounds the messages of clients without credits: one in so many
// requests.
const askShare = 32

// OnReply counts that a request of c leaves the server, answered or refused,
// and returns the grant to put on the reply (Breakwater §3.2, lazy
// distribution), if Tells says so.
func (p *Pool) OnReply(now mono.Time, c *Client) wire.Grant {
	if c.gone {
		return wire.Grant{Epoch: p.cfg.Epoch}
	}
	p.reply(now, c, false)
	return p.grant(c)
}

// Ahead is OnReply for a reply whose header goes before its request has left: it decides what the request will bring
// back, and the reply must carry the grant. Left follows, once the request has left.
func (p *Pool) Ahead(now mono.Time, c *Client) wire.Grant {
	if c.gone {
		return wire.Grant{Epoch: p.cfg.Epoch}
	}
	p.reply(now, c, false)
	c.told = telling{window: int32(c.window)}
	c.pending++
	p.pending++
	p.undrain(c)
	return p.grant(c)
}

// Left counts that a request of c has left whose reply Ahead decided about.
func (p *Pool) Left(now mono.Time, c *Client) {
	if c.gone {
		return
	}
	p.hear(now, c)
	p.leave(c)
	p.undrain(c)
	p.drainIfEmpty(c)
	p.feed(now)
}

// Reply is OnReply and Tells: it writes the grant to g if the reply must carry it, and reports that. A grant
// that no reply carries would take a tenth of the time of a reply. refused says that nothing of the request was executed.
func (p *Pool) Reply(now mono.Time, c *Client, refused, asked, part bool, g *wire.Grant) (tells bool) {
	if !c.gone {
		p.reply(now, c, refused)
	}
	if !p.Tells(c, asked || refused, part) {
		c.seq++ // as with the grant that OnReply makes: grants have the same numbers either way
		return false
	}
	if *g = (wire.Grant{Epoch: p.cfg.Epoch}); !c.gone {
		*g = p.grant(c)
	}
	return true
}

// leave counts that a request of c is not here any more.
func (p *Pool) leave(c *Client) {
	if c.pending > 0 {
		c.pending--
		p.pending--
	}
}

// reply is OnReply without the grant, of a client that is not gone.
func (p *Pool) reply(now mono.Time, c *Client, refused bool) {
	p.hear(now, c)
	full := c.pending >= c.window
	p.leave(c)
	free := p.free()
	w, share := c.window, 0
	if p.waiting() > 0 {
		share = p.share(c)
	}
	switch {
	case p.waiting() > 0 && w <= share && c.standing != modest && p.settled():
		// Free credits go to the clients that wait, which may be due less than one each. If too
		// many are issued, another client has more than its share.
		w = min(share, w+1, max(c.pending+c.demand, w))
	case free >= 0:
		w = p.steady(c, min(p.uses(c)+c.demand+p.overcommit(c), c.window+free))
	case p.waiting() > 0 || w > p.uses(c): // who uses all that it has is not the first to give
		w--
	}
	w = p.bound(now, c, w)
	if w <= 0 && c.byReply {
		w = p.callUp(now, c, free, refused)
	}
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

func (p *Pool) grant(c *Client) wire.Grant {
	c.seq++
	quiet := p.quiet
	if c.byReply && c.window == 0 {
		quiet = max(c.again, p.cfg.Interval) // or all that it has ready is sent unasked, one by one
	}
	return wire.Grant{Epoch: p.cfg.Epoch, Seq: c.seq, Window: uint32(c.window), Revive: quiet, Objective: p.cfg.Objective}
}

func (p *Pool) announce(c *Client) {
	if c.in[linkDirty] == 0 {
		p.dirty.pushBack(c)
	}
}

// revive is how long a client without credits keeps quiet: as long as the lease,
// and with many clients so long that what they send unasked is at most one in askShare of the
// requests, or takes a twentieth of a processor, whichever is more: with the first alone, a third of 500
// clients of a server that answers 800 requests/s were not served in 5 s, because a client whose credit
// came at the wrong time had no other before it asked, and that was after 20 s (lab run wild/replies).
func (p *Pool) revive() time.Duration {
	all := askShare * float64(p.clients) / max(p.rate, 1) * float64(p.cfg.Interval)
	return max(p.cfg.Lease, min(time.Duration(all), time.Duration(p.clients)*askEvery, 64*p.cfg.Lease))
}
