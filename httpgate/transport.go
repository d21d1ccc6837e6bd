package httpgate

import (
	"errors"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/spanevent"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

const (
	// maxHosts is the most servers for which a Transport keeps a wallet. Beyond
	// it the least recently used idle one is forgotten; if none is idle, the
	// request goes without a wallet.
	maxHosts = 1024
	// hostIdle is how long a wallet that nobody uses is kept.
	hostIdle = 5 * time.Minute
)

// TransportOption changes how a Transport works.
type TransportOption func(*transport)

// Wallet sets the queue in which requests wait for credits, one for each server.
// A configuration that has a mistake makes every request fail with its
// error.
func Wallet(cfg credit.WalletConfig) TransportOption {
	return func(t *transport) { t.wallet = cfg }
}

// Retries lets a request that a server refused be sent again up to n times, if it
// can be repeated (it has no body, or a GetBody), if the server called the
// refusal retryable, after the pushback it asked for, or Retry-After where that
// says more, and within a budget of a tenth of the requests that this server
// answered. Default 0. A request made while serving another is never sent again:
// only the edge retries.
func Retries(n int) TransportOption {
	return func(t *transport) { t.retries = n }
}

// OnRetry is told of each refusal that Retries considers: work.None if the
// request is sent again, else why not, of which work.RetryBudget means that the
// budget alone stood in the way. f must not block.
func OnRetry(f func(r *http.Request, why work.Reason)) TransportOption {
	return func(t *transport) { t.onRetry = f }
}

// CountUntagged counts in u, by method and host, the requests whose context is not that of
// the request they are made for. u is Gate.Untagged of the gate behind which the requests
// are made. Default: they are not counted.
func CountUntagged(u *live.Untagged) TransportOption {
	return func(t *transport) { t.untagged = u }
}

// CountCalls counts in c what becomes of requests, by host. c belongs to the gate behind
// which they are made (Gate.Calls), or to the program. Default: requests are not counted.
func CountCalls(c *live.Calls) TransportOption {
	return func(t *transport) { t.calls = c }
}

// KeepHeader writes tags into the request's own header instead of a copy, which a
// RoundTripper must not do. It is for requests that no other code uses, such as those that
// httputil.ReverseProxy makes; with Retries it does nothing.
func KeepHeader() TransportOption {
	return func(t *transport) { t.keep = true }
}

// Transport sends requests through base with credits: a request for a server
// that grants credits waits until one is free, and is refused unsent, with a
// *spillgate.Refusal as error, when that takes too long. To servers that grant none
// requests go at once, as soon as that is known: until the first answer, 8 are sent, and twice as many after each 200 ms. Each server, told apart by scheme and host:port, has a
// wallet of its own. A nil base is http.DefaultTransport.
//
// What the server refused comes back as the response that it is, with its 429,
// 503 or 504, unless Retries allows another attempt. As with any RoundTripper the response's body
// must be closed: it holds the credit until its end, until StreamAfter if its
// length is unknown, or not at all if it is an event stream or an upgraded
// connection. A body that is closed unread takes news of credits with it, no more. A request whose body has nothing to say for StreamAfter gives the
// credit back before it is answered.
//
// The tags of spillgate.WithTags, the progress of the request that the context belongs
// to and the time left until the context's deadline, rounded down by at most 0.4 %, travel with the request. Rates
// that the server announces come with its answers alone; see wire/FORMAT.md for
// why that is enough.
func Transport(base http.RoundTripper, opts ...TransportOption) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	t := &transport{base: base, id: rand.Uint64() | 1, hosts: map[hostKey]*host{}}
	for _, f := range opts {
		f(t)
	}
	t.keep = t.keep && t.retries == 0 // the first attempt may still be reading it
	_, t.shares = base.(*http.Transport)
	return t
}

type transport struct {
	base     http.RoundTripper
	wallet   credit.WalletConfig
	keep     bool // the header of requests
	shares   bool // base writes to no header, and nor does what it hands a request to: one may be sent several times
	retries  int
	onRetry  func(*http.Request, work.Reason) // nil: nobody asks
	id       uint64                           // the client's identity
	untagged *live.Untagged
	calls    *live.Calls

	mu     sync.Mutex
	hosts  map[hostKey]*host
	latest *host // one of hosts, or nil: many transports have but one
	// retired: another took its place, and a server is forgotten when its last request is over.
	retired bool
}

type hostKey struct{ scheme, host string }

