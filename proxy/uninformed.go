package proxy

import (
	"net/http"
	"strings"
)

// uninformed leaves out answers 1xx, which clients of HTTP/1.0 do not know: they take one for the answer, and the
// answer for that of their next request. Proxies speak HTTP/1.0, too: nginx does with its upstreams by default.
type uninformed struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w uninformed) WriteHeader(code int) {
	if code >= http.StatusOK {
		w.ResponseWriter.WriteHeader(code)
	}
}

// Unwrap lets http.ResponseController reach the writer below.
func (w uninformed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// hopless takes off what httputil.ReverseProxy leaves: what is for the next hop alone, of answers 1xx, and what can be in
// no trailer, of trailers that were not announced. The server of HTTP/1 would send these.
type hopless struct{ http.ResponseWriter }

// serve has the reverse proxy answer r.
func (w hopless) serve(reverse http.Handler, r *http.Request) {
	reverse.ServeHTTP(w, r)
	h := w.Header()
	for name := range h {
		if field, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && !mayTrail(field) {
			delete(h, name)
		}
	}
}

// WriteHeader implements http.ResponseWriter.
func (w hopless) WriteHeader(code int) {
	if code < http.StatusOK && code != http.StatusSwitchingProtocols {
		withoutHops(w.Header())
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the writer below.
func (w hopless) Unwrap() http.ResponseWriter { return w.ResponseWriter }
