package livedoor

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// Server puts a Door in front of the unary calls of grpc servers. It is safe for
// concurrent use.
type Server struct {
	mu     sync.Mutex
	door   baseline.Door
	alarm  alarm
	closed bool
}

// NewServer returns a server around door, which nobody else may call any more.
func NewServer(door baseline.Door) *Server {
	s := &Server{door: door}
	s.alarm.ring = s.wake
	return s
}

// Options returns the options of a grpc server whose calls pass the Door. The
// interceptor stands first, and the one tap handle that grpc allows is used.
func (s *Server) Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.InTapHandle(stamp),
		grpc.StatsHandler((*connections)(s)),
		grpc.ChainUnaryInterceptor(s.unary),
	}
}

// Close stops the Door's timer. Calls under way end as they would.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.alarm.stop()
}

// call is one ticket's driver: the goroutine that waits for its turn.
type call struct {
	ticket  admission.Ticket
	verdict chan admission.Verdict // buffered: one
}

func (s *Server) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	c := &call{}
	t := &c.ticket
	t.Owner = c
	t.Deadline = mono.Never
	if d, ok := ctx.Deadline(); ok {
		t.Deadline = live.Instant(d)
	}
	t.Arrived, _ = ctx.Value(arrivedKey{}).(mono.Time)
	if tags, ok := tagsOf(ctx); ok {
		t.Priority, t.Demand = tags.priority, tags.demand
	}
	conn, _ := ctx.Value(connKey{}).(*connection)

	verdict := s.arrive(conn, c)
	if verdict == admission.Wait {
		verdict = s.await(ctx, c)
	}
	if verdict != admission.Run {
		grpc.SetTrailer(ctx, s.feedback(conn, t))
		return nil, refusal(t.Reason())
	}
	outcome := work.Ignored // a panic says nothing about the server's speed
	defer func() {
		s.leave(t, outcome)
		grpc.SetTrailer(ctx, s.feedback(conn, t))
	}()
	resp, err = handle(ctx, req)
	if ctx.Err() == nil {
		outcome = work.Done
	}
	return resp, err
}

func (s *Server) arrive(conn *connection, c *call) admission.Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if conn != nil && !conn.gone {
		c.ticket.Client = conn.client
	}
	now := live.Now()
	v := s.door.Arrive(now, &c.ticket)
	if v == admission.Wait {
		c.verdict = make(chan admission.Verdict, 1)
	}
	s.pump(now)
	return v
}

// await waits for the ticket's turn or for the end of the caller's patience.
func (s *Server) await(ctx context.Context, c *call) admission.Verdict {
	select {
	case v := <-c.verdict:
		return v
	case <-ctx.Done():
	}
	s.mu.Lock()
	now := live.Now()
	canceled := s.door.Cancel(now, &c.ticket)
	s.pump(now)
	s.mu.Unlock()
	if canceled {
		return admission.Shed
	}
	return <-c.verdict // it had its turn meanwhile
}

func (s *Server) leave(t *admission.Ticket, o work.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := live.Now()
	s.door.Leave(now, t, o)
	s.pump(now)
}

// feedback is the trailer of the reply to t.
func (s *Server) feedback(conn *connection, t *admission.Ticket) metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	if conn != nil && conn.gone {
		t.Client = nil // its account went with the connection
	}
	return metadata.Pairs(key, encodeFeedback(s.door.Feedback(live.Now(), t)))
}

func (s *Server) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := live.Now()
	s.alarm.rang()
	s.door.OnWake(now)
	s.pump(now)
}

// pump wakes the calls that leave the queue and sets the alarm. Grants for which
// there is no reply are dropped: the client revives by itself.
func (s *Server) pump(now mono.Time) {
	for {
		t, v := s.door.Next(now)
		if t == nil {
			break
		}
		t.Owner.(*call).verdict <- v
	}
	for {
		if _, _, ok := s.door.NextGrant(); !ok {
			break
		}
	}
	if !s.closed {
		s.alarm.set(now, s.door.NextWake())
	}
}

// refusal is the status of a refused call, as package grpcgate gives it.
func refusal(r work.Reason) error {
	code := codes.Unavailable
	switch r {
	case work.Expired, work.Infeasible:
		code = codes.DeadlineExceeded
	case work.Share:
		code = codes.ResourceExhausted
	case work.Canceled:
		code = codes.Canceled
	}
	return status.Error(code, "livedoor: refused: "+r.String())
}

func tagsOf(ctx context.Context) (tags, bool) {
	values := metadata.ValueFromIncomingContext(ctx, key)
	if len(values) != 1 {
		return tags{}, false
	}
	t, err := decodeTags(values[0])
	return t, err == nil
}

type arrivedKey struct{}

// stamp notes, in the connection reader, when a call arrived.
func stamp(ctx context.Context, _ *tap.Info) (context.Context, error) {
	return context.WithValue(ctx, arrivedKey{}, live.Now()), nil
}

type connKey struct{}

// connection is a client's account for the life of its connection.
type connection struct {
	client *credit.Client
	gone   bool // under the server's lock
}

// connections registers clients with the Door as they come and go.
type connections Server

// TagConn connects.
func (h *connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	s := (*Server)(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := live.Now()
	c := &connection{client: s.door.Connect(now)}
	s.pump(now)
	return context.WithValue(ctx, connKey{}, c)
}

// HandleConn disconnects.
func (h *connections) HandleConn(ctx context.Context, event stats.ConnStats) {
	c, ok := ctx.Value(connKey{}).(*connection)
	if _, end := event.(*stats.ConnEnd); !ok || !end {
		return
	}
	s := (*Server)(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.gone {
		now := live.Now()
		c.gone = true
		s.door.Disconnect(now, c.client)
		s.pump(now)
	}
}

// TagRPC does nothing.
func (h *connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC does nothing.
func (h *connections) HandleRPC(context.Context, stats.RPCStats) {}

// alarm is one timer that is set for the earliest instant asked for. Its owner's
// lock protects it.
type alarm struct {
	ring  func()
	timer *time.Timer
	at    mono.Time
	armed bool
}

// set asks for a ring at an instant. One that is already set for an earlier
// instant stays: a ring too early is harmless.
func (a *alarm) set(now, at mono.Time) {
	if at == mono.Never || a.armed && a.at <= at {
		return
	}
	a.at, a.armed = at, true
	wait := max(at.Sub(now), 0)
	if a.timer == nil {
		a.timer = time.AfterFunc(wait, a.ring)
		return
	}
	a.timer.Reset(wait)
}

func (a *alarm) rang() { a.armed = false }

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