// host is one server.
type host struct {
	key    hostKey
	wallet *live.Wallet
	server *live.Server
	callee *live.Callee
	budget live.Retries
	called *live.Target
	stop   func()    // watching it
	users  int       // guarded by transport.mu
	used   mono.Time // guarded by transport.mu
}

// state is what the transport has of the server.
func (h *host) state() live.ClientState {
	window, credited := h.server.Window()
	return live.ClientState{Window: window, Credited: credited, Waiting: h.wallet.Waiting()}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	began := live.Now()
	for try := 0; ; try++ {
		resp, x, err := t.send(r, try, began)
		if err != nil || x == nil || t.retries == 0 {
			return resp, err
		}
		if x.shed == nil {
			if succeeded(resp) {
				x.host.budget.Earn(r.Context(), x.host.server, began)
			}
			return resp, nil
		}
		if try >= t.retries {
			return resp, nil
		}
		if r = t.again(r, x, resp); r == nil {
			return resp, nil
		}
	}
}

// send makes one attempt at what began at an instant. The exchange is nil if the server
// has no wallet.
func (t *transport) send(r *http.Request, try int, began mono.Time) (*http.Response, *exchange, error) {
	ctx := r.Context()
	now := began
	if try > 0 {
		now = live.Now()
	}
	h, err := t.enter(now, hostKey{r.URL.Scheme, r.URL.Host})
	if err != nil {
		closeBody(r)
		return nil, nil, err
	}
	if t.untagged.Lost(ctx) {
		t.untagged.Called(ctx, r.Method+" "+r.URL.Host)
	}
	if h == nil { // nor rates: nobody will read the reply
		resp, err := t.blind(r, try)
		return resp, nil, err
	}
	x := &exchange{t: t, host: h, asked: r, sent: now, grpc: isGRPC(r.Header)}
	out, err := t.ready(x, try, began)
	if err != nil {
		return nil, nil, err
	}
	resp, err := t.base.RoundTrip(out)
	if err != nil {
		h.called.Count(live.Failed, work.None)
		x.end()
		return nil, nil, err
	}
	if t.shares && out != r && len(r.Header) == 0 {
		resp.Request = r // the header that was sent is not for callers to change: it may be sent again
	}
	x.onHeader(resp)
	return resp, x, nil
}

// blind sends a request to a server of which nothing is kept.
func (t *transport) blind(r *http.Request, try int) (*http.Response, error) {
	call, tags := live.BeginCall(r.Context(), nil, try)
	defer call.End(nil)
	tags.Token = live.TokenFrom(r.Context())
	return t.base.RoundTrip(t.tagged(r, new(http.Request), tags, nil, isGRPC(r.Header)))
}

// ready waits until x may be sent, and returns what is sent. It is a function of its own so that none of its variables
// is on the stack while the answer is awaited: a proxy with thousands of connections that ask now and then spent a fifth
// of its time on stacks that grew beyond 8 kB for each request, and shrank afterwards.
func (t *transport) ready(x *exchange, try int, began mono.Time) (*http.Request, error) {
	r, h := x.asked, x.host
	ctx := r.Context()
	permit := &x.permit
	err := h.wallet.AcquireAt(ctx, x.sent, permit)
	spanevent.Waited(ctx, spanevent.CreditWait, permit.Waited())
	if err != nil {
		spanevent.Refused(ctx, err)
		t.leave(h, live.Now())
		h.called.NotSent(err)
		closeBody(r)
		live.UnsentBelow(ctx, err)
		return nil, err
	}
	if permit.Waited() > 0 {
		x.sent = live.Now()
	}
	var tags wire.Tags
	x.call, tags = live.BeginCall(ctx, h.callee, try)
	tags.Token = live.TokenFrom(ctx)
	if permit.Tell(&tags); try > 0 {
		tags.Waited = x.sent.Sub(began)
	}
	out := t.tagged(r, &x.out, tags, permit, x.grpc)
	if out.ContentLength <= 0 && out.Body != nil {
		watchQuiet(out, StreamAfter, func() { x.release(0) })
	}
	return out, nil
}

