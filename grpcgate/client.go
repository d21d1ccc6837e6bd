package grpcgate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/spanevent"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// BalancerName is the name of the load balancing policy that sends each call to
// the server whose credit it holds. A service config that names another policy
// works, without credits: the log says so once, and Counters.Uncredited counts the calls.
const BalancerName = "spillgate_credit"

// client is what DialOptions shares between the ClientConns that use it: the
// options, and which pool of servers belongs to which ClientConn.
type client struct {
	o       clientOptions
	err     error    // of the options: every call fails with it
	pools   sync.Map // *grpc.ClientConn → *pool
	retries live.Retries
	foreign sync.Once // said that another policy sends the calls
}

// DialOptions returns the options that make a ClientConn's calls wait for
// credits. The same options may be used for several ClientConns; each has its
// own credits.
//
// A call takes a credit before it is sent and gives it back when it ends; a
// stream gives it back earlier, as the server does its slot (WithStreamHold). Without a
// free credit it waits in the wallet, a bounded queue, as long as its context allows, and is then refused unsent with
// RESOURCE_EXHAUSTED. While no server is connected it behaves as any call of
// grpc does: it fails fast or waits for ready. Attempts of grpc's own retry
// policy take a credit each.
//
// errors.As finds a *spillgate.Refusal in the error of a call that was refused, by the
// wallet, the server or a service further down; the error has a gRPC status all the same.
func DialOptions(opts ...ClientOption) []grpc.DialOption {
	_, dial := newClient(opts)
	return dial
}

func newClient(opts []ClientOption) (*client, []grpc.DialOption) {
	c := &client{o: clientOptions{exempt: newExemptions(), hold: defaultHold}}
	for _, opt := range opts {
		opt.client(&c.o)
	}
	if c.o.counters == nil {
		c.o.counters = new(Counters)
	}
	if _, err := live.NewWallet(c.o.wallet); err != nil {
		c.err = status.Error(codes.FailedPrecondition, err.Error())
	}
	return c, []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(c.unary),
		grpc.WithChainStreamInterceptor(c.stream),
		grpc.WithDefaultServiceConfig(serviceConfig(c.o.service)),
	}
}

// serviceConfig writes the balancer's name into a service config. What is not a
// JSON object is left to grpc to complain about.
func serviceConfig(user string) string {
	if user == "" {
		user = "{}"
	}
	var config map[string]json.RawMessage
	if json.Unmarshal([]byte(user), &config) != nil || config == nil {
		return user
	}
	if _, chosen := config["loadBalancingConfig"]; !chosen {
		config["loadBalancingConfig"] = json.RawMessage(`[{"` + BalancerName + `":{}}]`)
	}
	text, err := json.Marshal(config)
	if err != nil {
		return user
	}
	return string(text)
}

// outgoing is one call of a client, as the context that reaches the picker, where
// its attempts are sent to the servers that their permits name.
type outgoing struct {
	context.Context
	client *client
	conn   *grpc.ClientConn
	said   *said // what the context says under outgoingMetadata, nil if a context around it does

	mu       sync.Mutex
	fetching uint32       // the number of the pool in which a permit for this attempt is fetched, 0 if none is
	attempts uint16       // sent
	told     bool         // the tags say that this client obeys credits; not guarded, and nor is stream
	stream   bool         // the call is one
	counted  bool         // as one that was not sent
	permit   *live.Permit // for the next attempt
	holds    *live.Permit // of the last one
	err      error        // why there is no permit for the next attempt
	reply    *wire.Reply  // to the last attempt, nil if that said nothing
	sent     live.Outgoing

	first attempt // spares most calls an allocation, and so does room
	room  live.Permit
}

type outgoingKey struct{}

func (o *outgoing) Value(key any) any {
	switch {
	case key == (outgoingKey{}):
		return o
	case o.said != nil && key == outgoingMetadata:
		return o.said.value
	}
	return o.Context.Value(key)
}

func outgoingFrom(ctx context.Context) *outgoing {
	o, _ := ctx.Value(outgoingKey{}).(*outgoing)
	return o
}

// alone returns the context of an exempt call that is made with ctx: one that is made for another call, as by an interceptor of
// that, has nothing to do with its credit, its server and its tags.
func alone(ctx context.Context) context.Context {
	if outgoingFrom(ctx) != nil {
		ctx = context.WithValue(ctx, outgoingKey{}, nil)
	} else if !live.Serving(ctx) {
		return ctx
	}
	if md := tagged(ctx); md != nil {
		delete(md, wire.MetadataKey)
		return metadata.NewOutgoingContext(ctx, md)
	}
	return ctx
}

// begin prepares an attempt of a call, the first of which began at an instant: it waits
// for a credit if servers are known. The context returned is the call's, with its tags.
func (c *client) begin(ctx context.Context, conn *grpc.ClientConn, try int, began mono.Time) (*outgoing, context.Context, error) {
	o := &outgoing{Context: ctx, client: c, conn: conn}
	var permit *live.Permit
	var to *live.Callee
	if p, ok := c.pools.Load(conn); ok {
		var err error
		if permit, err = p.(*pool).acquire(ctx, &o.room); err != nil {
			spanevent.Waited(ctx, spanevent.CreditWait, o.room.Waited())
			spanevent.Refused(ctx, err)
			live.UnsentBelow(ctx, err)
			c.o.calls.Target(conn.Target()).NotSent(err)
			return nil, nil, refusalError(err)
		}
		if permit != nil {
			spanevent.Waited(ctx, spanevent.CreditWait, permit.Waited())
			if live.Serving(ctx) {
				if b := p.(*pool).behind(permit.Server()); b != nil {
					to = b.callee
				}
			}
		}
	}
	var tags wire.Tags
	o.sent, tags = live.BeginCall(ctx, to, try)
	if permit != nil {
		o.permit, o.told = permit, true
		permit.Tell(&tags)
		tags.Client = permit.Server().Identity()
	}
	if try > 0 {
		tags.Waited = live.Now().Sub(began)
	}
	tags.Token = live.TokenFrom(ctx)
	if tags == (wire.Tags{}) {
		return o, o.withText(""), nil
	}
	return o, o.withTags(&tags), nil
}

