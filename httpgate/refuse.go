package httpgate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// statusClientClosed is what proxies log for a client that left; nobody is there
// to read it.
const statusClientClosed = 499

// The names of the quota policies in RateLimit fields.
const (
	policyCredit   = "credit"   // the client's own window
	policyRate     = "rate"     // of the request's workflow
	policyCapacity = "capacity" // the server's slots
)

// Status returns the HTTP status of a refusal: 429 if the client's own means or its
// workflow's are spent, 503 if the server is short, 504 if nothing can help in time, 499 if the
// caller left. A Handler with OverloadStatus may answer with another.
func Status(r work.Reason) int {
	switch r {
	case work.WalletFull, work.WalletExpired, work.RetryBudget, work.Share, work.Rate:
		return http.StatusTooManyRequests
	case work.Expired, work.Infeasible:
		return http.StatusGatewayTimeout
	case work.Canceled:
		return statusClientClosed
	}
	return http.StatusServiceUnavailable
}

// Refuse answers r with a refusal that a handler met itself, such as that of a
// Transport's wallet, in the form in which a Handler refuses.
func Refuse(w http.ResponseWriter, r *http.Request, refusal *live.Refusal) {
	var o *options
	if own := writerIn(w); own != nil {
		o = &own.h.options
	}
	o.refuse(w, r, refusal, answer(refusal, wire.Grant{}, false), 0, isGRPC(r.Header))
}

// OverloadStatus chooses the status of requests that are refused because the server is short, in
// place of 503: some balancers and clients take a 503 for a server that is broken, and send 429
// again later. f says it for a request, from 400 to 599, or 0 for 503; it must not block. A server that drains, or that
// cancelled the request, still says 503, and a client beyond its own share 429. Of several, the
// last counts.
func OverloadStatus(f func(*http.Request) int) Option {
	return func(o *options) { o.overload = f }
}

// status returns the status of a refusal. o may be nil.
func (o *options) status(r *http.Request, reason work.Reason) int {
	status := Status(reason)
	if o == nil || o.overload == nil || status != http.StatusServiceUnavailable || reason == work.Draining || reason == work.Culprit {
		return status
	}
	if own := o.overload(r); own != 0 {
		return own
	}
	return status
}

// RefuseBelow answers r if err is the refusal of a service that r's handler called, of its
// gate or of the wallet in front of it, by gRPC or by HTTP; it reports false for any other
// error, and then has written nothing. Whose quota was spent down there is nothing to r's
// client: it learns that the server is short, and when to come again.
//
//	if err := call(ctx); err != nil {
//		if !httpgate.RefuseBelow(w, r, err) {
//			http.Error(w, "the store failed", http.StatusBadGateway)
//		}
//		return
//	}
//
// A server's own refusal is no error of an http.Client but a response: RefusalIn finds it there.
func RefuseBelow(w http.ResponseWriter, r *http.Request, err error) bool {
	var below *live.Refusal
	if !errors.As(err, &below) {
		return false
	}
	Refuse(w, r, &live.Refusal{Reason: work.Downstream, Pushback: below.Pushback})
	return true
}

// RefusalIn returns a *spillgate.Refusal if the server that answered with resp, or one further down, refused the request,
// and nil for any other response, errors of the application and refusals without Spillgate's field among them. The
// refusal has the reason and the pushback, and no ID, which is in the body. The body is left as it is. It is for handlers that
// call a service by HTTP and pass its refusal on:
//
//	resp, err := client.Do(req)
//	if err == nil {
//		defer resp.Body.Close()
//		err = httpgate.RefusalIn(resp)
//	}
//	if err != nil {
//		… // HTTP: RefuseBelow. gRPC: return err
//	}
func RefusalIn(resp *http.Response) error {
	grpc := isGRPC(resp.Header)
	values := resp.Header[fieldFor(grpc)]
	if len(values) == 0 {
		return nil
	}
	msg, err := decodeField(values, grpc)
	if err != nil {
		return nil
	}
	reply, err := wire.ParseReply(msg)
	if err != nil || !reply.HasShed {
		return nil
	}
	return &live.Refusal{Reason: reply.Shed.Reason, Pushback: reply.Shed.Pushback}
}

// write is Patience.Write. o may be nil.
func (o *options) write() time.Duration {
	if o == nil || o.patience.Write == 0 {
		return defaultWrite
	}
	return o.patience.Write
}

// leaves bounds how long what is left of an answer over HTTP/2 may take to leave once its handler has returned: a client that
// opens no window for it would keep the stream, and its memory. One that has left has no stream any more, of which a deadline would
// keep the rest for as long. o may be nil.
func (o *options) leaves(w http.ResponseWriter, r *http.Request) {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if write := o.write(); r.ProtoMajor >= 2 && write > 0 && (server == nil || server.WriteTimeout == 0) && r.Context().Err() != context.Canceled {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(write))
	}
}

