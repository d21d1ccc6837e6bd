package proxy

import (
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/spillgate/spillgate/internal/http1"
	"github.com/spillgate/spillgate/internal/wire"
)

// pass forwards a request that asks for no upgrade to an upstream of HTTP/1, and the answer to its client. It is what
// httputil.ReverseProxy does for all others, without copies of what nobody changes: the values of fields are shared
// between a request and what is sent of it, and between an answer and what is passed on.
//
// Like it, pass panics with http.ErrAbortHandler if the answer breaks off, so that the client sees that.
func (u *upstream) pass(w http.ResponseWriter, r *http.Request) {
	watch := http1.Watch{Inform: func(code int, from http.Header) error {
		withoutHops(from)
		h := w.Header()
		add(h, from)
		w.WriteHeader(code)
		clear(h)
		return nil
	}}
	out := u.outgoing(r, &watch)
	resp, err := u.sends.RoundTrip(out)
	if err == nil && (resp.StatusCode == http.StatusSwitchingProtocols || resp.StatusCode < 100) {
		resp.Body.Close()
		err = errUnasked
	}
	if err != nil {
		u.fail(w, out, err)
		return
	}
	withoutHops(resp.Header)
	dropTrailers(resp.Trailer)
	announced := slices.Collect(maps.Keys(resp.Trailer)) // those that come may be others
	passed, err := u.p.copyBody(w, resp, watch.Begun, func() {
		u.answered(resp)
		h := w.Header()
		add(h, resp.Header)
		if len(announced) > 0 {
			h.Add("Trailer", strings.Join(announced, ", "))
		}
		w.WriteHeader(resp.StatusCode)
	})
	switch {
	case err != nil && !passed:
		resp.Body.Close()
		u.fail(w, out, counted{err})
		return
	case err != nil:
		resp.Body.Close()
		panic(http.ErrAbortHandler)
	}
	resp.Body.Close() // and with it the trailers are there
	dropTrailers(resp.Trailer)
	if len(resp.Trailer) > 0 {
		// Else a short answer gets a length, and has no trailers.
		_ = http.NewResponseController(w).Flush()
	}
	h, prefix := w.Header(), http.TrailerPrefix
	if len(resp.Trailer) == len(announced) {
		prefix = ""
	}
	for name, values := range resp.Trailer {
		if len(values) > 0 { // else the server of HTTP/2 believes that there is one, and does not end the stream
			h[prefix+name] = append(h[prefix+name], values...)
		}
	}
}

// counted is an error of the body of an answer: who read it has counted it, unless its client left.
type counted struct{ error }

// Unwrap is for the package errors.
func (c counted) Unwrap() error { return c.error }

// dropTrailers takes out of trailers what cannot be among them.
func dropTrailers(h http.Header) {
	for name := range h {
		if !mayTrail(name) {
			delete(h, name)
		}
	}
}

// mayTrail reports whether a field can be among trailers.
func mayTrail(name string) bool {
	return httpguts.ValidHeaderFieldName(name) && httpguts.ValidTrailerHeader(name)
}

// errUnasked is the error of an answer 101 to a request that asks for no upgrade, and of one with a status below 100,
// which a http.ResponseWriter panics at.
var errUnasked = unasked{}

type unasked struct{}

// Error implements error.
func (unasked) Error() string {
	return "proxy: the upstream switches protocols although it was not asked to, or answers with no status of HTTP"
}

