package served

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// crowd is a server and its clients.
type crowd struct {
	*compared
	clients []*rawClient
	next    int
}

// gather starts a gRPC server with env in its environment and connects n clients, each
// of which makes two calls and opens a control stream.
func gather(ctx context.Context, kind string, n int, env ...string) (*crowd, error) {
	server, err := compare(ctx, kind, "", env...)
	if err != nil {
		return nil, err
	}
	c := &crowd{compared: server}
	b := newRawBuffers()
	for len(c.clients) < n && ctx.Err() == nil {
		var client *rawClient
		if client, err = dialRaw(c.calls); err != nil {
			break
		}
		c.clients = append(c.clients, client)
		if _, err = client.call(b, creditBlock); err != nil {
			break
		}
		if err = client.openControl(b); err != nil {
			break
		}
		if _, err = client.call(b, creditBlock); err != nil { // reads the answer to both
			break
		}
	}
	if err := errors.Join(err, ctx.Err()); err != nil {
		c.close()
		return nil, fmt.Errorf("client %d of %d of %s: %w", len(c.clients), n, kind, err)
	}
	return c, nil
}

// drive makes n calls, spread over the clients, atOnce at a time, and returns the
// server's processor time for one, and how many were refused.
func (c *crowd) drive(ctx context.Context, n int) (each time.Duration, refused int, err error) {
	each, err = c.spent(n, func() (err error) {
		refused, err = c.call(ctx, n)
		return err
	})
	return each, refused, err
}

// call makes n calls, and returns how many were refused.
func (c *crowd) call(ctx context.Context, n int) (refused int, err error) {
	type part struct {
		refused int
		err     error
	}
	parts := make(chan part, atOnce)
	for worker := range atOnce {
		go func() {
			var p part
			b := newRawBuffers()
			for i := worker; i < n && p.err == nil && ctx.Err() == nil; i += atOnce {
				// A client belongs to the worker of its number, so no two meet.
				var status string
				status, p.err = c.clients[(c.next+i)%(len(c.clients)/atOnce*atOnce)].call(b, creditBlock)
				if status != "0" {
					p.refused++
				}
			}
			parts <- p
		}()
	}
	for range atOnce {
		p := <-parts
		refused += p.refused
		err = errors.Join(err, p.err)
	}
	c.next += (n + atOnce - 1) / atOnce * atOnce
	return refused, errors.Join(err, ctx.Err())
}

func (c *crowd) close() {
	for _, client := range c.clients {
		_ = client.conn.Close()
	}
	c.stop()
}