// refuse answers a request that the gate did not admit.
func (w *writer) refuse(r *http.Request, err error) {
	var refusal *live.Refusal
	if !errors.As(err, &refusal) {
		refusal = &live.Refusal{Reason: work.Canceled, Pushback: -1}
	}
	var grant wire.Grant
	var has bool
	if w.account != nil {
		if refusal.HasGrant {
			grant, has = w.account.take(w.target, refusal.Grant), true
		} else {
			grant, has = w.account.newest(true)
		}
	}
	quota := 0
	switch {
	case refusal.Reason == work.Share && has:
		quota = int(grant.Window)
	case Status(refusal.Reason) == http.StatusServiceUnavailable && refusal.Reason != work.Draining && refusal.Reason != work.Culprit:
		quota = w.target.gate.Stats().Limit
	}
	w.h.options.refuse(w.ResponseWriter, r, refusal, answer(refusal, grant, has), quota, w.in.grpc)
}

// answer is the exact form of a refusal.
func answer(r *live.Refusal, grant wire.Grant, has bool) wire.Reply {
	reply := r.Reply()
	reply.Grant, reply.HasGrant = grant, has
	return reply
}

// refuse writes a refusal. quota is the number of concurrent requests that the
// policy in question allows, 0 if it is not known. o may be nil.
func (o *options) refuse(w http.ResponseWriter, r *http.Request, refusal *live.Refusal, reply wire.Reply, quota int, grpc bool) {
	o.leaves(w, r)
	h := w.Header()
	var buf [wire.MaxReply]byte
	h[fieldFor(grpc)] = []string{encodeField(reply.Append(buf[:0]), grpc)}
	if grpc {
		refuseGRPC(w, refusal)
		return
	}
	status := o.status(r, refusal.Reason)
	policy := ""
	switch Status(refusal.Reason) {
	case http.StatusTooManyRequests:
		if policy = policyCredit; refusal.Reason == work.Rate {
			policy = policyRate
		}
	case http.StatusServiceUnavailable:
		if policy = policyCapacity; refusal.Reason == work.Culprit {
			policy = "" // it is about this request, not about the others
		}
	}
	wait := refusal.Pushback
	if refusal.Resend.Token != (wire.Token{}) {
		wait = refusal.Resend.After
		h[resendField] = []string{refusal.Resend.Header()}
	}
	if wait >= 0 {
		after := strconv.FormatInt(int64((max(wait, 1)+time.Second-1)/time.Second), 10)
		h["Retry-After"] = []string{after}
		if policy != "" {
			h["Ratelimit"] = []string{`"` + policy + `";r=0;t=` + after}
		}
	}
	if policy != "" && quota > 0 {
		h["Ratelimit-Policy"] = []string{`"` + policy + `";q=` + strconv.Itoa(quota) + `;qu="concurrent-requests"`}
	}
	if refusal.Reason == work.Draining && r.ProtoMajor == 1 {
		h["Connection"] = []string{"close"}
	}
	writeProblem(w, r, status, problem(refusal, status, policy))
}

// writeProblem writes an answer that is a problem (RFC 9457).
func writeProblem(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	h := w.Header()
	h["Cache-Control"] = []string{"no-store"}
	h["Content-Type"] = []string{"application/problem+json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// Problem writes an answer that its status and a title say all about (RFC 9457), such as a
// failure to reach another server.
func Problem(w http.ResponseWriter, r *http.Request, status int, title string) {
	writeProblem(w, r, status, fmt.Appendf(nil, `{"type":"about:blank","title":%q,"status":%d}`+"\n", title, status))
}

// problem returns the body of a refusal (RFC 9457). The types are those of
// draft-ietf-httpapi-ratelimit-headers §5 where there is one.
func problem(refusal *live.Refusal, status int, policy string) []byte {
	const types = "https://iana.org/assignments/http-problem-types#"
	kind, title, violated := "about:blank", "The request was not served", ""
	switch policy {
	case policyCredit:
		kind, title = types+"quota-exceeded", "The client exceeds its credits or its share"
	case policyRate:
		kind, title = types+"quota-exceeded", "The workflow exceeds its rate"
	case policyCapacity:
		kind, title = types+"temporary-reduced-capacity", "The server is at its capacity"
	default:
		switch {
		case refusal.Resend.Token != (wire.Token{}):
			title = "The request was cancelled because it blocked others"
		case status == http.StatusGatewayTimeout:
			title = "The request could not be answered before its deadline"
		}
	}
	if policy != "" {
		violated = `,"violated-policies":["` + policy + `"]`
	}
	named := ""
	if refusal.ID != 0 {
		named = `,"refusal":"` + refusal.ID.String() + `"`
	}
	return fmt.Appendf(nil, `{"type":"%s","title":"%s","status":%d,"reason":"%s","retryable":%t%s%s}`+"\n",
		kind, title, status, refusal.Reason, refusal.Pushback >= 0 && refusal.Reason.Retryable(), named, violated)
}
