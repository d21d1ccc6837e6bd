package grpcgate

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// controlAgain is how long a client that was refused a control stream goes
// without before it asks again. Meanwhile it lives by Grant.Revive.
const controlAgain = 10 * time.Second

// controlBuilder makes the control client of one connection. grpc closes what it
// built when the connection's state changes.
type controlBuilder struct{}

func (*controlBuilder) Build(conn any) (balancer.Producer, func()) {
	c := &controlClient{conn: conn.(grpc.ClientConnInterface), news: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, c.close
}

// controlClient is a client's end of a control stream. The stream is opened when
// there is something to say for the first time: most clients always have a reply
// to come, and need none.
type controlClient struct {
	conn   grpc.ClientConnInterface
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	news   chan struct{}

	mu      sync.Mutex
	account *live.Server
	client  *client
	callee  *live.Callee
	want    int
	wants   bool // want is to be told
	asks    []wire.Tags
	running bool
	closed  bool
	notTill time.Time
	never   bool // the server has no such service
}

// serve sets the account that grants go to; nil for none.
func (c *controlClient) serve(a *live.Server, client *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.account, c.client = a, client
}

// demand tells the server how many requests wait for its credits. It does not
// block; of several calls the last counts. A server that has said nothing yet is told nothing, but the stream is opened: one
// without credits has none to open.
func (c *controlClient) demand(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n == credit.Unheard {
		c.tell(true)
		return
	}
	c.want, c.wants = n, true
	c.tell(n > 0)
}

// ofCallee sets the server at the other end.
func (c *controlClient) ofCallee(callee *live.Callee) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callee = callee
}

// ask sends a question for a rate. It does not block.
func (c *controlClient) ask(tags wire.Tags) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asks) < maxQuestions {
		c.asks = append(c.asks, tags)
		c.tell(true)
	}
}

// tell has what is new sent, over a stream that is opened for it if it must be. It
// is called with the lock held.
func (c *controlClient) tell(open bool) {
	select {
	case c.news <- struct{}{}:
	default:
	}
	switch {
	case c.running:
	case !open || c.closed || c.never || time.Now().Before(c.notTill):
		c.asks = nil // they would be old by then
	default:
		c.running = true
		c.done.Add(1)
		go c.run()
	}
}

// run opens the stream and sends what is new until the stream ends. A server without the service has no credits, unless
// its answers say so.
func (c *controlClient) run() {
	defer c.done.Done()
	code := status.Code(c.talk())
	if account := c.ended(code); code == codes.Unimplemented && account != nil {
		account.OnPlainReply()
	}
}

// ended notes how the stream ended, and returns the account.
func (c *controlClient) ended(code codes.Code) *live.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.asks = false, nil
	switch code {
	case codes.Unimplemented:
		c.never = true
	case codes.ResourceExhausted:
		c.notTill = time.Now().Add(controlAgain)
	default:
		c.notTill = time.Now().Add(time.Second)
	}
	return c.account
}

func (c *controlClient) talk() error {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	desc := &grpc.StreamDesc{StreamName: "Credits", ServerStreams: true, ClientStreams: true}
	stream, err := c.conn.NewStream(ctx, desc, controlMethod, grpc.MaxCallRecvMsgSize(2*wire.MaxLen))
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.receive(stream) }()
	gap := time.NewTimer(controlGap)
	defer gap.Stop()
	for {
		select {
		case <-c.news:
		case err := <-ended:
			return err
		}
		for _, tags := range c.take() {
			if stream.SendMsg(wrapperspb.Bytes(tags.Append(nil))) != nil {
				cancel()
				return <-ended // the receiver knows why
			}
		}
		gap.Reset(controlGap)
		select {
		case <-gap.C:
		case err := <-ended:
			return err
		}
	}
}

// take returns what is to be sent.
func (c *controlClient) take() []wire.Tags {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.asks
	c.asks = nil
	if c.wants {
		c.wants = false
		tags := wire.Tags{Credits: true, Demand: c.want}
		if c.account != nil {
			tags.Client = c.account.Identity()
		}
		out = append(out, tags)
	}
	return out
}

// receive takes grants and answers until the stream ends.
func (c *controlClient) receive(stream grpc.ClientStream) error {
	var msg wrapperspb.BytesValue
	for {
		if err := stream.RecvMsg(&msg); err != nil {
			return err
		}
		c.mu.Lock()
		account, client, callee := c.account, c.client, c.callee
		c.mu.Unlock()
		reply, err := wire.ParseReply(msg.Value)
		if err != nil && client != nil {
			client.o.counters.Malformed.Add(1)
		}
		if reply.HasGrant && account != nil {
			account.OnGrant(reply.Grant)
		}
		if callee != nil {
			callee.Announced(reply)
		}
	}
}

// close ends the stream and waits until nothing of it runs.
func (c *controlClient) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.done.Wait()
}
