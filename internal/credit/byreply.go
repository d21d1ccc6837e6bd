package credit

import (
	"iter"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// askEvery is how often clients that wait for credits may ask for one each second, all together: a request that comes
// without a credit and is refused costs some 100 µs of a processor, so that these take a twentieth of one.
const askEvery = 2 * time.Millisecond

// ByReply says whether the replies to c are all that it hears: no grant reaches it otherwise, as over HTTP. While such a
// client holds nothing it gets nothing, because a credit that it does not know of is one less for the others. It may ask
// when its grant's Revive is over, with a request, which is no overrun; a credit that is free is its then. So Revive must
// be short: it is the time that a turn takes, and not a lease.
func (p *Pool) ByReply(c *Client, yes bool) {
	if c.gone || c.byReply == yes {
		return
	}
	p.undrain(c)
	p.heardOf(c).remove(c)
	c.byReply = yes
	l := p.heardOf(c)
	if l.tail != nil {
		c.heard = max(c.heard, l.tail.heard)
	}
	l.pushBack(c)
	p.drainIfEmpty(c)
}

// heardOf returns the list that c is in by its last sign of life. Leases differ, so one whose lease is long must not
// stand before one whose lease is over.
func (p *Pool) heardOf(c *Client) *list {
	if c.byReply {
		return &p.polled
	}
	return &p.heard
}

// all yields every client.
func (p *Pool) all() iter.Seq[*Client] {
	return func(yield func(*Client) bool) {
		for _, l := range [...]*list{&p.heard, &p.polled} {
			for c := l.head; c != nil; c = c.links[linkHeard].next {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// lease is for how long c keeps credits while it is silent and others wait. One that would not hear of it if it had none
// has a turn: what it sends then, within the window that it believes in, is no overrun.
func (p *Pool) lease(c *Client) time.Duration {
	if c.byReply {
		return min(quantum*p.cfg.Interval, p.cfg.Lease)
	}
	return p.cfg.Lease
}

// waiting returns how many clients that hold nothing are known to have requests ready.
func (p *Pool) waiting() int { return p.hungry.len + p.asking.len }

// resting returns how many clients hold nothing and are not known to want anything.
func (p *Pool) resting() int { return p.idle.len + p.absent.len }

// nextTurn is how long a client of ByReply that was told that it has nothing keeps quiet: a turn of another one, because
// the others may want nothing any more, or longer if so many ask that their requests would cost too much.
func (p *Pool) nextTurn() time.Duration {
	return max(quantum*p.cfg.Interval, time.Duration(p.asking.len+p.absent.len)*askEvery)
}

// forgetDemand takes what c, which holds nothing and hears replies alone, said it has ready for gone, once it should have
// asked. It reports false if c is no such client.
func (p *Pool) forgetDemand(now mono.Time, c *Client) bool {
	if c.in[linkDrained] != p.asking.mark {
		return false
	}
	if now.Sub(c.spoke) > max(p.cfg.Lease, 2*p.nextTurn()) {
		p.undrain(c)
		p.setDemand(c, 0)
		p.drainIfEmpty(c)
	}
	return true
}
