package grpcgate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/spanevent"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// server is one server's side.
type server struct {
	gate     *live.Gate
	o        serverOptions
	controls atomic.Int64
	load     *loadReport // nil: none
	ledger   *live.Ledger[*account]
	// unwatched holds the connections that Serve did not accept:
	// weak.Pointer[peer.Peer] → *connection.
	unwatched sync.Map
}

// ServerOptions returns the options that put gate in front of every call of a
// server but the exempt ones. Pass them before other interceptors: overload
// control cannot save what was spent before it. A server has room for one tap
// handle, which is among them; see WithTap. A nil gate panics.
//
// A refused call fails with UNAVAILABLE, DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED,
// with RetryInfo, ErrorInfo and the trailer grpc-retry-pushback-ms; its handler
// does not run.
//
// A slot is for work, and a stream is work until it is answered. It gives slot
// and credit back a second after the first message of its handler, or when its
// handler has waited for a message of the client for a second (WithStreamHold),
// and is then no sample of service time; nor is one whose client sends several
// messages. If the client goes on before the handler has answered, the stream takes another
// slot before the handler sees the message, or is refused then. What is open without a slot is bounded: a client has at most 250
// streams (WithStreamLimit).
//
// Up to 64 handlers run on goroutines that the server keeps from NewServer to Stop (grpc.NumStreamWorkers), because the stack
// of each new goroutine has to grow first; further ones have goroutines of their own. A stream keeps one for as long as it is
// open, and so does the control stream of each connected client. A later option grpc.NumStreamWorkers counts instead.
//
// A gate with spillgate.Config.ClassShares learns which methods, told apart by workflow, are
// interactive, and the calls of their handlers carry the class that it learned.
func ServerOptions(gate *live.Gate, opts ...Option) []grpc.ServerOption {
	options, _ := newServer(gate, opts)
	return options
}

// keptHandlers is how many goroutines a server keeps for handlers. A stack that grows for each call took a tenth of the
// processor time of a call, about as much as the gate at the server. On one processor that others used too, both sides
// together took 1.25 times as much as plain gRPC with 64 calls in flight and no goroutines kept, as much with 8 of them, 1.18
// with 32 and 1.14 with 64; with 8 calls in flight 1.29, and 1.00 to 1.08 with any of these. They take 8 kB each at most.
const keptHandlers = 64

func newServer(gate *live.Gate, opts []Option) ([]grpc.ServerOption, *server) {
	if gate == nil {
		panic("grpcgate: no gate: make it first, with spillgate.New")
	}
	s := &server{gate: gate, o: serverOptions{exempt: newExemptions(), controlLimit: defaultControlLimit, hold: defaultHold, streams: defaultStreams}}
	for _, opt := range opts {
		opt.server(&s.o)
	}
	if s.o.counters == nil {
		s.o.counters = new(Counters)
	}
	s.ledger = live.NewLedger(s.openAccount, (*account).close)
	gate.WatchNetwork()
	if s.o.loadReports {
		s.load = &loadReport{gate: gate}
	}
	return []grpc.ServerOption{
		grpc.NumStreamWorkers(keptHandlers),
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.stream),
		grpc.InTapHandle(s.tap),
	}, s
}

// tap runs in the goroutine that reads the connection, under the transport's
// lock, before the call has a goroutine of its own. It stamps the arrival and
// refuses nothing: what it refuses goes out without trailers, and so without
// credits and pushback.
func (s *server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	switch {
	case info.FullMethodName == controlMethod:
		ctx = &controlled{ctx, s.connectionOf(ctx)}
	case s.o.exempt.has(info.FullMethodName):
	case s.passes(info.Header):
		ctx = live.Passing(ctx)
	default:
		ctx = &incoming{Context: ctx, arrived: live.Now(), unread: info.Header, server: s}
	}
	if s.o.tap != nil {
		return s.o.tap(ctx, info)
	}
	return ctx, nil
}

// passes reports whether a call with that header is served without a ticket: the gate's mode is Off, nothing is
// added to answers, and there are no tags, which the handler's context would have.
func (s *server) passes(header metadata.MD) bool {
	if !s.gate.Bypassed() || s.o.classify != nil || s.load != nil {
		return false
	}
	return len(header[wire.MetadataKey]) == 0 && len(header["baggage"]) == 0 && len(header[attemptsKey]) == 0
}

