package grpcgate

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/spanevent"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

const (
	// defaultHold is how long a stream that does no work keeps slot and credit. A
	// second is far beyond what a service with an objective takes to answer.
	defaultHold = time.Second
	// longestSend is how long one message may wait for the client to take it before the stream
	// gives its slot back: what httpgate.Patience has for answers. Messages wait for nothing else
	// than that, once 64 KiB are not taken.
	longestSend = 100 * time.Millisecond
	// defaultStreams is the most open streams of a client: as many as an HTTP/2
	// server of net/http allows on a connection.
	defaultStreams = 250
)

// servedStream is a stream as its handler sees it. It gives the ticket back when
// the stream is no work any more, and while its client is silent before that.
type servedStream struct {
	grpc.ServerStream
	ctx   context.Context
	call  *call
	hold  time.Duration // negative: for life
	timer *time.Timer   // gives the ticket back
	sends *time.Timer   // does so while the client takes nothing; nil before the second message
	spoke atomic.Bool   // the handler, first
	over  atomic.Bool   // a ticket was back before the end
	talks bool          // the client sends a stream too

	mu      sync.Mutex
	ticket  *live.Ticket
	lent    bool // it is back, and the handler has not spoken
	ended   bool
	refused *live.Refusal // another ticket
}

func newServedStream(ss grpc.ServerStream, ctx context.Context, c *call, hold time.Duration) *servedStream {
	s := &servedStream{ServerStream: ss, ctx: ctx, call: c, ticket: &c.in.ticket, hold: hold}
	s.timer = time.AfterFunc(time.Hour, s.giveBack)
	s.timer.Stop()
	return s
}

func (s *servedStream) giveBack() {
	s.over.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lent = true
	s.ticket.Leave(work.Released)
}

// answers says that the answer has begun. Where the client sends a stream too, it may have taken its time before.
func (s *servedStream) answers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticket.Begun(!s.talks)
}

// Context returns the call's context, with its deadline and tags.
func (s *servedStream) Context() context.Context { return s.ctx }

// RecvMsg waits for the client. While it does, the handler has nothing to do. If that took so
// long that the ticket is back, it takes another before the handler goes on, unless the
// handler has answered.
func (s *servedStream) RecvMsg(m any) error {
	wait := s.hold >= 0 && !s.spoke.Load()
	if wait {
		s.timer.Reset(s.hold)
	}
	err := s.ServerStream.RecvMsg(m)
	if wait && !s.spoke.Load() {
		s.timer.Stop()
		if s.spoke.Load() { // SendMsg, in another goroutine, set what was stopped
			s.timer.Reset(s.hold)
		} else if err == nil || err == io.EOF {
			return cmp.Or(s.takeAnother(), err)
		}
	}
	return err
}

