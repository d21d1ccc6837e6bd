package fastrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// incoming is one call at the server, and the context of its handler. It is used again for
// other calls, unless somebody listened for its end.
type incoming struct {
	conn     *serverConn
	method   *served
	stream   uint32
	timed    bool
	tags     wire.Tags // read-only while the handler runs
	deadline time.Time // if limited
	limited  bool
	in, out  []byte
	held     int // bytes of the message, which the connection counts
	inline   bool
	watched  bool // the gate may still be about to cancel the call when it has ended

	turn   live.Turn
	ticket *live.Ticket // room, once admitted
	room   live.Ticket
	began  time.Time // if timed

	refused atomic.Bool // a call that was made for it

	mu    sync.Mutex
	over  bool          // the call has ended, and r serves another call or will
	begun bool          // the handler has: the gate does not listen any more
	heard bool          // the handler, or what it called, has listened
	done  chan struct{} // nil until the handler asks for it
	timer *time.Timer
	err   error
}

// mostKept is the largest buffer that a call's place keeps for the next, in bytes.
const mostKept = 64 << 10

// incoming returns a place for a call.
func (s *Server) incoming() *incoming {
	if r, ok := s.places.Get().(*incoming); ok {
		return r
	}
	return new(incoming)
}

// begin makes r the call that a frame asks for.
func (r *incoming) begin(c *serverConn, m *served, h *request, tags wire.Tags) {
	r.method, r.timed, r.tags = m, h.timed, tags
	r.ticket, r.inline, r.watched = nil, false, false
	if r.refused.Load() { // to store takes much longer
		r.refused.Store(false)
	}
	r.limited = tags.Budget > 0
	if r.limited {
		r.deadline = c.in.now.Add(tags.Budget)
	}
	r.mu.Lock()
	r.conn, r.stream, r.over, r.begun, r.heard, r.err = c, h.stream, false, false, false, nil
	r.mu.Unlock()
}

// ticketless reports whether no gate decides about the call.
func (r *incoming) ticketless() bool { return r.conn.server.cfg.Gate == nil }

// enter brings the call into the gate, if there is one. It never waits.
func (r *incoming) enter() bool {
	s := r.conn.server
	gate := s.cfg.Gate
	if gate == nil {
		return false
	}
	trusted := r.believe(&s.cfg)
	t := &r.tags
	gate.Untagged().Served(t)
	if r.conn.client != nil {
		// What was read with it is not in the gate yet either, and is more than the client knew
		// of: without it, handlers that are inline look as if their client had one call to make.
		t.Demand = min(t.Demand+r.conn.in.behind, wire.MaxCount)
	}
	request := live.Request{
		Request: work.Request{
			Workflow: t.Workflow, Class: t.Class, Priority: t.Priority, Attempt: t.Attempt, Demand: t.Demand, Asks: t.Asks,
		},
		Client: r.conn.client, Sender: r.conn.sender, Arrived: r.conn.in.arrived, Waited: t.Waited,
		Total: t.Total, Elapsed: t.Elapsed, Process: t.Process, Claim: t.Claim, Kind: r.method, Token: t.Token,
		Untrusted: !trusted,
	}
	if r.limited {
		request.Deadline = r.conn.in.arrived.Add(t.Budget)
	}
	if gate.Shares() != nil {
		request.Key = share.Key{Caller: t.Workflow, Method: r.method.name}
	}
	r.turn = gate.Arrive(r, request, &r.room)
	return true
}

// believe takes off the call's tags what the server does not believe, and reports whether the
// caller is trusted. What Classify returned is believed.
func (r *incoming) believe(cfg *ServerConfig) bool {
	switch {
	case cfg.Classify != nil:
		claimed := r.tags
		r.tags = cfg.Classify(r.conn.peer, r.method.name, claimed)
		r.tags.Credits, r.tags.Demand, r.tags.Asks, r.tags.Client, r.tags.Token = claimed.Credits, claimed.Demand, claimed.Asks, claimed.Client, claimed.Token
	case cfg.Trust == nil || !cfg.Trust(r.conn.peer, r.method.name):
		r.tags = r.tags.Untrusted()
		return false
	}
	return true
}

