package http1

import (
	"context"
	"errors"
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
	got   chan got // room for one
	spare bool     // it began with a dial that was spare; does not change

	dial *dialling // its own, while it waits; with the lock
}

// dialling is a connection that is being made.
type dialling struct{ want *want } // nil: no request waits for it any more

// spareDials is how many connections are made that no request waits for any more before the next request waits for one of
// them. A dial does not end with its request, so where a server answers no dial, and clients give up sooner than that
// does, there would be as many as requests came in that time, and no files left for other servers.
const spareDials = 16

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
	if n := len(c.spare) - 1; n >= spareDials-1 {
		w.dial, w.spare = c.spare[n], true
		w.dial.want = w
		c.spare[n] = nil
		c.spare = c.spare[:n]
	}
	return nil, w
}

// wait dials, and returns the first connection that there is. What is dialled for nothing is kept.
func (c *Client) wait(ctx context.Context, w *want) (*conn, error) {
	own := !w.spare
	if own {
		c.begin(ctx, w)
	}
	for {
		select {
		case g := <-w.got:
			if g.err != nil && ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if own || !errors.Is(g.err, ErrOther) {
				return g.conn, g.err
			}
			// The dial was for a request of another kind.
			own = true
			c.mu.Lock()
			c.wants = append(c.wants, w)
			c.mu.Unlock()
			c.begin(ctx, w)
			continue
		case <-ctx.Done():
		}
		if !c.forget(w) {
			if g := <-w.got; g.conn != nil {
				c.put(g.conn)
			}
		}
		return nil, context.Cause(ctx)
	}
}

// begin begins to dial for w, unless that has its connection by now.
func (c *Client) begin(ctx context.Context, w *want) {
	d := &dialling{w}
	c.mu.Lock()
	waits := slices.Contains(c.wants, w)
	if waits {
		w.dial = d
	}
	c.mu.Unlock()
	if waits {
		go c.dial(context.WithoutCancel(ctx), d)
	}
}

// dial makes a connection for the request that waits for it then, or for another one if none does.
func (c *Client) dial(ctx context.Context, d *dialling) {
	nc, err := c.cfg.Dial(ctx)
	c.mu.Lock()
	w := d.want
	if w != nil {
		w.dial = nil
		c.leave(slices.Index(c.wants, w))
	} else if i := slices.Index(c.spare, d); i >= 0 {
		c.spare = slices.Delete(c.spare, i, i+1)
	}
	c.mu.Unlock()
	switch {
	case w != nil && err != nil:
		w.got <- got{err: err}
	case w != nil:
		w.got <- got{conn: newConn(c, nc)}
	case err == nil:
		c.put(newConn(c, nc))
	}
}

// forget takes w out of the line, and reports false if it is not there: then it has what it gets.
func (c *Client) forget(w *want) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.wants, w)
	if i >= 0 {
		c.leave(i)
	}
	return i >= 0
}

// leave takes the i-th request out of the line. What is dialled for it is spare then. The lock is held.
func (c *Client) leave(i int) {
	if d := c.wants[i].dial; d != nil {
		d.want, c.wants[i].dial = nil, nil
		c.spare = append(c.spare, d)
	}
	c.wants = slices.Delete(c.wants, i, i+1)
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
		c.leave(0)
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
