package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/http1"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// serve is the handler of an upstream, behind its gate.
func (u *upstream) serve(reverse http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.inside.Add(1)
		defer u.inside.Add(-1)
		if u.http1 && isGRPC(r) {
			httpgate.SetOutcome(w, work.Ignored)
			httpgate.WriteGRPCStatus(w, status.New(codes.Unimplemented, "the upstream is configured as http://, which is HTTP/1.1; gRPC needs h2c:// or https://"))
			return
		}
		if !r.ProtoAtLeast(1, 1) {
			w = uninformed{w}
		}
		if v := u.p.visitOf(r); v != nil {
			v.admitted(u, r.Context())
			defer v.served()
		}
		defer u.traced.begin(r)()
		if r.ProtoMajor == 1 && r.ContentLength != 0 {
			// Else the server throws away what is left of the request's body once
			// the answer begins, and what an upstream that answers early gets is
			// cut short.
			_ = http.NewResponseController(w).EnableFullDuplex()
		}
		if b := newRequestBody(w, r, u.bodyTimeout, u.http1); b != nil {
			defer b.done()
			var end func()
			r, end = b.outlive(r)
			defer end()
		}
		if u.http1 && r.Header["Upgrade"] == nil {
			u.pass(w, r)
			return
		}
		hopless{w}.serve(reverse, r)
	})
}

// rewrite makes the request for the upstream out of the client's. The reverse
// proxy has taken off hop-by-hop fields and all that claims to say who the
// client is.
func (u *upstream) rewrite(r *httputil.ProxyRequest) {
	if u.prefix {
		r.SetURL(u.url)
	} else {
		r.Out.URL.Scheme, r.Out.URL.Host = u.url.Scheme, u.url.Host
	}
	r.Out.Host = r.In.Host
	trusted := u.p.state.Load().trusts(r.In)
	cleanTrailers(r.In.Trailer, trusted)
	r.Out.Trailer = r.In.Trailer // filled in when the body has ended; a copy would stay empty
	if b, ok := r.In.Body.(*requestBody); ok {
		b.trailers, b.trusted = r.In.Trailer, trusted
		r.Out.Body = b
	}
	in, out := r.In.Header, r.Out.Header
	delete(out, "Proxy") // no field of HTTP; CGI takes it for the proxy of the server's own calls ("httpoxy")
	if leavesGate(out["Upgrade"]) {
		delete(out, "Upgrade")
		delete(out, "Connection")
	}
	if trusted {
		if v := in["X-Forwarded-For"]; v != nil {
			out["X-Forwarded-For"] = v
		}
	} else {
		for name := range out {
			if namesClient(name) {
				delete(out, name)
			}
		}
	}
	r.SetXForwarded()
	if !trusted {
		return
	}
	if v := in["X-Forwarded-For"]; v != nil && out["X-Forwarded-For"] == nil {
		out["X-Forwarded-For"] = v // the client of a socket has no address to be added
	}
	for _, name := range [...]string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v := in[name]; v != nil {
			out[name] = v
		}
	}
	if v := in["Forwarded"]; v != nil {
		// The standard field (RFC 7239) is continued where a client sends it, and begun for no client.
		out["Forwarded"] = []string{strings.Join(v, ", ") + ", " + forwarded(r.In)}
	}
}

// cleanTrailers leaves in the trailers of a request what may be there: servers that make no difference between them and
// the header would believe what the proxy takes off the header. The server takes what is announced as it is.
func cleanTrailers(h http.Header, trusted bool) {
	dropTrailers(h)
	for name := range h {
		if name == "Proxy" || !trusted && (name == "Forwarded" || namesClient(name)) {
			delete(h, name)
		}
	}
}

// namesClient reports whether a field says who the client is. Servers that hand fields on as
// variables (CGI, WSGI, PHP) read X_Forwarded_For as X-Forwarded-For.
func namesClient(field string) bool {
	const forwarded, real = "X-Forwarded-", "X-Real-Ip"
	if len(field) < len(real) || field[0] != 'X' && field[0] != 'x' {
		return false
	}
	field = strings.ReplaceAll(field, "_", "-")
	return strings.EqualFold(field, real) || len(field) > len(forwarded) && strings.EqualFold(field[:len(forwarded)], forwarded)
}