// apart reports whether a call, which in is if the tap handle made it, is none for the gate: exempt, or let pass by
// the tap handle. Without tap none is let pass, but for one that httpgate let pass before.
func (s *server) apart(ctx context.Context, in *incoming, method string) bool {
	if in != nil && in.server == s {
		return false // the tap handle has asked
	}
	return s.o.exempt.has(method) || s.gate.Bypassed() && s.o.classify == nil && s.load == nil && in == nil && live.Serving(ctx)
}

// call is one admitted call.
type call struct {
	server  *server
	in      *incoming
	outcome work.Outcome
	cancel  context.CancelFunc // nil unless the tags' budget is the shorter one
	stopped *live.Refusal      // not nil: the gate cancelled the call, or gave its stream no other slot, and it failed
}

// enter takes the call through the gate, which is in, if the tap handle made it. On success the call's leave must be
// called and its handler be given the context returned.
func (s *server) enter(ctx context.Context, in *incoming, method string, content Content) (call, context.Context, error) {
	// net/http's transport has no tap handle, and makes a Peer for each request; or the gate was off; or a handler calls
	// another one in its process, with the context of the call that it serves, whose ticket is not this one's.
	if in == nil || in.server != s || in.admitted {
		md, _ := metadata.FromIncomingContext(ctx)
		in = &incoming{Context: ctx, tags: tagsOf(md, nil, &s.o.counters.Malformed), inner: in != nil && in.admitted}
		ctx = in
	}
	if in.method = method; content.Kind != "" {
		kind := content.Kind
		in.kind = &kind
	}
	trusted := s.believe(ctx, method, &in.tags)
	if content.Background {
		in.tags.Priority = work.MaxPriority
	}
	s.gate.Untagged().Served(&in.tags)
	r := s.request(in, trusted)
	from := in.arrived
	if from == 0 {
		from = live.Now()
	}
	if in.conn != nil {
		r.Sender = in.conn.sender
		if in.tags.Credits {
			if in.account = in.conn.open(from, in.tags.Client); in.account != nil {
				r.Client = in.account.client
			}
		}
	}
	c := call{server: s, in: in, outcome: work.Ignored}
	if b := in.tags.Budget; b > 0 {
		r.Deadline = from.Add(b)
		if d, ok := ctx.Deadline(); !ok || live.Instant(d).Sub(r.Deadline) > time.Millisecond {
			ctx, c.cancel = context.WithTimeout(ctx, r.Deadline.Sub(live.Now()))
		}
	}
	if err := s.gate.Admit(ctx, r, &in.ticket); err != nil {
		if c.cancel != nil {
			c.cancel()
		}
		spanevent.Refused(ctx, err)
		s.refuse(ctx, in, err)
		return c, ctx, refusalError(err)
	}
	if in.ticket.Waited() {
		spanevent.Waited(ctx, spanevent.SlotWait, in.ticket.Queued())
	}
	in.admitted, in.tags.Total = true, in.ticket.Total()
	if class, ok := in.ticket.Class(); ok {
		in.tags.Class = class
	}
	if !content.NoCancel {
		ctx, _ = in.ticket.Watch(ctx)
	}
	return c, ctx, nil
}

// request is what the gate is told of a call.
func (s *server) request(in *incoming, trusted bool) live.Request {
	r := live.Request{
		Request: work.Request{
			Workflow: in.tags.Workflow,
			Class:    in.tags.Class,
			Priority: in.tags.Priority,
			Attempt:  in.tags.Attempt,
			Demand:   in.tags.Demand,
			Asks:     in.tags.Asks,
		},
		Total: in.tags.Total, Elapsed: in.tags.Elapsed, Process: in.tags.Process, Claim: in.tags.Claim, Waited: in.tags.Waited,
		Objective: s.o.objective(in.method), Kind: in, Token: in.tags.Token, Untrusted: !trusted,
	}
	if s.gate.Shares() != nil {
		r.Key = share.Key{Caller: in.tags.Workflow, Method: in.method}
	}
	return r
}

// refuse puts credits and pushback on the reply of a refused call.
func (s *server) refuse(ctx context.Context, in *incoming, err error) {
	var r *live.Refusal
	if in.inner || in.admitted || !errors.As(err, &r) {
		return // the trailer is that of the call around this one, which says what becomes of that
	}
	md := metadata.MD{pushbackKey: {pushbackText(r.Pushback)}}
	if in.tags != (wire.Tags{}) {
		reply := r.Reply()
		if reply.HasGrant {
			reply.Grant = in.account.own(reply.Grant)
		}
		var buf [wire.MaxReply]byte
		md[wire.MetadataKey] = []string{string(reply.Append(buf[:0]))}
	}
	s.setTrailer(ctx, md)
}

