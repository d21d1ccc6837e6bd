package live

import (
	"context"
	"sync"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// SpanKey is the key under which a context holds a *Span. An edge that has a
// context of its own for each request answers to it; others use WithSpan.
type SpanKey struct{}

// Span measures the progress of one request on the real clock: see
// progress.Span. Its methods may be called at once from any goroutine, and do
// nothing on a nil *Span, so that code which waits or calls need not know whether
// somebody measures.
type Span struct {
	before wire.Progress // what the request had received when the span began
	parent *Span         // of a branch
	call   progress.CallID

	mu    sync.Mutex
	core  progress.Span
	ended bool
}

// WithSpan begins to measure the request that ctx belongs to, and returns a
// context with the span in it. Edges of servers call it when the request arrives,
// or when its handler starts; then the waits before are left out by themselves.
func WithSpan(ctx context.Context) (context.Context, *Span) {
	s := NewSpan(TagsFrom(ctx).Elapsed)
	return context.WithValue(ctx, SpanKey{}, s), s
}

// NewSpan returns a span that begins now, of a request that received elapsed
// before it came here, for an edge that has a context of its own.
func NewSpan(elapsed wire.Progress) *Span {
	s := new(Span)
	s.begin(Now(), elapsed)
	return s
}

// begin begins the measurement.
func (s *Span) begin(now mono.Time, elapsed wire.Progress) {
	s.before, s.ended = elapsed, false
	s.core.Begin(now)
}

// SpanFrom returns the span of the request that ctx belongs to, nil if nobody
// measures it.
func SpanFrom(ctx context.Context) *Span {
	s, _ := ctx.Value(SpanKey{}).(*Span)
	return s
}

// Branch begins to measure a part of the request that runs in parallel to others
// at this process, in a goroutine of its own. The request that forked it counts
// it like a call, which ends with End of the span returned; without it, the waits
// of one branch would hide the work of another. Without a span in ctx it returns
// ctx and nil.
func Branch(ctx context.Context) (context.Context, *Span) {
	parent := SpanFrom(ctx)
	if parent == nil {
		return ctx, nil
	}
	s := &Span{parent: parent}
	parent.mu.Lock()
	now := Now()
	s.before = parent.elapsed(now)
	s.call = parent.core.CallBegin(now)
	parent.mu.Unlock()
	s.core.Begin(now)
	return context.WithValue(ctx, SpanKey{}, s), s
}

// BeginWait says that the request is kept from being worked on from now on, until
// as many EndWait as BeginWait were called. A Resource does this itself.
func (s *Span) BeginWait() {
	if s != nil {
		s.mu.Lock()
		now := Now()
		s.core.BeginWait(now)
		s.mu.Unlock()
	}
}

// EndWait ends one wait.
func (s *Span) EndWait() {
	if s != nil {
		s.mu.Lock()
		now := Now()
		s.core.EndWait(now)
		s.mu.Unlock()
	}
}

// Call is a call of a request that is being measured. The zero Call is of a
// request that is not.
type Call struct {
	span *Span
	id   progress.CallID
}

// Call says that a call begins. Edges of clients use it; End must follow when the
// answer is there, or none will come.
func (s *Span) Call() Call {
	if s == nil {
		return Call{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Now()
	return Call{s, s.core.CallBegin(now)}
}

// End ends the call with what its reply says it took. A reply that says nothing
// counts with the call's wall time, unless it is a refusal: who refused did
// nothing for the request. Only the first call of End counts.
func (c Call) End(r wire.Reply) {
	if c.span == nil {
		return
	}
	refused := r.HasShed && r.Shed.Reason != work.Downstream
	c.span.mu.Lock()
	now := Now()
	c.span.core.CallEnd(now, c.id, r.Progress.Service, r.Progress.Work, r.HasProgress || refused)
	c.span.mu.Unlock()
}

// Elapsed returns what the request has received up to now, at this process and
// before it came here. It may fall by what a call turns out to have waited.
func (s *Span) Elapsed() wire.Progress {
	if s == nil {
		return wire.Progress{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Now()
	return s.elapsed(now)
}

// elapsed is called with the lock held.
func (s *Span) elapsed(now mono.Time) wire.Progress {
	r := s.core.At(now)
	return wire.Progress{
		Service: min(max(s.before.Service, 0), wire.MaxDuration) + r.Service,
		Work:    min(max(s.before.Work, 0), wire.MaxDuration) + min(r.Work, wire.MaxDuration),
	}
}

// Spent returns what the request has taken up to now at this process and below,
// for wire.Reply.Progress; after End, what End returned.
func (s *Span) Spent() wire.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Now()
	r := s.core.At(now)
	return wire.Progress{Service: r.Service, Work: r.Work}
}

// End ends the measurement and returns what the request took. A branch is
// reported to the request that forked it. Further calls return the same.
func (s *Span) End() progress.Result {
	if s == nil {
		return progress.Result{}
	}
	return s.end(Now())
}

// end is End at an instant. What was noted later counts all the same.
func (s *Span) end(now mono.Time) progress.Result {
	s.mu.Lock()
	r := s.core.End(now)
	first := !s.ended
	s.ended = true
	s.mu.Unlock()
	if p := s.parent; p != nil && first {
		p.mu.Lock()
		p.core.CallEnd(now, s.call, r.Service, r.Work, true)
		p.mu.Unlock()
	}
	return r
}