// CloseIdleConnections is what http.Client.CloseIdleConnections calls. It also
// forgets servers without requests.
func (t *transport) CloseIdleConnections() {
	t.mu.Lock()
	t.evict(live.Now(), 0)
	t.mu.Unlock()
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// enter returns the server called key with one user more; nil if there are too
// many servers.
func (t *transport) enter(now mono.Time, key hostKey) (*host, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.latest
	if h == nil || h.key != key {
		h = t.hosts[key]
	}
	if h == nil {
		t.evict(now, hostIdle)
		if len(t.hosts) >= maxHosts && !t.evictOldest() {
			return nil, nil
		}
		w, err := live.NewWallet(t.wallet)
		if err != nil {
			return nil, err
		}
		h = &host{key: key, wallet: w, server: w.Open(nil), callee: live.NewCallee(key.host, nil)}
		h.called = t.calls.Target(key.host)
		h.stop = h.called.Watch(h.state)
		t.hosts[key] = h
	}
	t.latest = h
	h.users++
	h.used = now
	return h, nil
}

func (t *transport) leave(h *host, now mono.Time) {
	t.mu.Lock()
	h.users--
	h.used = max(h.used, now)
	if t.retired && h.users == 0 && t.hosts[h.key] == h {
		t.forget(h)
	}
	t.mu.Unlock()
}

// Retire is for a transport that another one with the same base takes the place of: it forgets its servers, each
// when the last request to it is over, and leaves the connections to the other.
func (t *transport) Retire() {
	t.mu.Lock()
	t.retired = true
	t.evict(live.Now(), math.MinInt64)
	t.mu.Unlock()
}

// evict forgets servers that nobody has used for that long; the lock is held.
func (t *transport) evict(now mono.Time, idle time.Duration) {
	for _, h := range t.hosts {
		if h.users == 0 && now.Sub(h.used) >= idle {
			t.forget(h)
		}
	}
}

// evictOldest forgets the server that nobody has used for longest, and reports
// whether there was one; the lock is held.
func (t *transport) evictOldest() bool {
	var oldest *host
	for _, h := range t.hosts {
		if h.users == 0 && (oldest == nil || h.used < oldest.used) {
			oldest = h
		}
	}
	if oldest != nil {
		t.forget(oldest)
	}
	return oldest != nil
}

func (t *transport) forget(h *host) {
	h.wallet.Close()
	h.stop()
	delete(t.hosts, h.key)
	if t.latest == h {
		t.latest = nil
	}
}

// tagged returns a request like r with the tags that travel: r itself where KeepHeader
// allows that and it has no body, which watchQuiet may replace; else room. A permit of nil is a
// request without a wallet, whose sender wants no credits.
func (t *transport) tagged(r, room *http.Request, tags wire.Tags, permit *live.Permit, grpc bool) *http.Request {
	ctx := r.Context()
	rank := wire.Tags{Workflow: tags.Workflow, Class: tags.Class, Priority: tags.Priority}
	var left time.Duration
	if d, ok := ctx.Deadline(); ok {
		left = time.Until(d)
		tags.Budget = live.CoarseBudget(left)
	}
	if permit != nil {
		tags.Client = t.id
	}
	out := r
	if !t.keep || r.Header == nil || r.Body != nil {
		out = room
		if *out = *r; left != 0 {
			// http.Client sets it beside the deadline for a transport that it does not know, and http.Transport has a goroutine wait
			// for it. Beside a context it need not count (http.Request).
			//lint:ignore SA1019 others set it
			out.Cancel = nil
		}
	}
	if permit != nil && !grpc && t.shares && out == room && len(r.Header) == 0 && rank == (wire.Tags{}) {
		out.Header = permit.Server().Said().Form(&tags, webForm).(http.Header)
		return out
	}
	if !t.keep || r.Header == nil {
		if out.Header = maps.Clone(r.Header); out.Header == nil { // the values are shared and not written to
			out.Header = make(http.Header, 2)
		}
	}
	if permit != nil && !grpc {
		out.Header[field] = permit.Server().Said().Form(&tags, webForm).(http.Header)[field]
	} else {
		out.Header[fieldFor(grpc)] = tagsField(&tags, grpc)
	}
	if grpc && tags.Budget != 0 {
		out.Header["Grpc-Timeout"] = []string{grpcTimeoutText(left)}
	}
	if rank != (wire.Tags{}) {
		var before string
		for _, v := range r.Header[baggage] {
			if before != "" {
				before += ","
			}
			before += v
		}
		out.Header[baggage] = []string{string(wire.AppendBaggage(nil, before, rank))}
	}
	return out
}

// webForm is tags as the header of a request that has no other fields.
func webForm(t wire.Tags) any { return http.Header{field: tagsField(&t, false)} }

// tagsField is tags as the values of the field in which they travel.
func tagsField(t *wire.Tags, grpc bool) []string {
	var buf [wire.MaxTags]byte
	return []string{encodeField(t.Append(buf[:0]), grpc)}
}

// grpcTimeoutText is the value of grpc-timeout, in the finest unit that fits into
// its eight digits.
func grpcTimeoutText(d time.Duration) string {
	d = max(d, 1)
	for _, u := range [...]struct {
		unit   time.Duration
		letter string
	}{{time.Nanosecond, "n"}, {time.Microsecond, "u"}, {time.Millisecond, "m"}, {time.Second, "S"}, {time.Minute, "M"}} {
		if n := (d + u.unit - 1) / u.unit; n < 100_000_000 {
			return strconv.FormatInt(int64(n), 10) + u.letter
		}
	}
	return "99999999H"
}

// exchange is one request that was sent, until its credit is back.
//
// It is one allocation a request, and small: the copy of the request that is sent and the body of the
// response are parts of it.
type exchange struct {
	t      *transport
	host   *host
	permit live.Permit
	asked  *http.Request
	out    http.Request // asked as it is sent, where that is not asked itself
	sent   mono.Time
	call   live.Outgoing

	grpc    bool
	granted bool
	shed    *wire.Shed  // nil: it was not refused
	reply   *wire.Reply // what was said up to now, nil if nothing
	served  time.Duration
	timer   *time.Timer

	resp            *http.Response
	answer          io.ReadCloser // its body
	ended, released sync.Once
}

// onHeader takes what the header of the response says.
func (x *exchange) onHeader(resp *http.Response) {
	x.take(resp.Header)
	if !x.granted && x.permit.Asks() {
		// A server that grants credits tells those who ask in the header.
		x.host.server.OnPlainReply()
	}
	if x.shed != nil {
		x.host.called.Count(live.Refused, x.shed.Reason)
	} else {
		x.host.called.Count(live.Answered, work.None)
		x.served = live.Now().Sub(x.sent)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == nil || resp.Body == http.NoBody {
		// Nothing follows, or the body is the connection and stays as it is.
		x.end()
		return
	}
	x.answer, x.resp = resp.Body, resp
	resp.Body = (*body)(x)
	switch {
	case resp.ContentLength >= 0:
	case isEventStream(resp.Header):
		x.release(x.served)
	default:
		served := x.served // what the trailer will say comes too late for it
		x.timer = time.AfterFunc(StreamAfter, func() { x.release(served) })
	}
}

// take reads the field of a header or trailer, and leaves in it only what
// matters beyond this hop: a refusal.
func (x *exchange) take(h http.Header) {
	name := fieldFor(x.grpc)
	values := h[name]
	if len(values) == 0 {
		return
	}
	delete(h, name)
	msg, err := decodeField(values, x.grpc)
	if err != nil {
		return
	}
	r, err := wire.ParseReply(msg)
	if err != nil {
		return
	}
	x.call.Answered(x.host.callee, r)
	x.reply = &r
	if r.HasGrant {
		x.granted = true
		x.permit.OnGrant(r.Grant)
	}
	if r.HasShed {
		x.shed = &r.Shed
		x.served = 0
		live.RefusedBelow(x.asked.Context())
		h[name] = []string{encodeField(wire.Reply{Shed: r.Shed, HasShed: true}.Append(nil), x.grpc)}
	}
}

// release gives the credit back, once.
func (x *exchange) release(served time.Duration) {
	x.released.Do(func() {
		now := live.Now()
		x.permit.ReturnAt(now, nil, served)
		x.t.leave(x.host, now)
	})
}

// end is release when nothing more will come.
func (x *exchange) end() {
	if x.timer != nil {
		x.timer.Stop()
	}
	x.call.End(x.reply)
	x.release(x.served)
}

// body is an exchange as the body of its response, at whose end the credit goes back.
type body exchange

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.answer.Read(p)
	if err != nil {
		b.end(errors.Is(err, io.EOF))
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	err := b.answer.Close()
	b.end(false)
	return err
}

// end reads the trailer, which is there after the whole body was.
func (b *body) end(whole bool) {
	b.ended.Do(func() {
		x := (*exchange)(b)
		if whole {
			x.take(x.resp.Trailer)
		}
		x.end()
	})
}

func isEventStream(h http.Header) bool {
	ct := h["Content-Type"]
	return len(ct) == 1 && len(ct[0]) >= len("text/event-stream") && ct[0][:len("text/event-stream")] == "text/event-stream"
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}
