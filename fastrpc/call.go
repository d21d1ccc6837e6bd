package fastrpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Times is what a server says about a call.
type Times struct {
	// Queued is from the arrival to the start of the handler, as the gate measured it, Service
	// the handler alone. Both are cut off at 4.29 s.
	Queued, Service time.Duration
}

// call is a call under way. It is used again.
type call struct {
	method *Method
	link   *link
	stream uint32
	permit live.Permit
	holds  bool          // permit must be returned
	sent   mono.Time     // with a credit, from here on it was on its way
	served time.Duration // until the answer, if the handler ran
	out    []byte
	err    error
	times  Times
	reply  wire.Reply
	state  atomic.Uint32
	done   chan struct{}
}

// What becomes of a call.
const (
	waiting   uint32 = iota
	answering        // the reader of the connection has the answer
	abandoned        // the caller has left
)

// Call sends in, waits for the answer and returns it, appended to out. in is free again when
// it returns. The budget is what is left until ctx's deadline, and class, workflow and
// priority those of the request that ctx belongs to. A call that need not wait for a credit
// allocates nothing if out has room.
//
// A refusal by the client's wallet, the server or a service further down is a
// *spillgate.Refusal to errors.As. An error of the handler is an *Error. A call that ends with
// ctx is cancelled at the server.
func (m *Method) Call(ctx context.Context, in, out []byte) ([]byte, error) {
	out, _, err := m.call(ctx, in, out, false)
	return out, err
}

// CallTimed is Call, and also returns the times that the server reports.
func (m *Method) CallTimed(ctx context.Context, in, out []byte) ([]byte, Times, error) {
	return m.call(ctx, in, out, true)
}

func (m *Method) call(ctx context.Context, in, out []byte, timed bool) ([]byte, Times, error) {
	client := m.client
	c, ok := client.places.Get().(*call)
	if !ok {
		c = &call{done: make(chan struct{}, 1)}
	}
	c.method, c.out, c.err, c.times, c.holds = m, out, nil, Times{}, false
	c.state.Store(waiting)
	if err := c.acquire(ctx); err != nil {
		live.UnsentBelow(ctx, err)
		c.recycle()
		return out, Times{}, err
	}
	outgoing, tags := live.BeginCall(ctx, c.link.callee, 0)
	if err := c.send(ctx, &tags, in, timed); err != nil {
		live.UnsentBelow(ctx, err)
		outgoing.End(nil)
		c.settle()
		c.recycle()
		return out, Times{}, err
	}
	if !c.wait(ctx) {
		outgoing.End(nil)
		return out, Times{}, ended(ctx, m.name)
	}
	if c.reply.Process != 0 {
		outgoing.Answered(c.link.callee, c.reply)
	}
	outgoing.End(&c.reply)
	if c.reply.HasShed {
		live.RefusedBelow(ctx)
	}
	c.settle()
	result, times, err := c.out, c.times, c.err
	c.recycle()
	if err != nil {
		return out, times, err
	}
	return result, times, nil
}

// ended is the error of a call whose context ended after it was sent.
func ended(ctx context.Context, method string) error {
	return fmt.Errorf("fastrpc: the call to %q was under way: %w", method, live.Ended(ctx))
}

// acquire finds the connection, with a credit where servers grant them.
func (c *call) acquire(ctx context.Context) error {
	client := c.method.client
	if ctx.Err() != nil {
		return fmt.Errorf("fastrpc: the call to %q was not sent: %w", c.method.name, live.Ended(ctx))
	}
	for {
		r := client.routes.Load()
		if len(r.links) == 0 {
			if client.ctx.Err() != nil {
				return ErrClosed
			}
			return fmt.Errorf("%w: no server is connected; the client goes on trying", ErrLost)
		}
		if r.plain {
			c.link = r.least(client.turn.Add(1))
			return nil
		}
		c.sent = live.Now()
		ok, err := client.wallet.AcquireOrAt(ctx, c.sent, r.lost, &c.permit)
		switch {
		case err != nil && client.ctx.Err() != nil:
			return ErrClosed
		case err != nil:
			return err
		case !ok:
			continue // no server is connected any more
		}
		if c.holds = true; c.permit.Waited() > 0 {
			c.sent = live.Now()
		}
		if c.link = r.to(c.permit.Server()); c.link == nil {
			c.link = client.newest().to(c.permit.Server())
		}
		if c.link != nil {
			return nil
		}
		c.settle() // its server is gone
	}
}

