package proxy

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// A visit is one request's passage through the proxy, as its class and the calls
// that the server makes for it have it:
//
//	ServeHTTP ─ begin: class, trace ─▶ gate ─ admitted ─▶ server ─ served ─▶ end: learn
//	                                                      │    ▲
//	                                 egress: leave, slot ─┘    └─ outing.end
//	                                 given back
//
// The slot is the request's until the server has the answer. While the server waits for others it works on nothing, so the slot is not the
// request's any more, and does not become so again: what a server does with the
// answers of others is little, or its slots are more. The zero span, class and key
// are of a visit without Share.

// visitKey is the key under which a request's context holds its *visit.
type visitKey struct{}

// visitOf returns the visit of r, nil if it has none. Where no request ever had one, no
// context is searched for it.
func (p *Proxy) visitOf(r *http.Request) *visit {
	if !p.visited.Load() {
		return nil
	}
	v, _ := r.Context().Value(visitKey{}).(*visit)
	return v
}

type visit struct {
	p       *Proxy
	s       *state
	client  context.Context // ends when the caller leaves
	arrived mono.Time
	gone    bool // the caller, on arrival
	trace   traceID
	traced  bool
	key     share.Key
	rank    classify.Rank // what it is
	sent    classify.Rank // what the gate and the server are told that it is
	why     string        // it is, if that was not learned
	asked   bool          // who sent it wants to know what it took
	allowed time.Duration // until the deadline, 0 if it has none

	mu      sync.Mutex
	up      *upstream
	ticket  *live.Ticket // once it was admitted
	span    *live.Span
	before  wire.Progress
	started mono.Time
	waited  time.Duration
	held    time.Duration // the slot
	loose   bool          // the slot was given back at the first call
	calls   int
	away    int // calls that are under way
	ended   bool
	left    bool // the server
	stream  bool
	status  int
	// Up to the header of the answer: how fast a caller reads is not the server's
	// affair.
	latency time.Duration
	course  share.Course
}

// begin gives r its visit, and its class. what is what the rules say, which it
// changes to what counts. end must follow.
func (p *Proxy) begin(s *state, r *http.Request, what *classify.Result) (*visit, *http.Request) {
	v := &visit{p: p, s: s, client: r.Context(), arrived: live.Now(), gone: r.Context().Err() != nil, rank: what.Rank}
	if !p.visited.Load() {
		p.visited.Store(true)
	}
	if len(s.cfg.Egress) > 0 {
		id, ok, malformed := traceOf(r.Header)
		if malformed {
			p.traces.malformed.Add(1)
		}
		if !ok {
			id = newTrace(r.Header)
		}
		v.trace = id
		v.traced = p.traces.add(v)
	}
	if s.classes != nil {
		c := &s.cfg
		v.key = share.Key{Caller: caller(r.Header, c.Share.callerHeader()), Callee: c.service(), Method: httpgate.Kind(r)}
		known := s.classes.Explain(v.key)
		switch {
		case what.Ruled:
			v.why = "rule"
		case known.Why == share.ByOverride:
			v.rank.Class = known.Class
		case what.Class != work.Default:
			if v.why = "tag"; c.Workflows[label(what.Workflow)].Class == what.Class {
				v.why = "workflow"
			}
		default:
			v.rank.Class = known.Class
		}
		v.sent = v.rank
		if c.Share.Order == OneFIFO {
			v.sent.Class = work.Default
		}
		if v.sent != what.Rank {
			stamp(r.Header, isGRPC(r), v.sent)
		}
		v.asked = r.Header[wire.HeaderName] != nil || r.Header[binaryField] != nil
	}
	if d, ok := r.Context().Deadline(); ok {
		v.allowed = max(time.Until(d), 1)
	}
	return v, r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
}

// chose says which upstream the request is for, before its gate decides. It may have been at another one, where it holds
// nothing any more.
func (v *visit) chose(u *upstream) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tighten()
	v.up = u
}