// leave returns the ticket and writes the trailer; it is deferred, so that it
// runs when the handler panics too.
func (c *call) leave(ctx context.Context) {
	c.in.ticket.Leave(c.outcome)
	c.in.ticket.Unwatch()
	if c.cancel != nil {
		c.cancel()
	}
	if c.in.inner {
		return
	}
	var reply wire.Reply
	if g, ok := c.in.ticket.Grant(); ok {
		reply.Grant, reply.HasGrant = c.in.account.own(g), true
	}
	var md metadata.MD
	if c.outcome == work.Dropped {
		// Who refused said so to this server; its clients must not retry
		// through it.
		if reply.HasShed = c.in.tags != (wire.Tags{}); reply.HasShed {
			reply.Shed = wire.Shed{Reason: work.Downstream}
		}
		md = metadata.MD{pushbackKey: {"-1"}}
	}
	if c.stopped != nil {
		told := c.stopped.Reply()
		reply.HasShed, reply.Shed, reply.Resend = c.in.tags != (wire.Tags{}), told.Shed, told.Resend
		md = metadata.MD{pushbackKey: {pushbackText(c.stopped.Pushback)}}
	}
	c.in.ticket.Answer(&reply)
	if reply.HasGrant && c.outcome.Executed() && !reply.HasProgress {
		reply.HasProgress = true
		reply.Progress.Service = live.Now().Sub(c.in.ticket.Began())
	}
	if reply != (wire.Reply{}) {
		var buf [wire.MaxReply]byte
		if md == nil {
			md = make(metadata.MD, 1)
		}
		md[wire.MetadataKey] = []string{string(reply.Append(buf[:0]))}
	}
	if md != nil || c.server.load != nil {
		c.server.setTrailer(ctx, md)
	}
}

// ended notes how the handler ended that returned err, and returns what the client is
// told: if the gate cancelled the call, that; see passedOn.
func (c *call) ended(ctx context.Context, err error) error {
	err = passedOn(err)
	c.outcome = outcomeOf(ctx, c.in, err)
	if err != nil {
		c.in.ticket.Failed()
	}
	stopped := c.in.ticket.Cancelled()
	if err == nil || stopped == nil {
		return err // it may have been done all the same
	}
	c.stopped, c.outcome = stopped, work.Ignored
	return refusalError(stopped)
}

func (s *server) setTrailer(ctx context.Context, md metadata.MD) {
	if s.load != nil {
		md = s.load.add(md)
	}
	_ = grpc.SetTrailer(ctx, md) // fails only if the call has ended already
}

func (s *server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	in := incomingFrom(ctx)
	if s.apart(ctx, in, info.FullMethod) {
		return handle(ctx, req)
	}
	var content Content
	if s.o.content != nil {
		content = s.o.content(info.FullMethod, req)
	}
	c, ctx, err := s.enter(ctx, in, info.FullMethod, content)
	if err != nil {
		return nil, err
	}
	defer c.leave(ctx)
	resp, err := handle(ctx, req)
	if told := c.ended(ctx, err); told != nil {
		return nil, told
	}
	return resp, nil
}

func (s *server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	was := ss.Context()
	in := incomingFrom(was)
	if s.apart(was, in, info.FullMethod) {
		return handle(srv, ss)
	}
	if open := s.streamsOf(in); open != nil {
		defer open.Add(-1)
		if n := open.Add(1); s.o.streams > 0 && int(n) > s.o.streams {
			return s.refuseStream(was)
		}
	}
	c, ctx, err := s.enter(was, in, info.FullMethod, Content{})
	if err != nil {
		return err
	}
	defer c.leave(ctx)
	held := newServedStream(ss, ctx, &c, s.o.hold)
	held.talks = info.IsClientStream
	defer held.end() // also when the handler panics
	err = handle(srv, held)
	err = held.stop(c.ended(ctx, err))
	if c.outcome.Executed() && (held.end() || info.IsClientStream) {
		c.outcome = work.Released // nobody knows how much of the time was work
	}
	return err
}
