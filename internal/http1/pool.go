package http1

import (
	"context"
	"slices"
	"time"
)

const (
	// sweepEvery is how often idle connections are looked at: what a server closed is closed here within
	// as much. A look takes about half a microsecond.
	sweepEvery = time.Second
	// sweepAtOnce is how many of them are looked at under one lock, some 50 µs.
	sweepAtOnce = 64
)

// want is a request that waits for a connection: for its own, which is dialled, or for one that another
// request gives back first.
type want struct {
	got chan got // room for one
}

type got struct {
	conn *conn
	err  error
}

// get returns a connection for a request, which takes it to put, or closes it.
func (c *Client) get(ctx context.Context) (*conn, error) {
	for {
		cn, w := c.pop()
		if cn == nil {
			var err error
			if cn, err = c.wait(ctx, w); err != nil {
				return nil, err
			}
		}
		if !cn.reused || cn.usable() {
			return cn, nil
		}
		cn.close()
	}
}

// pop takes the connection that was used last, or lines up for one.
func (c *Client) pop() (*conn, *want) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rests = false
	if n := len(c.idle) - 1; n >= 0 {
		cn := c.idle[n]
		c.idle[n] = nil
		c.idle = c.idle[:n]
		return cn, nil
	}
	w := &want{got: make(chan got, 1)}
	c.wants = append(c.wants, w)
	return nil, w
}

// wait dials, and returns the first connection that there is. What is dialled for nothing is kept.
func (c *Client) wait(ctx context.Context, w *want) (*conn, error) {
	go c.dial(context.WithoutCancel(ctx), w)
	select {
	case g := <-w.got:
		if g.err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return g.conn, g.err
	case <-ctx.Done():
	}
	if !c.forget(w) {
		if g := <-w.got; g.conn != nil {
			c.put(g.conn)
		}
	}
	return nil, context.Cause(ctx)
}

// dial makes a connection for w, or for another request if w has one by then.
func (c *Client) dial(ctx context.Context, w *want) {
	nc, err := c.cfg.Dial(ctx)
	if err != nil {
		if c.forget(w) {
			w.got <- got{err: err}
		}
		return
	}
	cn := newConn(c, nc)
	if c.forget(w) {
		w.got <- got{conn: cn}
		return
	}
	c.put(cn)
}

// forget takes w out of the line, and reports false if it is not there: then it has what it gets.
func (c *Client) forget(w *want) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.wants, w)
	if i >= 0 {
		c.wants = slices.Delete(c.wants, i, i+1)
	}
	return i >= 0
}

// put gives cn to the request that has waited longest, or keeps it.
func (c *Client) put(cn *conn) {
	if c.cfg.Keep != nil && !c.cfg.Keep() {
		cn.close()
		return
	}
	if out := c.keep(cn); out != nil {
		out.close()
	}
}

// keep returns the connection for which there is no room, nil if there is room for all.
func (c *Client) keep(cn *conn) (out *conn) {
	cn.reused = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wants) > 0 {
		c.wants[0].got <- got{conn: cn}
		c.wants = slices.Delete(c.wants, 0, 1)
		return nil
	}
	if c.closed || c.rests || c.cfg.Idle <= 0 {
		return cn
	}
	cn.since = time.Now()
	if len(c.idle) >= c.cfg.Idle {
		out = c.idle[0]
		c.idle = slices.Delete(c.idle, 0, 1)
	}
	c.idle = append(c.idle, cn)
	if !c.swept {
		c.swept = true
		if c.sweeps == nil {
			c.sweeps = time.AfterFunc(sweepEvery, c.sweep)
		} else {
			c.sweeps.Reset(sweepEvery)
		}
	}
	return out
}

// sweep closes what was idle for long enough and what the server closed, and comes again while there is
// something to look at.
func (c *Client) sweep() {
	var out []*conn
	for at, more := 0, true; more; {
		at, more, out = c.sweepSome(at, out[:0])
		for _, cn := range out {
			if c.old(cn) || !cn.usable() {
				cn.close()
			} else {
				c.put(cn) // what came belongs to TLS
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.swept = len(c.idle) > 0; c.swept {
		c.sweeps.Reset(sweepEvery)
	}
}

// sweepSome takes out those of some connections that are old or have something to read, from the at-th on, and
// returns where the rest begins. It reads nothing, because that may wait and requests wait for the lock.
func (c *Client) sweepSome(at int, out []*conn) (next int, more bool, _ []*conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at >= len(c.idle) {
		return 0, false, out
	}
	end := min(at+sweepAtOnce, len(c.idle))
	left := slices.DeleteFunc(c.idle[at:end:end], func(cn *conn) bool {
		if c.old(cn) || !cn.quiet() {
			out = append(out, cn)
			return true
		}
		return false
	})
	next = at + len(left)
	c.idle = slices.Delete(c.idle, next, end)
	return next, true, out
}

// old reports whether cn was idle for as long as it may be.
func (c *Client) old(cn *conn) bool {
	return c.cfg.IdleTime > 0 && time.Since(cn.since) >= c.cfg.IdleTime
}

// CloseIdleConnections closes those that no request uses. Those in use are not kept either, unless another
// request begins before their end.
func (c *Client) CloseIdleConnections() { c.drop(false) }

// Close closes the connections that no request uses, and has all others closed after their answers. Requests
// may go on, and begin.
func (c *Client) Close() { c.drop(true) }

func (c *Client) drop(forever bool) {
	c.mu.Lock()
	idle := c.idle
	c.idle, c.rests, c.closed = nil, true, c.closed || forever
	if c.sweeps != nil && c.sweeps.Stop() {
		c.swept = false
	}
	c.mu.Unlock()
	for _, cn := range idle {
		cn.close()
	}
}