// tighten ends that the request is without a slot at its upstream. The lock is held.
func (v *visit) tighten() {
	if v.loose {
		v.loose = false
		v.up.loose.Add(-1)
	}
}

// admitted says that the gate of u let the request in.
func (v *visit) admitted(u *upstream, ctx context.Context) {
	ticket, _ := ctx.Value(live.TicketKey{}).(*live.Ticket)
	if ticket == nil {
		return // exempt
	}
	tags := live.TagsFrom(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.up, v.ticket, v.before = u, ticket, tags.Elapsed
	v.left, v.held = false, 0 // it may have been at another upstream
	v.started, v.waited = live.Now(), ticket.Queued()
	if v.s.classes != nil {
		v.span = live.NewSpan(tags.Elapsed)
		if d, ok := ctx.Deadline(); ok && v.allowed == 0 {
			v.allowed = max(time.Until(d), 1)
		}
		u.onArrival(v.rank.Class)
	}
}

// answered takes the header of the server's answer, which ends its own part. Where
// the answer has a length, the server has it ready: the worker is free, and the slot,
// while the proxy passes it on.
func (v *visit) answered(resp *http.Response) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.status = resp.StatusCode
	if v.status == http.StatusSwitchingProtocols || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		v.stream = true
	}
	if v.span == nil || v.ticket == nil {
		return
	}
	took, now := v.span.End(), live.Now()
	v.latency = now.Sub(v.arrived)
	if !v.loose && !v.stream && resp.ContentLength >= 0 && v.status < http.StatusBadRequest {
		v.held = now.Sub(v.started)
		v.ticket.Leave(work.Done)
	}
	v.course = share.Course{Hops: v.calls, Service: took.Service, Own: took.Own, Total: min(max(v.before.Service, 0), wire.MaxDuration) + took.Service}
}

// served says that the server is done with the request, before its ticket leaves.
func (v *visit) served() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ticket == nil {
		return
	}
	v.left = true
	if !v.loose && v.held == 0 {
		v.held = live.Now().Sub(v.started)
		v.stream = v.stream || v.ticket.Left()
	}
}