// leavesGate reports whether an Upgrade field asks for another version of HTTP or for TLS. An
// upstream that agreed would take any number of requests on that connection, past the rules, the
// trust and the gate (known as h2c smuggling). A server may ignore the field (RFC 9110 §7.8).
func leavesGate(upgrade []string) bool {
	for _, v := range upgrade {
		for protocol := range strings.SplitSeq(v, ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(protocol), "/")
			if strings.EqualFold(name, "h2c") || strings.EqualFold(name, "http") || strings.EqualFold(name, "tls") {
				return true
			}
		}
	}
	return false
}

// forwarded is the element of the Forwarded field for the hop from r's client.
func forwarded(r *http.Request) string {
	node := "unknown"
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		if a, err := netip.ParseAddr(host); err == nil {
			if node = a.Unmap().String(); a.Unmap().Is6() {
				node = `"[` + node + `]"`
			}
		}
	}
	proto := "http"
	if r.TLS != nil {
		proto = "https"
	}
	return "for=" + node + ";proto=" + proto
}

// kind is what went wrong with an upstream, as a label.
type kind string

const (
	connectFailed kind = "connect"
	timedOut      kind = "timeout"
	brokeOff      kind = "reset"
	largeHeader   kind = "large_header" // of the answer
	truncated     kind = "truncated"    // in the middle of the answer's body
	clientLeft    kind = "client_left"
	clientSlow    kind = "client_slow"
	clientFoul    kind = "client_malformed" // or broke off in the middle
	noFiles       kind = "no_files"         // the proxy's own
)

// allKinds are all of them.
var allKinds = [...]string{string(connectFailed), string(timedOut), string(brokeOff), string(largeHeader), string(truncated), string(clientLeft), string(clientSlow), string(clientFoul), string(noFiles)}

// fail answers a request that the upstream did not. It is called by the reverse
// proxy, before anything was written. What went wrong is for the log; the client
// learns nothing about what is behind the proxy.
func (u *upstream) fail(w http.ResponseWriter, r *http.Request, err error) {
	b, _ := r.Body.(*requestBody)
	var refusal *live.Refusal
	if errors.As(err, &refusal) && r.Context().Err() == nil {
		// The proxy has no credit of the upstream. To the client that is the
		// delay in front of a server that is short, and nothing was executed.
		httpgate.SetOutcome(w, work.Dropped)
		if b != nil && b.begun.Load() {
			b.last(w.Header())
		}
		pushback := max(refusal.Pushback, u.gate.Objective()/10)
		httpgate.Refuse(w, r, &live.Refusal{Reason: work.Delay, Pushback: pushback})
		return
	}
	if errors.Is(context.Cause(r.Context()), live.ErrCancelled) {
		b.last(w.Header())
		w.WriteHeader(http.StatusServiceUnavailable) // which the gate puts its own answer in place of
		return
	}
	httpgate.SetOutcome(w, work.Ignored)
	if err == errGlance && u.again(w, r, brokeOff) {
		return
	}
	what := whatFailed(r, err)
	reason := string(what)
	if what == clientLeft && u.p.cutting.Load() {
		reason = "cut_off"
	}
	u.p.logOf(r).say(broken, reason)
	if what == connectFailed {
		u.downUntil.Store(int64(live.Now().Add(unreachableFor)))
	}
	if _, is := err.(counted); !is || what == clientLeft {
		u.failed.add(string(what))
	}
	if what == clientLeft {
		// The client may be there all the same: to break a body off ends the request's context.
		b.last(w.Header())
		httpgate.Refuse(w, r, &live.Refusal{Reason: work.Canceled, Pushback: -1}) // nobody reads it
		return
	}
	if u.again(w, r, what) {
		u.warn(what, err)
		return
	}
	b.abandon()
	b.last(w.Header())
	if what != clientSlow && what != clientFoul {
		u.warn(what, err)
	}
	tell(w, r, what, err)
}

// tell answers a request that an upstream did not for that error, by the protocol of its client.
func tell(w http.ResponseWriter, r *http.Request, what kind, err error) {
	end := endings[what]
	switch {
	case what == noFiles:
		w.Header().Set("Retry-After", "1")
	case what == connectFailed && isTimeout(err):
		end.code = http.StatusGatewayTimeout
	case what == clientFoul && isLongRequest(err):
		end.code, end.title = http.StatusRequestHeaderFieldsTooLarge, "The header of the request is larger than the server behind the proxy takes"
	}
	if isGRPC(r) {
		httpgate.WriteGRPCStatus(w, status.New(end.grpc, end.title))
		return
	}
	httpgate.Problem(w, r, end.code, end.title)
}

