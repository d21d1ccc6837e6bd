package grpcgate

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

const (
	controlService = "spillgate.v1.Control"
	controlMethod  = "/" + controlService + "/Credits"

	// controlGap is the least time between two messages on a control stream, in
	// each direction. A client that is woken for one credit answers on a reply
	// from then on, so that more would only repeat what replies say.
	controlGap = time.Millisecond

	// maxQuestions is the most questions for a rate that wait to be sent, and the
	// most answers. One more is left out: its asker asks again.
	maxQuestions = 64
)

// RegisterControl adds the service by which clients hear of credits when they
// have no reply to come; Serve does it too. The server must have been made with
// ServerOptions. Without it clients are served just the same, but one whose credits are gone
// asks only when Grant.Revive is over.
//
// It is a call of its own, not one of ServerOptions, because grpc has no option
// that adds a service, and one that handles unknown services would silently
// replace a proxy's own.
func RegisterControl(s grpc.ServiceRegistrar) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: controlService,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName:    "Credits",
			Handler:       serveControl,
			ServerStreams: true,
			ClientStreams: true,
		}},
		Metadata: "spillgate/v1/control.proto",
	}, new(ungated))
}

// ungated says once that a server gives nobody credits.
type ungated struct{ said sync.Once }

// controlled is the context of a control stream. It lasts as long as the connection, so
// it has no more than that.
type controlled struct {
	context.Context
	conn *connection // nil of a transport that has none
}

type controlledKey struct{}

func (c *controlled) Value(key any) any {
	if key == (controlledKey{}) {
		return c.conn
	}
	return c.Context.Value(key)
}

// control is the server's end of a control stream.
type control struct {
	stream  grpc.ServerStream
	account *account // whose grants it sends; of the handler's goroutine

	mu      sync.Mutex
	idle    sync.Cond // signaled when sending ends
	grant   wire.Grant
	pending bool
	answers []wire.Reply
	sending bool
	closed  bool
}

// offer has g sent soon, unless a newer one is. It does not block.
func (c *control) offer(g wire.Grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.pending && !g.Newer(c.grant) {
		return
	}
	c.grant, c.pending = g, true
	c.start()
}

// answer has the answer to a question sent soon. It does not block.
func (c *control) answer(r wire.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.answers) >= maxQuestions {
		return
	}
	c.answers = append(c.answers, r)
	c.start()
}

// start is called with the lock held.
func (c *control) start() {
	if !c.sending {
		c.sending = true
		go c.send()
	}
}

// send sends the newest grant, and the answers, until there are none. It is a goroutine only
// while there is something to send: thousands of streams mostly have nothing.
func (c *control) send() {
	gap := time.NewTimer(0)
	defer gap.Stop()
	<-gap.C
	for {
		c.mu.Lock()
		if !c.pending && len(c.answers) == 0 || c.closed {
			c.sending = false
			c.idle.Broadcast()
			c.mu.Unlock()
			return
		}
		var reply wire.Reply
		if c.pending {
			c.pending = false
			reply.Grant, reply.HasGrant = c.grant, true
		} else {
			reply = c.answers[0]
			c.answers = c.answers[1:]
		}
		c.mu.Unlock()
		msg := reply.Append(nil)
		if err := c.stream.SendMsg(wrapperspb.Bytes(msg)); err != nil {
			c.mu.Lock()
			c.closed = true // the handler sees the stream's end by itself
			c.mu.Unlock()
			continue
		}
		gap.Reset(controlGap)
		select {
		case <-gap.C:
		case <-c.stream.Context().Done():
		}
	}
}

// close ends sending and waits for it: a stream must not be sent on after its
// handler returned.
func (c *control) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for c.sending {
		c.idle.Wait()
	}
}

func serveControl(service any, ss grpc.ServerStream) error {
	conn, _ := ss.Context().Value(controlledKey{}).(*connection)
	if conn == nil {
		if u, ok := service.(*ungated); ok {
			u.said.Do(func() {
				slog.Warn("grpcgate: clients ask for credits and get none: make the server with grpcgate.ServerOptions, and serve it with grpcgate.Serve")
			})
		}
		return status.Error(codes.Unimplemented, "spillgate: this server was not made with grpcgate.ServerOptions")
	}
	s := conn.server
	if n := s.controls.Add(1); n > int64(s.o.controlLimit) {
		s.controls.Add(-1)
		s.o.counters.ControlRefused.Add(1)
		return status.Errorf(codes.ResourceExhausted, "spillgate: the server has %d control streams, its limit; live by Grant.Revive", s.o.controlLimit)
	}
	s.o.counters.ControlStreams.Add(1)
	defer func() {
		s.controls.Add(-1)
		s.o.counters.ControlStreams.Add(-1)
	}()
	ctl := &control{stream: ss}
	ctl.idle.L = &ctl.mu
	defer ctl.close()
	defer ctl.leave()
	// Until its first message says who it is, it is the client without a name.
	if a, ok := conn.bindings.Find(s.ledger, 0); ok {
		ctl.join(a)
	}
	return ctl.receive(conn)
}

// join makes c the stream of a, which may be nil, in place of the account that it
// was the stream of. It reports false if a has another stream. It is called by
// the goroutine of the stream's handler alone.
func (c *control) join(a *account) bool {
	if a == c.account {
		return true
	}
	c.leave()
	if a == nil {
		return true
	}
	if !a.hear(c) {
		return false
	}
	c.account = a
	return true
}

func (c *control) leave() {
	if c.account != nil {
		c.account.control.CompareAndSwap(c, nil)
		c.account.reached()
		c.account = nil
		c.mu.Lock()
		c.pending = false // it was for another
		c.mu.Unlock()
	}
}

// receive takes the client's demand, and its questions, until the client ends the
// stream.
func (c *control) receive(conn *connection) error {
	gap := time.NewTimer(controlGap)
	defer gap.Stop()
	var msg wrapperspb.BytesValue
	for {
		switch err := c.stream.RecvMsg(&msg); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
		tags, err := wire.ParseTags(msg.Value)
		switch {
		case err != nil:
			conn.server.o.counters.Malformed.Add(1)
		case tags.Credits:
			a := conn.open(live.Now(), tags.Client)
			if !c.join(a) {
				return status.Error(codes.AlreadyExists, "spillgate: this client has a control stream already")
			}
			if a != nil {
				a.client.OnDemand(tags.Demand)
			}
		case tags.Process != 0:
			conn.server.believe(c.stream.Context(), controlMethod, &tags)
			if tags.Process == 0 {
				break // a sender that is not trusted has no share of a rate
			}
			if reply, ok := conn.server.gate.Ask(tags); ok {
				c.answer(reply)
			}
		}
		gap.Reset(controlGap)
		select {
		case <-gap.C: // a client that sends faster waits in its own flow control
		case <-c.stream.Context().Done():
			return status.FromContextError(c.stream.Context().Err()).Err()
		}
	}
}