// RefusedBelow notes that a call made for r was refused: see live.RefusedBelow.
func (r *incoming) RefusedBelow() { r.refused.Store(true) }

// Kind is what calls of the method do: see live.Kind.
func (m *served) Kind() string { return m.name }

// run serves the call on a goroutine of its own.
func (r *incoming) run() { r.answer(r.in, false) }

// serve serves the call on the goroutine that reads.
func (r *incoming) serve(in []byte) { r.answer(in, true) }

// answer waits for the call's turn, has it handled and answers it.
func (r *incoming) answer(in []byte, inline bool) {
	r.inline = inline
	if !r.ticketless() {
		if err := r.turn.Await(r); err != nil {
			r.refuse(err)
			return
		}
		r.ticket = &r.room
		r.tags.Total = r.room.Total()
		if class, ok := r.room.Class(); ok {
			r.tags.Class = class
		}
	}
	var ctx context.Context = r
	if r.ticket != nil && !inline {
		ctx, r.watched = r.ticket.Watch(r)
	}
	r.mu.Lock()
	r.begun = true
	r.mu.Unlock()
	if r.timed {
		r.began = time.Now()
	}
	e := ending{r: r, failed: true}
	defer e.tell() // also when the handler panics or ends its goroutine
	e.out, e.err = r.method.handle(ctx, in, r.out[:0])
	e.failed = false
}

// ending is how a handler ended.
type ending struct {
	r      *incoming
	out    []byte
	err    error
	failed bool // it did not return
}

// tell returns the ticket and answers the call.
func (e *ending) tell() {
	r := e.r
	if e.failed {
		if p := recover(); p != nil {
			r.conn.server.cfg.Log.Error("fastrpc: a handler panicked", "method", r.method.name, "panic", p, "stack", string(debug.Stack()))
		}
	}
	h := response{stream: r.stream, timed: r.timed}
	if r.timed {
		h.service = time.Since(r.began)
	}
	var more wire.Reply
	below := e.err != nil && isRefusal(e.err)
	if r.ticket != nil {
		r.leave(e, below, &h, &more)
	}
	body := e.out
	switch {
	case e.failed:
		h.status, body = statusFailed, nil
	case h.status == statusRefused: // the gate cancelled it
		body = nil
	case below:
		h.status, h.reason, body = statusRefused, work.Downstream, nil
	case e.err != nil:
		body = r.mistake(e.err, &h)
	case responseLen+wire.MaxLen+len(body) > r.conn.frame:
		h.status = statusError
		body = append(make([]byte, 4), "the answer is longer than the caller takes"...)
	}
	r.finish(&h, &more, body)
	// Room for an answer as long as this one, and not what the handler returned: that may be a part of the request, or
	// something that the handler keeps.
	if len(e.out) <= mostKept {
		r.out = slices.Grow(r.out[:0], len(e.out))
	}
	r.recycle()
}

// mistake puts an error of the application into the answer, and returns its body.
func (r *incoming) mistake(err error, h *response) []byte {
	var code uint32
	var message string
	if h.status, code, message = statusOf(err, r.Err() != nil); h.status != statusError {
		return nil
	}
	return append(binary.BigEndian.AppendUint32(nil, code), bounded(message)...)
}

// isRefusal reports whether an error is that of something further down that refused.
func isRefusal(err error) bool {
	var below *live.Refusal
	return errors.As(err, &below)
}