// take returns the permit for the next attempt, if there is one, or why there will be none, or whether one is on its way from p.
func (o *outgoing) take(p *pool) (permit *live.Permit, err error, coming bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	permit, err = o.permit, o.err
	o.permit, o.err = nil, nil
	return permit, err, o.fetching == p.number
}

// end gives back a permit that no attempt took, and returns the reply to the last attempt, nil if that said nothing, and
// whether there was an attempt.
func (o *outgoing) end() (reply *wire.Reply, sent bool) {
	o.mu.Lock()
	p := o.permit
	reply, sent = o.reply, o.attempts > 0
	o.permit = nil
	o.mu.Unlock()
	if p != nil {
		p.Return(0)
	}
	return reply, sent
}

// count reports whether the call, which was not sent, is still to be counted as that: its context may end while a credit is
// fetched for it.
func (o *outgoing) count() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.counted
	o.counted = true
	return !was
}

// giveBack gives back a permit that no attempt took.
func (o *outgoing) giveBack() { o.end() }

// server returns the server that the last attempt was sent to, nil if none was.
func (o *outgoing) server() *live.Server {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.holds == nil {
		return nil
	}
	return o.holds.Server()
}

// last returns the reply to the last attempt.
func (o *outgoing) last() (r wire.Reply) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reply != nil {
		r = *o.reply
	}
	return r
}

func (c *client) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if c.o.exempt.has(method) {
		return invoke(alone(ctx), method, req, reply, conn, opts...)
	}
	if c.err != nil {
		return c.err
	}
	c.o.untagged.Called(ctx, method)
	var began mono.Time
	if c.o.retries > 0 {
		began = live.Now()
	}
	for try := 0; ; try++ {
		o, out, err := c.begin(ctx, conn, try, began)
		if err != nil {
			return err
		}
		sent := false
		err = func() error {
			defer func() { // also when an interceptor further in panics
				var said *wire.Reply
				said, sent = o.end()
				o.sent.End(said)
			}()
			return invoke(out, method, req, reply, conn, opts...)
		}()
		if !sent {
			c.notSent(o, conn, err)
		}
		if c.o.retries == 0 {
			return understood(err)
		}
		if err == nil {
			c.retries.Earn(ctx, o.server(), began)
			return nil
		}
		if try >= c.o.retries || !c.mayRetry(ctx, o) {
			return understood(err)
		}
	}
}

// notSent counts a call that ended with err and that this package's balancer did not send: no server was connected; or an
// interceptor further in ended it; or there is another balancer, which is said at the first call.
func (c *client) notSent(o *outgoing, conn *grpc.ClientConn, err error) {
	if err != nil {
		var refusal *live.Refusal
		if !errors.As(err, &refusal) && !answered(status.Code(err)) && o.count() {
			c.o.calls.Target(conn.Target()).Count(live.Failed, work.None)
		}
		return
	}
	if _, ours := c.pools.Load(conn); ours || conn.GetState() != connectivity.Ready {
		return
	}
	c.o.counters.Uncredited.Add(1)
	c.foreign.Do(func() {
		slog.Warn("grpcgate: calls are sent without credits, by another load balancing policy: pass the service config with grpcgate.WithServiceConfig, without loadBalancingConfig, and keep the resolver from setting one", "target", conn.Target())
	})
}

// mayRetry reports whether a call that failed may be sent again, after waiting
// as long as the server asked for.
func (c *client) mayRetry(ctx context.Context, o *outgoing) bool {
	reply := o.last()
	if !reply.HasShed {
		return false
	}
	shed := reply.Shed
	switch c.retries.Ask(ctx, shed) {
	case work.None:
		c.o.counters.Retries.Add(1)
		return live.Pause(ctx, shed.Pushback)
	case work.RetryBudget:
		c.o.counters.RetriesDenied.Add(1)
	}
	return false
}

func (c *client) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.o.exempt.has(method) {
		return open(alone(ctx), desc, conn, method, opts...)
	}
	if c.err != nil {
		return nil, c.err
	}
	c.o.untagged.Called(ctx, method)
	o, out, err := c.begin(ctx, conn, 0, 0)
	if err != nil {
		return nil, err
	}
	o.stream = true
	// By the time the stream is open an attempt has taken the permit.
	defer o.giveBack() // also when an interceptor further in panics
	cs, err := open(out, desc, conn, method, opts...)
	reply, sent := o.end()
	if !sent {
		c.notSent(o, conn, err)
	}
	if err != nil {
		o.sent.End(reply)
		return cs, understood(err)
	}
	return newSentStream(cs, o, desc.ClientStreams, c.o.hold), nil
}