// takeAnother takes another ticket for a stream whose last one is back, if it has to.
func (s *servedStream) takeAnother() error {
	s.mu.Lock()
	lent := s.lent
	s.lent = false
	s.mu.Unlock()
	if !lent {
		return nil
	}
	t, err := s.call.server.gate.Enter(s.ctx, s.call.another(s.ctx))
	if err != nil {
		spanevent.Refused(s.ctx, err)
		s.mu.Lock()
		defer s.mu.Unlock()
		errors.As(err, &s.refused)
		return refusalError(err)
	}
	if t.Waited() {
		spanevent.Waited(s.ctx, spanevent.SlotWait, t.Queued())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticket = t
	if s.ended || s.lent { // meanwhile
		t.Leave(work.Released)
	}
	return nil
}

// another is the request for another ticket of the call. What its account and its token give,
// the first had.
func (c *call) another(ctx context.Context) live.Request {
	tags := &c.in.tags
	r := live.Request{
		Request:   work.Request{Workflow: tags.Workflow, Class: tags.Class, Priority: tags.Priority, Attempt: tags.Attempt},
		Objective: c.server.o.objective(c.in.method), Kind: c.in,
	}
	r.Untrusted = c.server.o.classify == nil && (c.server.o.trust == nil || !c.server.o.trust(ctx, c.in.method))
	if c.in.conn != nil {
		r.Sender = c.in.conn.sender
	}
	return r
}

// SendMsg sends an answer. After the first, which does not wait for the client, what follows is
// a stream.
func (s *servedStream) SendMsg(m any) error {
	watched := s.hold >= 0 && s.spoke.Load() && !s.over.Load()
	switch {
	case !watched:
	case s.sends == nil:
		s.sends = time.AfterFunc(longestSend, s.giveBack)
	default:
		s.sends.Reset(longestSend)
	}
	err := s.ServerStream.SendMsg(m)
	if watched {
		s.sends.Stop()
	}
	if s.hold >= 0 && !s.spoke.Swap(true) {
		s.answers()
		s.timer.Reset(s.hold)
	}
	return err
}

// SetTrailer leaves out what a service further down says of its credits, where the handler passes on its trailer as it came:
// the client would take them for this server's.
func (s *servedStream) SetTrailer(md metadata.MD) {
	if len(md[wire.MetadataKey]) > 0 {
		md = md.Copy()
		delete(md, wire.MetadataKey)
	}
	s.ServerStream.SetTrailer(md)
}

// end gives back what the stream has, and reports whether a ticket came back before the
// stream's end.
func (s *servedStream) end() bool {
	s.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.ticket != &s.call.in.ticket {
		s.ticket.Leave(work.Released)
	}
	return s.over.Load()
}

// stop notes in the call that its stream got no other ticket, and returns the error that says
// so; err if that is not so, or the handler made an answer all the same.
func (s *servedStream) stop(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused == nil || err == nil {
		return err
	}
	s.call.stopped, s.call.outcome = s.refused, work.Ignored
	return refusalError(s.refused)
}

// streamsOf returns the number of open streams of the client that a call comes
// from, nil if it cannot be told from others.
func (s *server) streamsOf(in *incoming) *atomic.Int32 {
	if in == nil || in.server != s || in.conn == nil {
		return nil // net/http's transport, which has a limit of its own, or a call inside the process
	}
	if in.tags.Credits {
		if a := in.conn.open(live.Now(), in.tags.Client); a != nil {
			return &a.streams
		}
	}
	return &in.conn.streams
}

// refuseStream answers a stream of a client that has as many open as it may.
func (s *server) refuseStream(ctx context.Context) error {
	s.o.counters.StreamsRefused.Add(1)
	err := &live.Refusal{Reason: work.Share, Pushback: time.Second}
	s.refuse(ctx, incomingFrom(ctx), err)
	return refusalError(err)
}

// sentStream is a stream as its caller sees it. It gives the credit back when the
// stream is no work for the server any more, as the server gives back the slot.
type sentStream struct {
	grpc.ClientStream
	call  *outgoing
	timer *time.Timer
	hold  time.Duration
	two   bool        // both sides send
	heard atomic.Bool // the server answered
}

func newSentStream(cs grpc.ClientStream, o *outgoing, two bool, hold time.Duration) *sentStream {
	s := &sentStream{ClientStream: cs, call: o, two: two, hold: hold}
	if hold < 0 { // for life
		s.heard.Store(true)
		s.two, two, hold = false, false, time.Hour
	}
	s.timer = time.AfterFunc(hold, o.release)
	if !two {
		s.timer.Stop() // until it is answered, it is a request like any other
	}
	return s
}

// SendMsg sends a message, which is work for the server.
func (s *sentStream) SendMsg(m any) error {
	if s.two && !s.heard.Load() {
		s.timer.Reset(s.hold)
	}
	return s.ClientStream.SendMsg(m)
}

// RecvMsg waits for an answer.
func (s *sentStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err != nil:
		s.timer.Stop()
		return understood(err) // io.EOF among others is returned as it is
	case !s.heard.Swap(true):
		s.timer.Reset(s.hold)
	}
	return err
}

// release gives the credit of the attempt under way back before its end.
func (o *outgoing) release() {
	o.mu.Lock()
	permit := o.holds
	o.mu.Unlock()
	if permit != nil {
		permit.Return(0)
	}
}