// leave returns the ticket, and fills in the reply that travels beside the answer.
func (r *incoming) leave(e *ending, below bool, h *response, more *wire.Reply) {
	t, outcome := r.ticket, work.Done
	switch gone := r.gone(); {
	case e.failed:
		outcome = work.Ignored
	case gone && e.err == nil:
		outcome = work.Late // the client has given up
	case gone:
		outcome = work.Ignored
	case below, e.err != nil && r.refused.Load():
		outcome = work.Dropped
	}
	if e.err != nil {
		t.Failed()
		if stopped := t.Cancelled(); stopped != nil {
			outcome = work.Ignored
			h.status, h.reason, more.Resend = statusRefused, stopped.Reason, stopped.Resend
		}
	}
	t.Leave(outcome)
	t.Unwatch()
	h.queued = t.Queued()
	more.Grant, more.HasGrant = t.Grant()
	if r.tags.Process != 0 {
		t.Answer(more)
	}
}

// refuse answers a call that the gate did not let in.
func (r *incoming) refuse(err error) {
	h := response{stream: r.stream, status: statusRefused, timed: r.timed}
	var refusal *live.Refusal
	var more wire.Reply
	if errors.As(err, &refusal) {
		h.reason, h.retryable, h.delay = refusal.Reason, refusal.Pushback >= 0, max(refusal.Pushback, 0)
		more = refusal.Reply()
		more.HasShed, more.Shed = false, wire.Shed{}
	}
	r.finish(&h, &more, nil)
	r.recycle()
}

// finish frees the call's lane and answers it. The lane is free before the answer can be read.
func (r *incoming) finish(h *response, more *wire.Reply, body []byte) {
	c := r.conn
	if !r.inline {
		c.lanes[lane(h.stream)].Store(nil)
	}
	c.letGo(r.held)
	c.respond(h, more, body, !r.inline)
	c.busy.Add(-1)
}

// recycle ends the context, and keeps r for another call if nobody listens for its end.
func (r *incoming) recycle() {
	s := r.conn.server
	r.mu.Lock()
	r.over, r.conn = true, nil
	// A timer that has fired may be about to end this call, or by then the next one.
	stopped := r.timer == nil || r.timer.Stop()
	again := stopped && !r.heard && !r.watched && r.err == nil
	if r.timer = nil; !again && r.done != nil && r.err == nil {
		r.err = context.Canceled
		close(r.done)
	}
	r.mu.Unlock()
	if !again {
		return // to the garbage collector
	}
	if cap(r.in) > mostKept {
		r.in = nil
	}
	s.places.Put(r)
}

// cancel ends the context of the call if it is still that of the connection's stream.
func (r *incoming) cancel(c *serverConn, stream uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == c && r.stream == stream {
		r.endLocked(context.Canceled)
	}
}

// abandon ends the context of the call if it still came by the connection.
func (r *incoming) abandon(c *serverConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == c {
		r.endLocked(context.Canceled)
	}
}

// end ends the context.
func (r *incoming) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked(err)
}

func (r *incoming) endLocked(err error) {
	if r.over || r.err != nil {
		return
	}
	r.err = err
	if r.done != nil {
		close(r.done)
	}
}

// gone reports whether the context was ended.
func (r *incoming) gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// Deadline implements context.Context.
func (r *incoming) Deadline() (time.Time, bool) { return r.deadline, r.limited }

// Done implements context.Context.
func (r *incoming) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = r.heard || r.begun
	if r.done == nil {
		r.done = make(chan struct{})
		if r.err != nil {
			close(r.done)
		}
	}
	if r.limited && r.err == nil && r.timer == nil {
		r.timer = time.AfterFunc(time.Until(r.deadline), func() { r.end(context.DeadlineExceeded) })
	}
	return r.done
}

// Err implements context.Context.
func (r *incoming) Err() error {
	if r.limited && !time.Now().Before(r.deadline) {
		r.end(context.DeadlineExceeded)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Value implements context.Context.
func (r *incoming) Value(key any) any {
	switch key {
	case live.ServingKey{}:
		return r
	case live.TagsKey{}:
		return &r.tags
	}
	if r.ticket != nil {
		switch key {
		case live.TicketKey{}:
			return r.ticket
		case live.SpanKey{}:
			return r.ticket.Span()
		}
	}
	return nil
}