// warn says in the log, now and then, that the upstream did not answer.
func (u *upstream) warn(what kind, err error) {
	if skipped, ok := u.failures.allow(time.Second); ok {
		u.p.log.Warn("upstream failed", "upstream", u.name, "kind", string(what), "error", err, "also", skipped)
	}
}

// endings are the answers to requests that an upstream did not answer.
var endings = map[kind]struct {
	code  int
	grpc  codes.Code
	title string
}{
	connectFailed: {http.StatusBadGateway, codes.Unavailable, "The server behind the proxy cannot be reached"},
	timedOut:      {http.StatusGatewayTimeout, codes.DeadlineExceeded, "The server behind the proxy did not answer in time"},
	brokeOff:      {http.StatusBadGateway, codes.Unavailable, "The server behind the proxy closed the connection before it answered"},
	largeHeader:   {http.StatusBadGateway, codes.Internal, "The answer of the server behind the proxy has a header that is too large"},
	noFiles:       {http.StatusServiceUnavailable, codes.Unavailable, "The proxy can open no more connections"},
	clientSlow:    {http.StatusRequestTimeout, codes.Canceled, "The client sent its request too slowly"},
	clientFoul:    {http.StatusBadRequest, codes.Canceled, "The client's request is cut off or malformed"},
}

// whatFailed says what the error of a round trip means for a request: what its client
// did wrong is not the upstream's.
func whatFailed(r *http.Request, err error) kind {
	what := meaning(r.Context(), err)
	b, _ := r.Body.(*requestBody)
	switch {
	case b == nil:
	case b.slow.Load():
		return clientSlow
	case b.foul.Load() && what != clientLeft:
		return clientFoul
	case b.broken.Load() && what == clientLeft && !errors.Is(err, context.Canceled):
		// Breaking the body off ended the context, which came after the error; it was not the client.
		return meaning(context.Background(), err)
	}
	return what
}

// over reports whether a request has ended: its client left, or its deadline is over, also if the
// timer that ends its context is late. A server that knows the deadline breaks off at that moment,
// which is no failure of it.
func over(ctx context.Context) bool {
	d, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(d)
}

// meaning says what an error of a round trip means.
func meaning(ctx context.Context, err error) kind {
	if errors.Is(ctx.Err(), context.Canceled) {
		return clientLeft
	}
	var op *net.OpError
	var unknownAuthority x509.UnknownAuthorityError
	var badCertificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, http1.ErrRequest), isLongRequest(err):
		return clientFoul
	case isLargeHeader(err):
		return largeHeader
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return noFiles
	case errors.As(err, &op) && op.Op == "dial", errors.As(err, &unknownAuthority), errors.As(err, &badCertificate):
		return connectFailed
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err), over(ctx):
		return timedOut
	}
	return brokeOff
}

// isLargeHeader reports whether the header of an answer was larger than Limits.AnswerHeader. The errors of
// http.Transport for that have no type. A single field of that size breaks a connection of HTTP/2, and looks as any
// broken connection does.
func isLargeHeader(err error) bool {
	if errors.Is(err, http1.ErrHeader) {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "server response headers exceeded") || strings.Contains(text, "response header list larger than advertised limit")
}

// isLongRequest reports whether the header of a request is larger than a server of HTTP/2 says that it takes, which
// http.Transport sends none of. Its error has no type.
func isLongRequest(err error) bool {
	return strings.Contains(err.Error(), "request header list larger than peer's advertised limit")
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// isGRPC reports whether a request is a gRPC call, whose client expects errors as gRPC statuses.
func isGRPC(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.Header.Get("Content-Type"), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// throttle lets one event pass for each span of time and counts the others.
type throttle struct{ last, skipped atomic.Int64 }

// allow reports whether an event may pass, and how many did not since the last.
func (t *throttle) allow(every time.Duration) (skipped int64, ok bool) {
	now, last := int64(live.Now()), t.last.Load()
	if last != 0 && now-last < int64(every) || !t.last.CompareAndSwap(last, now) {
		t.skipped.Add(1)
		return 0, false
	}
	return t.skipped.Swap(0), true
}