// end ends the visit. returned says that the handler did, without a panic.
func (v *visit) end(returned bool) {
	if v.traced {
		v.p.traces.remove(v)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = true
	v.tighten()
	if v.s.classes == nil || v.up == nil {
		return
	}
	now := live.Now()
	left := v.client.Err() != nil
	switch {
	case v.ticket == nil:
		if left && !v.gone {
			// It was let in to wait, and nobody waits for it any more.
			v.up.onArrival(v.rank.Class)
			v.up.onCancel(v.rank.Class, now.Sub(v.arrived))
		}
	case v.stream:
	case left:
		if v.rank.Class == work.Interactive {
			v.up.onCancel(v.rank.Class, now.Sub(v.arrived))
		}
	case returned && v.status > 0 && v.status < http.StatusBadRequest:
		isolated := v.s.classes.Learn(v.key, v.course)
		v.p.kinds.given(v.key, v.rank.Class, v.why)
		v.up.onDone(v.rank.Class, share.Sample{
			Latency: v.latency, Isolated: isolated, Waited: v.waited, Service: v.held, Allowed: v.allowed,
		})
	}
}

// outing is one call that the server makes for a request.
type outing struct {
	v     *visit
	began mono.Time
	call  live.Call
}

// leave begins a call, and gives the request's slot back with the first. It
// returns nil for a request that the server does not work on, and with idle, for
// one that has another call under way.
func (v *visit) leave(idle bool) *outing {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ticket == nil || v.left || v.ended || idle && v.away > 0 {
		return nil
	}
	v.calls++
	v.away++
	o := &outing{v: v, began: live.Now(), call: v.span.Call()}
	if !v.loose && v.up.loosen(v.s.cfg.Limits.Away) {
		v.loose = true
		v.held = o.began.Sub(v.started)
		v.ticket.Leave(work.Done)
	}
	return o
}

// end ends the call. reply is what the callee says, if it speaks.
func (o *outing) end(reply wire.Reply, failed bool) {
	v := o.v
	v.mu.Lock()
	defer v.mu.Unlock()
	v.away--
	if v.span == nil {
		return
	}
	if !reply.HasProgress && !failed {
		reply.HasProgress = true
		reply.Progress.Service = v.p.kinds.isolated(v.key, live.Now().Sub(o.began))
	}
	o.call.End(reply)
}

// loosen lets one request more work on without a slot, if there are not too many.
func (u *upstream) loosen(most int) bool {
	if u.loose.Add(1) > int64(most) {
		u.loose.Add(-1)
		u.tight.Add(1)
		return false
	}
	return true
}

// spent replaces what an answer says of the progress of the request: the gate sees
// what the server waited for others as its work.
func (v *visit) spent(h http.Header) {
	for _, name := range [...]string{wire.HeaderName, http.TrailerPrefix + wire.HeaderName, binaryField, http.TrailerPrefix + binaryField} {
		if len(h[name]) != 1 {
			continue
		}
		binary := strings.HasSuffix(name, binaryField)
		reply, ok := decodeReply(h[name], binary)
		if !ok || !reply.HasProgress {
			continue
		}
		v.mu.Lock()
		known := v.course
		v.mu.Unlock()
		if known.Service == 0 {
			continue
		}
		reply.Progress = wire.Progress{Service: known.Service, Work: known.Service}
		h[name] = []string{encode(reply.Append(nil), binary)}
	}
}

// progressWriter writes in the answer what the request took.
type progressWriter struct {
	http.ResponseWriter
	v     *visit
	wrote bool
}

// WriteHeader implements http.ResponseWriter.
func (w *progressWriter) WriteHeader(code int) {
	if !w.wrote && code >= http.StatusOK {
		w.wrote = true
		w.v.spent(w.Header())
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the writer below.
func (w *progressWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// binaryField is the field of tags in gRPC, wire.MetadataKey, as net/http spells
// it.
const binaryField = "Spillgate-Bin"

// stamp writes a rank into h as classify.Rules.Stamp does, which has checked what
// stands there.
func stamp(h http.Header, grpc bool, rank classify.Rank) {
	field := wire.HeaderName
	if grpc {
		field = binaryField
	}
	if values := h[field]; len(values) == 1 {
		if msg, ok := decode(values[0], grpc); ok {
			if tags, err := wire.ParseTags(msg); err == nil {
				tags.Workflow, tags.Class, tags.Priority = rank.Workflow, rank.Class, rank.Priority
				h[field] = []string{encode(tags.Append(nil), grpc)}
			}
		}
	}
	stampBaggage(h, rank)
}

func stampBaggage(h http.Header, rank classify.Rank) {
	b := wire.AppendBaggage(nil, strings.Join(h["Baggage"], ","), wire.Tags{Workflow: rank.Workflow, Class: rank.Class, Priority: rank.Priority})
	if len(b) == 0 {
		delete(h, "Baggage")
		return
	}
	h["Baggage"] = []string{string(b)}
}

func decode(value string, binary bool) ([]byte, bool) {
	if !binary {
		msg, err := wire.FromHeader(value)
		return msg, err == nil
	}
	text := strings.TrimRight(value, "=")
	if base64.RawStdEncoding.DecodedLen(len(text)) > wire.MaxLen {
		return nil, false
	}
	msg, err := base64.RawStdEncoding.DecodeString(text)
	return msg, err == nil
}

func encode(msg []byte, binary bool) string {
	if binary {
		return base64.RawStdEncoding.EncodeToString(msg)
	}
	return wire.Header(msg)
}

func decodeReply(values []string, binary bool) (wire.Reply, bool) {
	if len(values) != 1 {
		return wire.Reply{}, false
	}
	msg, ok := decode(values[0], binary)
	if !ok {
		return wire.Reply{}, false
	}
	r, err := wire.ParseReply(msg)
	return r, err == nil
}
