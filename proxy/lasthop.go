package proxy

import (
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/spillgate/spillgate/httpgate"
)

// The methods of RFC 9110 that a server behind the proxy may have, for Allow, and without TRACE, which
// the proxy does not answer itself: its answer would be the request, secrets included.
const (
	ownMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
	allMethods = ownMethods + ", TRACE"
)

// lastHop answers a request that goes to no server behind the proxy, and reports true: one for a
// tunnel, one about the server as a whole (OPTIONS *), one whose target is no path, one whose method, host or length is malformed (of HTTP/2: net/http looks at those of
// HTTP/1), and one that has no hop left by its Max-Forwards (RFC 9110 §7.6.2). Of one that has, it counts this one. a is its entry in the access log, nil if there is none.
func lastHop(w http.ResponseWriter, r *http.Request, a *access) bool {
	if r.Method == http.MethodOptions && r.RequestURI == "*" { // asks for nothing; as net/http answers it
		a.say(exempted, "options")
		w.Header().Set("Content-Length", "0")
		return true
	}
	if r.ProtoMajor > 1 && !httpguts.ValidHeaderFieldName(r.Method) {
		a.say(broken, "method")
		httpgate.Problem(w, r, http.StatusBadRequest, "The request's method is none")
		return true
	}
	if r.Method != http.MethodConnect && (noPath(r) || !httpguts.ValidHostHeader(r.Host)) {
		a.say(broken, "target")
		httpgate.Problem(w, r, http.StatusBadRequest, "The request's target is no path, or its host is malformed")
		return true
	}
	if r.ProtoMajor > 1 && badLength(r.Header["Content-Length"]) {
		a.say(broken, "length")
		httpgate.Problem(w, r, http.StatusBadRequest, "The request's Content-Length is no number, or there are several that differ")
		return true
	}
	switch r.Method {
	case http.MethodConnect:
		a.say(broken, "connect")
		refuseConnect(w)
		return true
	case http.MethodOptions, http.MethodTrace:
	default:
		return false
	}
	v := r.Header["Max-Forwards"]
	if len(v) != 1 {
		return false
	}
	left, err := strconv.ParseUint(strings.TrimSpace(v[0]), 10, 31)
	switch {
	case err != nil:
		return false
	case left > 0:
		r.Header["Max-Forwards"] = []string{strconv.FormatUint(left-1, 10)}
		return false
	}
	a.say(exempted, "max_forwards")
	w.Header().Set("Allow", ownMethods)
	if r.Method == http.MethodTrace {
		http.Error(w, "the proxy does not answer TRACE itself", http.StatusMethodNotAllowed)
	} else {
		w.WriteHeader(http.StatusNoContent)
	}
	return true
}

// badLength reports whether the values of Content-Length are no length. net/http takes such a request of HTTP/2 for one
// without a body.
func badLength(values []string) bool {
	for _, v := range values {
		if _, err := strconv.ParseUint(v, 10, 63); err != nil || v != values[0] {
			return true
		}
	}
	return false
}

// noPath reports whether the target of a request is neither a path nor a URL with a host, such as x:a or *. No rule
// matches it, and servers that take what they get for a path would serve it.
func noPath(r *http.Request) bool {
	return r.URL.Opaque != "" || r.URL.Path != "" && r.URL.Path[0] != '/'
}

// refuseConnect answers a request for a tunnel. Allow is required beside 405 (RFC 9110 §15.5.6).
func refuseConnect(w http.ResponseWriter) {
	w.Header().Set("Allow", allMethods)
	http.Error(w, "CONNECT is for forward proxies, and this is a reverse proxy: send the request itself", http.StatusMethodNotAllowed)
}