// send puts the request on its way.
func (c *call) send(ctx context.Context, tags *wire.Tags, in []byte, timed bool) error {
	h := request{
		timed: timed, method: c.method.number, attempt: uint8(min(tags.Attempt, wire.MaxAttempt)), class: tags.Class, priority: tags.Priority,
	}
	if c.holds {
		h.demand, h.waited = uint16(min(c.permit.Demand(), 1<<16-1)), c.permit.Waited()
		tags.Asks = c.permit.Asks()
	}
	if d, ok := ctx.Deadline(); ok {
		h.budget = max(time.Until(d), 1) // never 0, which would say that there is none
	}
	tags.Token = live.TokenFrom(ctx)
	tags.Attempt, tags.Class, tags.Priority = 0, 0, 0
	var room [wire.MaxTags]byte
	if *tags != (wire.Tags{}) {
		h.tags = tags.Append(room[:0])
	}
	if n := requestLen + len(h.tags) + len(in); n > c.link.frame {
		return fmt.Errorf("%w: a request of %d bytes, expected at most %d", ErrTooLong, len(in), c.link.frame-requestLen-len(h.tags))
	}
	return c.link.send(c, &h, in)
}

// send gives a call a lane and appends its request.
func (l *link) send(c *call, h *request, in []byte) error {
	o := &l.out
	o.mu.Lock()
	var n uint16
	free := len(l.free)
	switch {
	case o.err != nil:
		err := o.err
		o.mu.Unlock()
		if !errors.Is(err, ErrLost) && !errors.Is(err, ErrClosed) { // of a write, which the reader does not know of yet
			err = fmt.Errorf("%w: %s: %w", ErrLost, l.address, err)
		}
		return err
	case l.draining:
		o.mu.Unlock()
		return &live.Refusal{Reason: work.Draining}
	case len(o.buf) >= o.limit || free == 0 && l.unused == len(l.lanes):
		o.mu.Unlock()
		return unsent(work.WalletFull)
	case free > 0:
		n, l.free = l.free[free-1], l.free[:free-1]
	default:
		n = uint16(l.unused)
		l.unused++
	}
	l.turn++
	h.stream = uint32(l.turn)<<16 | uint32(n)
	if !l.named[h.method] {
		l.named[h.method] = true
		o.buf = appendMethod(o.buf, h.method, c.method.name)
	}
	c.stream, c.link = h.stream, l
	l.flying.Add(1)
	l.lanes[n].Store(c)
	o.buf = h.append(o.buf, in)
	o.send()
	return nil
}

// wait waits for the answer, and reports false if the context ended before: the call is then
// the reader's, who settles it when the server has answered.
func (c *call) wait(ctx context.Context) bool {
	over := ctx.Done()
	if over == nil {
		<-c.done
		return true
	}
	select {
	case <-c.done:
		return true
	case <-over:
	}
	l, stream := c.link, c.stream
	if !c.state.CompareAndSwap(waiting, abandoned) {
		<-c.done
		return true
	}
	o := &l.out
	o.mu.Lock()
	if o.err == nil {
		o.buf = appendShort(o.buf, kindCancel, stream)
	}
	o.send()
	return false
}

// answered takes the answer, and reports whether the caller still waits for it. It is called by the connection's
// reader; deliver follows.
func (c *call) answered(h *response, reply *wire.Reply, body []byte) (here bool) {
	c.link.flying.Add(-1)
	here = c.state.CompareAndSwap(waiting, answering)
	c.reply, c.served = *reply, 0
	if c.holds {
		if h.status == statusOK || h.status == statusError {
			c.served = max(c.link.in.read.Sub(c.sent), 1)
			c.link.heard(c.permit.Asks(), reply.HasGrant)
		}
	}
	if !here {
		return false
	}
	if h.timed {
		c.times = Times{Queued: h.queued, Service: h.service}
	}
	if h.status == statusOK {
		c.out = append(c.out, body...)
	} else {
		c.err = errorOf(c.method.name, h, body)
		var refusal *live.Refusal
		if errors.As(c.err, &refusal) {
			refusal.Resend, refusal.Grant, refusal.HasGrant = reply.Resend, reply.Grant, reply.HasGrant
			c.reply.Shed, c.reply.HasShed = wire.Shed{Reason: h.reason, Retryable: h.retryable, Pushback: refusal.Pushback}, true
		}
	}
	return true
}

// lost ends a call whose connection is gone.
func (c *call) lost(err error) {
	c.link.flying.Add(-1)
	here := c.state.CompareAndSwap(waiting, answering)
	c.reply, c.served = wire.Reply{}, 0
	if !here {
		c.settle()
		c.recycle()
		return
	}
	c.err = err
	c.done <- struct{}{}
}

// settle returns the credit of a call that was not answered.
func (c *call) settle() {
	if c.holds {
		c.holds = false
		c.permit.Return(0)
	}
}

// credit returns what is to be said of the credit of a call that was answered, and false if it held none.
func (c *call) credit() (a live.Returned, ok bool) {
	if !c.holds {
		return a, false
	}
	c.holds = false
	a.Permit, a.Served = &c.permit, c.served
	if c.reply.HasGrant {
		a.Grant = &c.reply.Grant
	}
	return a, true
}

// recycle keeps c for another call. No other goroutine may hold it.
func (c *call) recycle() {
	places := &c.method.client.places
	c.method, c.link, c.out, c.err, c.reply, c.served = nil, nil, nil, nil, wire.Reply{}, 0
	places.Put(c)
}
