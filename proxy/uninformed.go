package proxy

import "net/http"

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
