package live

import (
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/wire"
)

// Client is a connected client that knows credits.
type Client struct {
	gate    *Gate
	account *credit.Client // nil if the policy knows no clients
	notify  func(wire.Grant)
}

// Connect opens an account for a client. notify, if not nil, is called for
// grants that have no reply to ride on; not under a lock, possibly from several
// goroutines at once with the newest grant being the one that counts, and it
// must not block. A nil notify is a client that lives by Grant.Revive.
func (g *Gate) Connect(notify func(wire.Grant)) *Client {
	c := &Client{gate: g, notify: notify}
	g.mu.Lock()
	now := g.now()
	if c.account = g.node.Connect(now); c.account != nil {
		c.account.Owner = c
	}
	g.finish(now)
	return c
}

// ByReply says whether the client hears of credits with replies alone, because notify has no way to reach it. Then it
// gets none while it holds none, and may ask for one soon, with a request. Default false.
func (c *Client) ByReply(yes bool) {
	c.gate.mu.Lock()
	now := c.gate.now()
	c.gate.node.ByReply(c.account, yes)
	c.gate.finish(now)
}

// OnDemand takes the number of requests that the client has ready and cannot
// send for want of credit.
func (c *Client) OnDemand(n int) {
	c.gate.mu.Lock()
	now := c.gate.now()
	c.gate.node.OnDemand(now, c.account, n)
	c.gate.finish(now)
}

// Close ends the account; its credits go to other clients at once. Requests of
// the client that still run keep their slots. Further calls do nothing.
func (c *Client) Close() {
	c.gate.mu.Lock()
	now := c.gate.now()
	c.gate.node.Disconnect(now, c.account)
	c.gate.finish(now)
}
