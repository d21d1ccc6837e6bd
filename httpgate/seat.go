package httpgate

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/spanevent"
	"github.com/spillgate/spillgate/internal/work"
)

// seat is the slot of an admitted request whose client may be slow with the body. While a read
// waits for the client, the slot can be lent; before the handler goes on, the request takes
// another one, until the answer has begun: then nothing can be refused any more. Where the gate
// refuses the other slot, the read fails and the refusal is the answer. Reads are made by one
// goroutine at a time, which may be another than the handler's. A nil seat is that of a request
// whose body takes no part in this.
type seat struct {
	w       *writer
	ctx     context.Context
	request live.Request  // for another slot
	stop    func()        // no more lending
	sample  bool          // the time in the other slot is work alone
	first   *answersFirst // nil: that an answer may come first is in the nature of the request

	mu      sync.Mutex // of lent and of reading
	reading bool
	lent    bool

	whole     atomic.Bool // the end of the body came
	broken    atomic.Bool // the handler has reads of the body end
	answering atomic.Bool
	ended     atomic.Bool // the handler returned
	again     atomic.Pointer[live.Ticket]
	refusal   atomic.Pointer[live.Refusal]
}

func newSeat(ctx context.Context, w *writer, request live.Request) *seat {
	request.Client, request.Demand, request.Token = nil, 0, live.Request{}.Token // the first slot had what they give
	request.Arrived = 0
	return &seat{w: w, ctx: ctx, request: request}
}

// begin is called in front of a read.
func (s *seat) begin() {
	s.mu.Lock()
	s.reading = true
	s.mu.Unlock()
}

// lend gives the slot back, if a read is under way, and reports whether one was.
func (s *seat) lend() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading {
		s.lent = true
		s.w.leave(work.Released)
	}
	return s.reading
}

// away gives the slot back of a request whose client has nothing to say yet.
func (s *seat) away() {
	s.begin()
	s.lend()
	s.end()
}

// end is called behind a read.
func (s *seat) end() {
	s.mu.Lock()
	s.reading = false
	s.mu.Unlock()
}

// take takes another slot, if the last one was lent and the answer has not begun. It waits
// for it as any request does.
func (s *seat) take() error {
	s.mu.Lock()
	lent := s.lent
	s.lent = false
	s.mu.Unlock()
	if !lent || s.answering.Load() {
		return nil
	}
	t := new(live.Ticket)
	if err := s.w.target.gate.Admit(s.ctx, s.request, t); err != nil {
		spanevent.Refused(s.ctx, err)
		var refusal *live.Refusal
		if errors.As(err, &refusal) {
			s.refusal.Store(refusal)
		}
		return err
	}
	if t.Waited() {
		spanevent.Waited(s.ctx, spanevent.SlotWait, t.Queued())
	}
	s.again.Store(t)
	if s.ended.Load() {
		t.Leave(work.Released)
	}
	return nil
}

// answers is called when the answer begins.
func (s *seat) answers(code int) {
	if s == nil {
		return
	}
	s.answering.Store(true)
	if s.first == nil || s.whole.Load() || code >= http.StatusBadRequest {
		return // who refuses a body need not read it
	}
	now := live.Now()
	s.mu.Lock()
	lent := s.lent
	s.mu.Unlock()
	if lent || s.first.has(now, &s.w.in) {
		s.first.note(now, &s.w.in)
	}
}

// leave gives the slot back that was taken last, if any was.
func (s *seat) leave(o work.Outcome) {
	if s == nil {
		return
	}
	t := s.again.Load()
	switch {
	case t == nil:
	case s.sample:
		t.Leave(o)
	default:
		t.Leave(work.Released)
	}
}

// finish is called when the handler has returned.
func (s *seat) finish() {
	if s == nil {
		return
	}
	s.stop()
	s.ended.Store(true)
	s.leave(work.Released)
}

// refused returns why the request got no other slot, nil if that is not so.
func (s *seat) refused() *live.Refusal {
	if s == nil {
		return nil
	}
	return s.refusal.Load()
}