// outgoing returns the request that is sent for r.
func (u *upstream) outgoing(r *http.Request, watch *http1.Watch) *http.Request {
	out := r.WithContext(watch.In(r.Context()))
	to := *r.URL
	to.RawQuery = cleanQuery(to.RawQuery)
	out.URL, out.Close, out.Header = &to, false, make(http.Header, len(r.Header)+spareFields)
	if r.ContentLength == 0 {
		out.Body = nil // else it cannot be sent again
	}
	for name, values := range r.Header {
		switch {
		case isHop(name), name == "Forwarded", name == "X-Forwarded-For", name == "X-Forwarded-Host", name == "X-Forwarded-Proto":
		default:
			out.Header[name] = values[:len(values):len(values)]
		}
	}
	withoutNamed(out.Header, r.Header["Connection"])
	if te := r.Header["Te"]; te != nil && httpguts.HeaderValuesContainsToken(te, "trailers") {
		out.Header["Te"] = []string{"trailers"}
	}
	u.rewrite(&httputil.ProxyRequest{In: r, Out: out})
	return out
}

// spareFields is how many fields the proxy and the gate may add.
const spareFields = 6

// isHop reports whether a field is for the next hop alone.
func isHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// withoutNamed deletes the fields that those of Connection name.
func withoutNamed(h http.Header, connection []string) {
	for _, v := range connection {
		for name := range strings.SplitSeq(v, ",") {
			h.Del(textproto.TrimString(name))
		}
	}
}

// forUs takes off a request what its client says is for the proxy alone, so that nothing is decided by a field that the server
// does not see: a rule would give a request what the server cannot check. It leaves what the proxy heeds, and what says who
// the client is, which is for others to take off.
func forUs(h http.Header) {
	said := h["Connection"]
	if len(said) == 0 || len(said) == 1 && (strings.EqualFold(said[0], "keep-alive") || strings.EqualFold(said[0], "close") || strings.EqualFold(said[0], "upgrade")) {
		return
	}
	var left []string
	for _, v := range said {
		for name := range strings.SplitSeq(v, ",") {
			name = http.CanonicalHeaderKey(textproto.TrimString(name))
			switch {
			case name == "Close" || isHop(name):
				left = append(left, name)
			case name == wire.HeaderName, name == binaryField, name == "Forwarded", namesClient(name):
			default:
				delete(h, name)
			}
		}
	}
	h["Connection"] = []string{strings.Join(left, ", ")}
}

// withoutHops takes off an answer what is for the next hop alone.
func withoutHops(h http.Header) {
	withoutNamed(h, h["Connection"])
	for name := range h {
		if isHop(name) {
			delete(h, name)
		}
	}
}

// add puts the fields of from into h, which may share their values.
func add(h, from http.Header) {
	for name, values := range from {
		if had := h[name]; had != nil {
			values = append(had[:len(had):len(had)], values...)
		}
		h[name] = values
	}
}

// cleanQuery returns a query that every server reads alike: parts that cannot be parsed are left out, and blanks, which
// clients of HTTP/2 can send and which would end the target of a request, are escaped.
func cleanQuery(s string) string {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == ';', s[i] == ' ', s[i] == '%' && (i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2])):
			values, _ := url.ParseQuery(s) // what there is of it
			return values.Encode()
		}
	}
	return s
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// copyBody passes the body of an answer on, behind the header, which head writes; one of unknown length, and of events,
// without waiting for more. begun is that some of it is there. Else the header goes first; with it, an answer whose body
// is malformed from its first byte on has no header yet, and passed is false.
func (p *Proxy) copyBody(w http.ResponseWriter, resp *http.Response, begun bool, head func()) (passed bool, err error) {
	var flush func() error
	if resp.ContentLength == -1 || strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream") {
		flush = http.NewResponseController(w).Flush
	}
	if !begun {
		head()
		if flush != nil {
			_ = flush()
		}
	}
	buf := p.buffers.Get()
	defer p.buffers.Put(buf)
	for passed = !begun; ; {
		n, err := resp.Body.Read(buf)
		if !passed && (n > 0 || err == nil || err == io.EOF) {
			head()
			passed = true
		}
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return passed, err
			}
			if flush != nil {
				_ = flush()
			}
		}
		switch err {
		case nil:
		case io.EOF:
			return passed, nil
		default:
			return passed, err
		}
	}
}
