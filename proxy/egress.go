package proxy

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/reread"
	"github.com/spillgate/spillgate/internal/wire"
)

// MaxEgress is the most addresses at which the upstreams' own calls go out.
const MaxEgress = 64

// Egress is an address at which the servers behind the proxy send their calls to
// another one, so that the proxy sees which requests go on. A call belongs to a
// request by the trace in its traceparent, which the server must hand on; one that
// belongs to none passes all the same. While a call is under way, its request
// holds no slot.
//
// Whoever can reach the address can reach what is behind it, and can pretend to be
// a request that waits: it belongs on a loopback or private address.
type Egress struct {
	// Address is the host:port that the servers call; port 0 takes a free one.
	Address string
	// Name is what logs and metrics call it. Default the host and port of the URL.
	Name string
	// URL, CA, Cert, Key and Insecure say how to reach the server that is called, as
	// those of an Upstream do.
	URL, CA, Cert, Key string
	Insecure           bool
}

func (e Egress) upstream() Upstream {
	return Upstream{Name: e.Name, URL: e.URL, CA: e.CA, Cert: e.Cert, Key: e.Key, Insecure: e.Insecure}
}

// checkEgress finds the mistakes in egress.
func (c *Config) checkEgress(wrong func(field, value, want string)) {
	if n := len(c.Egress); n > MaxEgress {
		wrong("egress", strconv.Itoa(n)+" addresses", fmt.Sprintf("at most %d", MaxEgress))
	}
	taken := map[string]string{}
	for i, l := range c.Listen {
		taken[l.Address] = fmt.Sprintf("listen[%d]", i)
	}
	taken[c.Admin] = "admin"
	for i, e := range c.Egress {
		field := fmt.Sprintf("egress[%d]", i)
		checkAddress(wrong, field+".address", e.Address)
		if first, dup := taken[e.Address]; dup && e.Address != "" && !isFree(e.Address) {
			wrong(field+".address", quote(e.Address), "an address of its own: "+first+" has it")
		} else {
			taken[e.Address] = field
		}
		e.upstream().check(wrong, field)
	}
	if n := c.Limits.Away; n < 0 || n > 1_000_000 {
		wrong("limits.away", strconv.Itoa(n), "1 to 1000000, or 0 for the default")
	}
}

// isFree reports whether the port of an address is any that is free.
func isFree(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port == "0"
}

// exit is one Egress that is open.
type exit struct {
	p       *Proxy
	cfg     Egress
	name    string
	url     *url.URL
	base    *connections
	keys    *reread.File // of base
	reverse *httputil.ReverseProxy
	http1   bool          // it speaks nothing newer
	silence time.Duration // of a body: see Limits.BodyTimeout

	// Calls that belonged to a request, that named a trace of none, and that named
	// none.
	matched, strange, untraced, failed atomic.Int64
	warned                             throttle
}

func (p *Proxy) newExit(l Limits, e Egress) (*exit, error) {
	u := e.upstream()
	target, _ := u.target() // checked before
	base, keys, err := connect(l, u, target.Scheme, 0)
	if err != nil {
		return nil, err
	}
	x := &exit{p: p, cfg: e, name: u.label(), base: base, keys: keys, http1: target.Scheme == "http", silence: l.BodyTimeout}
	if target.Scheme == "h2c" {
		target.Scheme = "http"
	}
	x.url = target
	x.reverse = &httputil.ReverseProxy{
		Rewrite: x.rewrite, Transport: asked{x.base}, BufferPool: p.buffers, ErrorHandler: x.fail,
		ModifyResponse: x.answered, ErrorLog: log.New(io.Discard, "", 0),
	}
	return x, nil
}

// asked makes an answer's request the one that was sent, with its body: what is further on wraps that.
type asked struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a asked) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Request = r
	}
	return resp, err
}

// outingKey is the key under which a call's context holds its *out.
type outingKey struct{}

// out is what is known of a call on its way.
type out struct {
	*outing
	reply  wire.Reply
	failed bool
	told   bool // tags were put on it
}

func outOf(ctx context.Context) *out {
	o, _ := ctx.Value(outingKey{}).(*out)
	return o
}

