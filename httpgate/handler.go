package httpgate

import (
	"context"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/spanevent"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Handler admits each request through gate before next serves it. Install it
// outside of all other middleware that does work, because overload control
// cannot save the work done before admission, and call Track with the server, so
// that clients can have credits. A nil next is http.DefaultServeMux; a nil gate panics.
//
// The context of an admitted request has the deadline that the client's budget
// sets, and the tags that spillgate.TagsFrom returns; Transport and the gRPC edge
// send both on. A gate with spillgate.Config.ClassShares learns which kinds of requests
// (Kind, told apart by workflow) are interactive, and the tags say what it learned.
func Handler(gate *live.Gate, next http.Handler, opts ...Option) http.Handler {
	t := NewTarget(gate, next)
	gate.WatchNetwork()
	h := Spread(func(*http.Request) *Target { return t }, opts...).(*handler)
	h.only = t
	return h
}

// Spread is a Handler over several targets, each with a gate of its own because
// capacity belongs to a server. choose is called once for each request, before
// its admission, and again if its target was closed before that; nil answers 503. A
// client sees one window, the sum of those at the targets.
func Spread(choose func(*http.Request) *Target, opts ...Option) http.Handler {
	return &handler{options: applyOptions(opts), choose: choose, ledger: live.NewLedger(newAccount, (*account).close)}
}

type handler struct {
	options
	choose func(*http.Request) *Target
	only   *Target // nil: there may be others, or a request may be of interest even where its gate is not
	ledger *live.Ledger[*account]

	gathering memory    // for bodies that are being read
	untracked sync.Once // said that clients ask for credits in vain
	flattened sync.Once // said that a refusal further down was answered as a failure
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	grpc := isGRPC(r.Header)
	if h.passes(r, grpc) {
		h.pass(rw, r)
		return
	}
	from, _ := r.Context().Value(connKey{}).(*conn)
	tags, speaks := h.readTags(r, from, grpc)
	if grpc {
		tags.Attempt = max(tags.Attempt, attemptsBefore(r.Header))
	}
	t := h.choose(r)
	if t == nil {
		h.turnAway(rw, r, grpc)
		return
	}
	if h.exempt != nil && h.exempt(r) {
		h.serveExempt(rw, r, t, from)
		return
	}
	first, whole, ok := h.gather(rw, r, from)
	if !ok {
		return
	}
	var body io.ReadCloser
	if first != nil {
		body = first
		defer first.free()
	}
	ctx := r.Context()
	if budget := shortest(tags.Budget, grpc, r.Header); budget < math.MaxInt64 {
		timed := new(live.Timed)
		timed.Begin(ctx, time.Now().Add(budget))
		defer timed.End()
		ctx = timed
	}
	if body == nil {
		if e := h.await(ctx, r, t, from); e != nil {
			defer e.done(rw, r)
			if e.foul != nil {
				h.refuseBody(rw, r, badBody(e.foul))
				return
			}
			body, whole, r = e, e.whole, e.request
		}
	}
	if t = h.current(t, r); t == nil {
		h.turnAway(rw, r, grpc)
		return
	}
	for before := uint8(0); t != nil; before++ {
		w := &writer{ResponseWriter: rw, h: h, target: t, speaks: speaks, asks: tags.Credits && tags.Asks, bare: r.Method == http.MethodHead, trailers: r.ProtoMajor >= 2, before: before, whole: whole}
		w.in.grpc = grpc
		t = h.serve(ctx, w, r, from, &tags, body)
	}
}

// current returns the target of a request whose body was waited for, another one if that was closed meanwhile, nil if there
// is none.
func (h *handler) current(t *Target, r *http.Request) *Target {
	if t.closed.Load() {
		return h.choose(r)
	}
	return t
}

// sentBy tells whose request r is, which came by a connection, from those of others; 0 if that is not known.
func (h *handler) sentBy(r *http.Request, from *conn) uint64 {
	if from == nil {
		return 0
	}
	return h.whose(r, from, from.meet(r)).Whose()
}

// turnAway refuses a request for which there is no target.
func (h *handler) turnAway(rw http.ResponseWriter, r *http.Request, grpc bool) {
	refusal := &live.Refusal{Reason: work.Draining, Pushback: time.Second}
	h.refuse(rw, r, refusal, answer(refusal, wire.Grant{}, false), 0, grpc)
	h.awaitRest(rw, r)
}

// passes reports whether r is served without a ticket: the gate's mode is Off, nobody is told of the end, and
// there are neither tags nor a budget, which the handler's context would have.
func (h *handler) passes(r *http.Request, grpc bool) bool {
	if h.only == nil || h.onEnd != nil || h.classify != nil || grpc || !h.only.gate.Bypassed() {
		return false
	}
	_, tagged := r.Header[field]
	_, ranked := r.Header[baggage]
	return !tagged && !ranked
}

// pass has r served, which passes. Calls made for it know that they are not at the edge of the system. Over HTTP/1 the
// connection says so while it serves r, else a copy of r does. Requests of the connection that no gate sees stay at the edge.
func (h *handler) pass(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	switch c, _ := ctx.Value(connKey{}).(*conn); {
	case live.Serving(ctx): // as a handler further out says
	case c != nil && r.ProtoMajor == 1:
		c.passing.Store(true)
		defer c.passing.Store(false)
	default:
		r = r.WithContext(live.Passing(ctx))
	}
	h.only.next.ServeHTTP(w, r)
}

// serve has the request, which came by a connection, admitted by the gate of w's target, and served. It returns the
// target that the request goes on to, nil where it was answered.
func (h *handler) serve(ctx context.Context, w *writer, r *http.Request, from *conn, tags *wire.Tags, body io.ReadCloser) *Target {
	in := &w.in
	in.Context, in.r, in.path = ctx, r, r.URL.Path
	_, in.limited = ctx.Deadline()
	tell, ok := h.admit(w, r, from, tags, body)
	if !ok {
		return nil
	}
	if in.watched {
		defer in.ticket.Unwatch()
	}
	if tell != nil {
		defer func() { tell(w.ended()) }()
	}
	defer w.end()
	w.target.next.ServeHTTP(w, &w.request)
	w.returned = true
	return w.another
}

// admit has the gate of w's target decide about r, and refuses r where the gate does. Else w.request is what the handler
// is to serve. It returns who is told of the request's end, nil for nobody. It is a function of its own so that none of
// its variables is on the stack while the handler runs: see transport.ready.
func (h *handler) admit(w *writer, r *http.Request, from *conn, tags *wire.Tags, body io.ReadCloser) (tell func(End), ok bool) {
	t, in := w.target, &w.in
	client, sender := h.sender(w, r, from, tags)
	t.gate.Untagged().Served(tags)
	request, cancel := h.request(in, r, tags)
	request.Client, request.Sender = client, sender
	request.Untrusted = t.gate.ByDeadline() && !h.mayHurry(r)
	if t.gate.Shares() != nil {
		request.Key = share.Key{Caller: tags.Workflow, Method: Kind(r)}
	}
	ctx := in.Context
	tell, arrived := h.told(r)
	if err := t.gate.Admit(in, request, &in.ticket); err != nil {
		spanevent.Refused(ctx, err)
		w.refuse(r, err)
		if _, awaited := body.(*early); !awaited && !w.whole {
			h.awaitRest(w.ResponseWriter, r)
		}
		if tell != nil {
			tell(w.refused(err, arrived))
		}
		return nil, false
	}
	if in.ticket.Waited() {
		spanevent.Waited(ctx, spanevent.SlotWait, in.ticket.Queued())
	}
	in.admit(ctx, tags)
	if cancel {
		if watching, may := in.ticket.Watch(ctx); may {
			in.Context, in.watched = watching, true
		}
	}
	w.request = *r.WithContext(in)
	if body != nil {
		w.request.Body = body
	}
	awaited, _ := body.(*early)
	switch {
	case w.whole:
	case r.ProtoMajor >= 2 && r.ContentLength < 0 && (awaited == nil || !awaited.uploads()):
		w.watchStream(ctx, &w.request, request, awaited)
	default:
		w.watchUpload(ctx, &w.request, request, awaited)
	}
	return tell, true
}

// request is what the gate is told of r, and whether it may be cancelled as a culprit.
func (h *handler) request(in *served, r *http.Request, tags *wire.Tags) (request live.Request, cancel bool) {
	request = live.Request{
		Request: work.Request{
			Workflow: tags.Workflow, Class: tags.Class, Priority: tags.Priority,
			Deadline: mono.Never, Demand: tags.Demand, Asks: tags.Asks, Attempt: tags.Attempt,
		},
		Kind: in, Token: tags.Token,
		Total: tags.Total, Elapsed: tags.Elapsed, Process: tags.Process, Claim: tags.Claim, Waited: tags.Waited,
	}
	if h.objective != nil {
		request.Objective = h.objective(r)
	}
	cancel = true
	if h.kind != nil {
		in.kind, cancel = h.kind(r)
	}
	return request, cancel
}

// sender returns whose request r is, which came by c, nil if nobody tracks connections: the account of a client that
// knows credits, and the connection.
func (h *handler) sender(w *writer, r *http.Request, c *conn, tags *wire.Tags) (client *live.Client, sender live.Sender) {
	if c != nil {
		sender = h.whose(r, c, c.meet(r))
		if tags.Credits {
			if w.account = c.account(h.ledger, tags.Client); w.account != nil {
				client = w.account.client(w.target)
			}
		}
	} else if tags.Credits {
		h.untracked.Do(func() {
			slog.Warn("httpgate: clients ask for credits and get none: call httpgate.Install, or httpgate.Track, with the http.Server before it serves")
		})
	}
	return client, sender
}

// shortest returns the time that a request has left, MaxInt64 if it did not say.
func shortest(budget time.Duration, grpc bool, h http.Header) time.Duration {
	if budget <= 0 {
		budget = math.MaxInt64
	}
	if grpc {
		if v := h["Grpc-Timeout"]; len(v) == 1 {
			if d, ok := grpcTimeout(v[0]); ok {
				budget = min(budget, d)
			}
		}
	}
	return budget
}

// attemptsBefore is what gRPC's own retry policy says of the attempts made before, 0 if it
// says nothing that can be read.
func attemptsBefore(h http.Header) int {
	v := h["Grpc-Previous-Rpc-Attempts"]
	if len(v) != 1 {
		return 0
	}
	n, err := strconv.ParseUint(v[0], 10, 31)
	if err != nil {
		return 0
	}
	return int(min(n, wire.MaxAttempt))
}

// grpcTimeout reads the value of grpc-timeout: up to eight digits and a unit. It
// reports false for what is no such value, and for times beyond those that
// travel, which are no deadline.
func grpcTimeout(s string) (time.Duration, bool) {
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if err != nil {
		return 0, false
	}
	var unit time.Duration
	switch s[len(s)-1] {
	case 'n':
		unit = time.Nanosecond
	case 'u':
		unit = time.Microsecond
	case 'm':
		unit = time.Millisecond
	case 'S':
		unit = time.Second
	case 'M':
		unit = time.Minute
	case 'H':
		unit = time.Hour
	default:
		return 0, false
	}
	if n > uint64(wire.MaxDuration/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// served is the context of a request that a handler works on.
type served struct {
	context.Context
	// done is what Context says of its end. It is empty until somebody asks, because
	// net/http makes a channel then, and while only a cancel, which nobody may listen for, is added to it.
	done atomic.Value // <-chan struct{}

	r    *http.Request // as the server has it
	path string        // of r, which handlers may change
	kind string        // empty: as method and path have it

	tags     *wire.Tags  // nil if they say nothing, as mostly; nobody writes to them once the handler runs
	ticket   live.Ticket // to be looked at once admitted
	admitted bool
	grpc     bool
	limited  bool // it has a deadline
	watched  bool // a cancel was added to done
	// below is set when a request made while serving this one was refused.
	below atomic.Bool
	// ignored is set by Ignore.
	ignored atomic.Bool
}

// admit notes that the request, whose tags the server believes as far as they came here, may run. ctx is that of a
// handler further out.
func (s *served) admit(ctx context.Context, tags *wire.Tags) {
	passed := wire.Tags{Workflow: tags.Workflow, Class: tags.Class, Priority: tags.Priority,
		Attempt: tags.Attempt, Total: tags.Total, Elapsed: tags.Elapsed}
	if passed == (wire.Tags{}) {
		passed = live.TagsFrom(ctx)
	}
	s.admitted, passed.Total = true, s.ticket.Total()
	if class, ok := s.ticket.Class(); ok {
		passed.Class = class
	}
	if passed != (wire.Tags{}) {
		s.tags = new(wire.Tags)
		*s.tags = passed
	}
}

// Kind is what the request does: see live.Kind.
func (s *served) Kind() string {
	if s.kind != "" {
		return s.kind
	}
	return s.asks()
}

// asks is what Kind says of the request as it came, which the handler may have changed.
func (s *served) asks() string { return kindOf(s.r.Method, s.path, s.grpc) }

// Ignore says that the request which ctx belongs to ends without its work being
// done, as an error of a server further down that a handler passes on, so that
// its time is no sample. It is for who has the request's context but not its
// response writer; see SetOutcome. Without a gate it does nothing.
func Ignore(ctx context.Context) {
	if s, ok := ctx.Value(servedKey{}).(*served); ok {
		s.ignored.Store(true)
	}
}

// RefusedBelow notes that a request made while serving this one was refused: see live.RefusedBelow.
func (s *served) RefusedBelow() { s.below.Store(true) }

type servedKey struct{}

// Done implements context.Context.
func (s *served) Done() <-chan struct{} {
	if s.watched {
		return s.Context.Done()
	}
	if done, ok := s.done.Load().(<-chan struct{}); ok {
		return done
	}
	done := s.Context.Done()
	s.done.Store(done)
	return done
}

// Deadline implements context.Context.
func (s *served) Deadline() (time.Time, bool) {
	if !s.limited {
		return time.Time{}, false // as mostly, without looking for one in all that Context was derived from
	}
	return s.Context.Deadline()
}

// Value implements context.Context.
func (s *served) Value(key any) any {
	switch key {
	case servedKey{}, live.ServingKey{}:
		return s
	case live.TagsKey{}:
		if s.tags != nil {
			return s.tags
		}
	}
	if s.admitted {
		switch key {
		case live.TicketKey{}:
			return &s.ticket
		case live.SpanKey{}:
			return s.ticket.Span()
		}
	}
	return s.Context.Value(key)
}
