package http1

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
)

// Watch is what a caller wants to know of a request besides its answer. It is for one
// RoundTrip at a time, whose goroutine uses it.
type Watch struct {
	// Inform is called with each answer 1xx but 101. Its error ends the request. Nil: nobody takes them.
	Inform func(code int, header http.Header) error
	// Begun says of an answer with a body whether that has begun when RoundTrip returns: its first Read does not
	// wait. It is that of the last answer.
	Begun bool
}

type watchKey struct{}

// In returns a context in which requests are watched. A httptrace.ClientTrace there is not asked then.
func (w *Watch) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, watchKey{}, w)
}

// inform hands on an answer 1xx, and reports whether anybody takes it.
func (x *exchange) inform(code int, header http.Header) (taken bool, err error) {
	if w, ok := x.r.Context().Value(watchKey{}).(*Watch); ok && w.Inform != nil {
		return true, w.Inform(code, header)
	}
	if trace := httptrace.ContextClientTrace(x.r.Context()); trace != nil && trace.Got1xxResponse != nil {
		return true, trace.Got1xxResponse(code, textproto.MIMEHeader(header))
	}
	return false, nil
}

// begun tells that the body of an answer of unknown length has begun: there is more than the size of a chunk.
func (x *exchange) begun(resp *http.Response) {
	w, ok := x.r.Context().Value(watchKey{}).(*Watch)
	if !ok {
		return
	}
	there, _ := x.conn.br.Peek(x.conn.br.Buffered())
	i := bytes.IndexByte(there, '\n')
	w.Begun = resp.ContentLength < 0 && len(there) > 0 && (resp.TransferEncoding == nil || i >= 0 && i+1 < len(there))
}