// ServeHTTP lets one call out.
func (x *exit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.p.outside.Add(1)
	defer x.p.outside.Add(-1)
	own := placeOf(r.Context())
	own.begin()
	defer own.end()
	if r.Method == http.MethodConnect {
		refuseConnect(w)
		return
	}
	if !r.ProtoAtLeast(1, 1) {
		w = uninformed{w}
	}
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		_ = http.NewResponseController(w).EnableFullDuplex() // as for clients: see upstream.serve
	}
	if b := newRequestBody(w, r, x.silence, x.http1); b != nil {
		defer b.cut()
		var end func()
		r, end = b.outlive(r)
		defer end()
	}
	o := &out{}
	switch id, ok, malformed := traceOf(r.Header); {
	case ok:
		o.outing = x.p.traces.begin(id)
	case malformed:
		x.p.traces.malformed.Add(1)
		fallthrough
	default:
		x.untraced.Add(1)
		hopless{w}.serve(x.reverse, r)
		return
	}
	if o.outing == nil {
		x.strange.Add(1)
		hopless{w}.serve(x.reverse, r)
		return
	}
	x.matched.Add(1)
	defer func() { o.end(o.reply, o.failed) }() // also if the copying of the answer panics
	hopless{w}.serve(x.reverse, r.WithContext(context.WithValue(r.Context(), outingKey{}, o)))
}

// rewrite makes the request that goes out of the server's. What it says of who is
// behind it goes on; the proxy is part of the server, and adds nothing.
func (x *exit) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(x.url) // and with it the host
	cleanTrailers(r.In.Trailer, true)
	r.Out.Trailer = r.In.Trailer
	if b, ok := r.In.Body.(*requestBody); ok {
		b.trailers, b.trusted = r.In.Trailer, true
		r.Out.Body = b // its Close does something: see upstream.rewrite
	}
	for name, v := range r.In.Header {
		switch name {
		case "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto":
			r.Out.Header[name] = v
		}
	}
	o := outOf(r.In.Context())
	if o == nil || o.v.span == nil {
		return
	}
	v, grpc := o.v, isGRPC(r.In)
	tags := wire.Tags{Workflow: v.sent.Workflow, Class: v.sent.Class, Priority: v.sent.Priority, Elapsed: v.span.Elapsed()}
	field := wire.HeaderName
	if grpc {
		field = binaryField
	}
	r.Out.Header[field] = []string{encode(tags.Append(nil), grpc)}
	stampBaggage(r.Out.Header, v.sent)
	o.told = true
}

// answered takes what the callee says of the request's progress.
func (x *exit) answered(resp *http.Response) error {
	tidy(resp)
	if b, _ := resp.Request.Body.(*requestBody); resp.StatusCode != http.StatusSwitchingProtocols {
		b.last(resp.Header)
	}
	o := outOf(resp.Request.Context())
	if o == nil || !o.told {
		return nil
	}
	o.failed = resp.StatusCode >= http.StatusInternalServerError
	for _, name := range [...]string{wire.HeaderName, binaryField} {
		if r, ok := decodeReply(resp.Header[name], name == binaryField); ok {
			o.reply = r
			if !r.HasShed {
				delete(resp.Header, name) // the server did not ask for it
			}
		}
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &lastWord{resp.Body, resp, o}
	}
	return nil
}

// lastWord reads what the callee says behind its answer.
type lastWord struct {
	io.ReadCloser
	resp *http.Response
	o    *out
}

// Read implements io.Reader.
func (l *lastWord) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if err == io.EOF {
		for _, name := range [...]string{wire.HeaderName, binaryField} {
			if r, ok := decodeReply(l.resp.Trailer[name], name == binaryField); ok {
				l.o.reply = r
			}
		}
	}
	return n, err
}

// fail answers a call that the callee did not.
func (x *exit) fail(w http.ResponseWriter, r *http.Request, err error) {
	if o := outOf(r.Context()); o != nil {
		o.failed = true
	}
	what := whatFailed(r, err)
	b, _ := r.Body.(*requestBody)
	b.abandon()
	b.last(w.Header())
	if what != clientLeft {
		x.failed.Add(1)
		if skipped, ok := x.warned.allow(time.Second); ok {
			x.p.log.Warn("a call of the upstream failed", "egress", x.name, "kind", string(what), "error", err, "also", skipped)
		}
	}
	code, rpc, title := http.StatusBadGateway, codes.Unavailable, "The called server closed the connection before it answered"
	switch what {
	case timedOut: // it may have done the work, so the code is none that clients of gRPC send again
		code, rpc, title = http.StatusGatewayTimeout, codes.DeadlineExceeded, "The called server did not answer in time"
	case connectFailed:
		title = "The called server cannot be reached"
	case noFiles:
		w.Header().Set("Retry-After", "1")
		fallthrough
	case clientSlow, clientFoul:
		code, rpc, title = endings[what].code, endings[what].grpc, endings[what].title
	}
	if isGRPC(r) {
		httpgate.WriteGRPCStatus(w, status.New(rpc, title))
		return
	}
	httpgate.Problem(w, r, code, title)
}

// close ends what is idle.
func (x *exit) close() { x.base.CloseIdleConnections() }
