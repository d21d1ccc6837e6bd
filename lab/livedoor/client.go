package livedoor

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// Client puts a Sender behind the unary calls of one ClientConn. It is safe for
// concurrent use.
type Client struct {
	mu     sync.Mutex
	sender baseline.Sender
	alarm  alarm
	closed bool
}

// NewClient returns a client around sender, which nobody else may call any more.
// Each ClientConn needs its own.
func NewClient(sender baseline.Sender) *Client {
	c := &Client{sender: sender}
	c.alarm.ring = c.wake
	return c
}

// Option returns the option of the ClientConn.
func (c *Client) Option() grpc.DialOption { return grpc.WithChainUnaryInterceptor(c.unary) }

// Close stops the Sender's timer. Calls that wait end with their contexts.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.alarm.stop()
}

type priorityKey struct{}

// WithPriority gives the calls made with the context a priority.
func WithPriority(ctx context.Context, p work.Priority) context.Context {
	return context.WithValue(ctx, priorityKey{}, p)
}

// request is one waiter's driver.
type request struct {
	waiter credit.Waiter
	turn   chan turn // buffered: one
}

type turn struct {
	step   credit.Step
	reason work.Reason
}

func (c *Client) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	r := &request{}
	r.waiter.Owner = r
	r.waiter.Deadline = mono.Never
	if d, ok := ctx.Deadline(); ok {
		r.waiter.Deadline = live.Instant(d)
	}
	priority, _ := ctx.Value(priorityKey{}).(work.Priority)

	got, demand := c.submit(r, priority)
	if got.step == credit.Wait {
		var err error
		if got, demand, err = c.await(ctx, r); err != nil {
			return err
		}
	}
	if got.step != credit.Send {
		return status.Error(codes.ResourceExhausted, "livedoor: not sent: "+got.reason.String())
	}
	sent := live.Now()
	ctx = metadata.AppendToOutgoingContext(ctx, key, tags{priority, demand}.encode())
	var trailer metadata.MD
	ended := false
	defer func() {
		if !ended { // a panic below: the answer will not come
			c.lost(r)
		}
	}()
	err := invoke(ctx, method, req, reply, conn, append(opts[:len(opts):len(opts)], grpc.Trailer(&trailer))...)
	ended = true
	if f, ok := feedbackOf(trailer); ok {
		c.reply(r, sent, f)
	} else {
		c.lost(r)
	}
	return err
}

func (c *Client) submit(r *request, p work.Priority) (turn, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.turn = make(chan turn, 1)
	now := live.Now()
	step, reason := c.sender.Submit(now, &r.waiter, p)
	c.pump(now)
	return turn{step, reason}, c.sender.Demand()
}

// await waits for the request's turn or for the end of the caller's patience.
func (c *Client) await(ctx context.Context, r *request) (turn, int, error) {
	var got turn
	select {
	case got = <-r.turn:
	case <-ctx.Done():
		c.mu.Lock()
		canceled := c.sender.Cancel(&r.waiter)
		c.pump(live.Now())
		c.mu.Unlock()
		if canceled {
			return turn{}, 0, status.FromContextError(ctx.Err()).Err()
		}
		got = <-r.turn // it had its turn meanwhile
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return got, c.sender.Demand(), nil
}

func (c *Client) reply(r *request, sent mono.Time, f baseline.Feedback) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := live.Now()
	c.sender.OnReply(now, &r.waiter, now.Sub(sent), f)
	c.pump(now)
}

// lost tells a Sender that counts what is outstanding that an answer will not
// come.
func (c *Client) lost(r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.sender.(interface{ OnLost(*credit.Waiter) }); ok {
		s.OnLost(&r.waiter)
		c.pump(live.Now())
	}
}

func (c *Client) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := live.Now()
	c.alarm.rang()
	c.sender.OnWake(now)
	c.pump(now)
}

// pump wakes the requests that leave the queue and sets the alarm.
func (c *Client) pump(now mono.Time) {
	for {
		w, step, reason := c.sender.Next(now)
		if w == nil {
			break
		}
		w.Owner.(*request).turn <- turn{step, reason}
	}
	if !c.closed {
		c.alarm.set(now, c.sender.NextWake())
	}
}

func feedbackOf(trailer metadata.MD) (baseline.Feedback, bool) {
	values := trailer.Get(key)
	if len(values) != 1 {
		return baseline.Feedback{}, false
	}
	f, err := decodeFeedback(values[0])
	return f, err == nil
}
